package rlock.client;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import rlock.client.RlockException.LockLost;
import rlock.client.RlockException.OutcomeUnknown;

/** Several locks that are held together, and lost as soon as one of them is. */
public final class AllGuard implements Held {
  private final List<Guard> guards;
  private final CompletableFuture<LostReason> lost;

  AllGuard(List<Guard> guards) {
    this.guards = guards;
    this.lost =
        CompletableFuture.anyOf(guards.stream().map(Guard::lost).toArray(CompletableFuture[]::new))
            .thenApply(LostReason.class::cast);
  }

  @Override
  public CompletableFuture<LostReason> lost() {
    return lost.copy();
  }

  @Override
  public Duration check() {
    return guards.stream().map(Guard::check).min(Duration::compareTo).orElseThrow();
  }

  @Override
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

  @Override
  public void close() {
    if (!guards.get(0).over()) {
      release();
    }
  }
}
