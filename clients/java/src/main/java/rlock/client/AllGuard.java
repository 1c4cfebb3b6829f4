package rlock.client;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import rlock.client.RlockException.LockLost;
import rlock.client.RlockException.OutcomeUnknown;

/** Several locks that are held together, and lost as soon as one of them is. */
public final class AllGuard implements AutoCloseable {
  private final List<Guard> guards;
  private final CompletableFuture<LostReason> lost;

  AllGuard(List<Guard> guards) {
    this.guards = guards;
    this.lost =
        CompletableFuture.anyOf(guards.stream().map(Guard::lost).toArray(CompletableFuture[]::new))
            .thenApply(LostReason.class::cast);
  }

  /**
   * Completes as soon as others may hold one of the locks; never, if they are released before.
   *
   * @return why it was lost
   */
  public CompletableFuture<LostReason> lost() {
    return lost.copy();
  }

  /**
   * Compares the local deadlines, and sends nothing.
   *
   * @return how much longer all the locks are held without another renewal
   * @throws LockLost if others may hold one of them
   */
  public Duration check() {
    return guards.stream().map(Guard::check).min(Duration::compareTo).orElseThrow();
  }

  /**
   * Releases all the locks, and waits for the answers as {@link Guard#release} does.
   *
   * @throws LockLost if one was lost before; the others are released
   * @throws OutcomeUnknown if that is unknown, because no answer came
   */
  public void release() {
    CompletableFuture<?>[] released =
        guards.stream().map(Guard::releaseAsync).toArray(CompletableFuture[]::new);
    try {
      RlockException.join(
          CompletableFuture.allOf(released),
          interruption -> new OutcomeUnknown(guards.get(0).name(), interruption));
    } catch (RlockException error) {
      // A loss is told before an unknown outcome.
      for (Guard guard : guards) {
        if (guard.one.why() != null) {
          throw new LockLost(guard.one.plan(), guard.one.why());
        }
      }
      throw error;
    }
  }

  /** Releases the locks, unless this was done before. */
  @Override
  public void close() {
    if (!guards.get(0).over()) {
      release();
    }
  }
}
