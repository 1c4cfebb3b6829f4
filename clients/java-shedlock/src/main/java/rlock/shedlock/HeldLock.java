package rlock.shedlock;

import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.util.Optional;
import net.javacrumbs.shedlock.core.AbstractSimpleLock;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.SimpleLock;
import rlock.client.Guard;
import rlock.client.RlockException;
import rlock.client.RlockException.LockLost;

/** A lock that a task holds. */
final class HeldLock extends AbstractSimpleLock {
  private static final Logger LOG = System.getLogger("rlock.shedlock");

  private final RlockLockProvider provider;
  private final Guard guard;

  HeldLock(RlockLockProvider provider, LockConfiguration configuration, Guard guard) {
    super(configuration);
    this.provider = provider;
    this.guard = guard;
  }

  /** Throws nothing about the lock: ShedLock unlocks in a finally, and the task's error counts. */
  @Override
  protected void doUnlock() {
    try {
      guard.release();
    } catch (LockLost lost) {
      LOG.log(
          Level.WARNING,
          "{0}; another process may have run the task at the same time: raise lockAtMostFor, or extend the lock",
          lost.getMessage());
    } catch (RlockException error) {
      LOG.log(Level.WARNING, error.getMessage()); // the lock ends with lockAtMostFor
    }
  }

  @Override
  protected Optional<SimpleLock> doExtend(LockConfiguration wanted) {
    try {
      // The one way to another lease under the same owner: the lock stays held in between.
      Guard.Detached left = guard.detach();
      Guard extended = provider.handle(wanted).adopt(left.owner());
      return Optional.of(new HeldLock(provider, wanted, extended));
    } catch (LockLost lost) {
      return Optional.empty();
    } catch (InterruptedException interruption) {
      throw RlockLockProvider.interrupted(wanted, interruption);
    }
  }
}
