package rlock.shedlock;

import java.util.Objects;
import java.util.Optional;
import net.javacrumbs.shedlock.core.ExtensibleLockProvider;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.support.LockException;
import rlock.client.Client;
import rlock.client.Guard;
import rlock.client.NamedLock;
import rlock.client.RlockException.Denied;

/**
 * Locks of ShedLock on a server with the rlock module.
 *
 * <p>A lock is a fixed lease of {@code lockAtMostFor}, at least 100 ms, that nothing renews but
 * {@code extend}. It ends at its unlock, but not before {@code lockAtLeastFor}. Each lock has an
 * owner of its own: no other process or task can unlock or extend it.
 */
public final class RlockLockProvider implements ExtensibleLockProvider {
  private static final String REDIS_PROVIDERS = "job-lock:default:";

  private final Client client;
  private final String prefix;

  /**
   * Locks under the keys of ShedLock's providers for Redis, {@code job-lock:default:<name>}: the
   * old provider and this one exclude each other while a service changes from one to the other.
   *
   * @param client without a session grace, which would free the lock of a crashed process sooner
   *     than {@code lockAtLeastFor}
   */
  public RlockLockProvider(Client client) {
    this(client, REDIS_PROVIDERS);
  }

  /**
   * Locks under keys of your own.
   *
   * @param client without a session grace
   * @param prefix of the keys; the name of the lock follows
   */
  public RlockLockProvider(Client client, String prefix) {
    this.client = Objects.requireNonNull(client);
    this.prefix = Objects.requireNonNull(prefix);
  }

  /**
   * Asks for the lock once.
   *
   * @return empty, if another process or task holds the lock
   * @throws rlock.client.RlockException if it is unknown whether the lock is free, for example if
   *     no server answers
   */
  @Override
  public Optional<SimpleLock> lock(LockConfiguration wanted) {
    try {
      Guard guard = handle(wanted).tryAcquire();
      return Optional.of(new HeldLock(this, wanted, guard));
    } catch (Denied others) {
      return Optional.empty();
    } catch (InterruptedException interruption) {
      throw interrupted(wanted, interruption);
    }
  }

  NamedLock handle(LockConfiguration wanted) {
    return client
        .lock(prefix + wanted.getName())
        .withLease(wanted.getLockAtMostFor())
        .withoutRenewal()
        .withAtLeast(wanted.getLockAtLeastFor());
  }

  static LockException interrupted(LockConfiguration wanted, InterruptedException cause) {
    Thread.currentThread().interrupt();
    return new LockException(
        "the thread was interrupted before the server answered for the lock " + wanted.getName(),
        cause);
  }
}
