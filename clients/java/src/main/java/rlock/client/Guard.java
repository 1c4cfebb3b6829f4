package rlock.client;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import java.util.function.Function;
import rlock.client.RlockException.Invalid;
import rlock.client.RlockException.LockLost;
import rlock.client.RlockException.OutcomeUnknown;

/**
 * A hold of a lock, renewed until it is released or lost. A forgotten guard keeps the lock while
 * the process lives.
 */
public sealed class Guard implements Held permits WriteGuard {
  final Acquisition one;
  private final long token;
  private final AtomicBoolean over = new AtomicBoolean();
  private volatile CompletableFuture<LostReason> told;

  Guard(Acquisition one, long token) {
    this.one = one.entered;
    this.token = token;
  }

  /**
   * The lock's name.
   *
   * @return the key in the server
   */
  public final String name() {
    return one.lock();
  }

  /**
   * The owner, as the server knows it.
   *
   * @return a new one for each acquisition, unless {@code withOwner} named it
   */
  public final String owner() {
    return one.claim.owner();
  }

  @Override
  public final long token() {
    return token;
  }

  @Override
  public final CompletableFuture<LostReason> lost() {
    CompletableFuture<LostReason> last = told;
    // Each copy stays in memory until the loss. The caller may have completed the last one.
    if (last == null || last.isDone()) {
      last = one.lost.copy();
      told = last;
    }
    return last;
  }

  @Override
  public final Duration check() {
    if (over.get() && one.why() == null) {
      throw new LockLost(one.plan(), LostReason.RELEASED);
    }
    return Duration.ofNanos(one.check());
  }

  /**
   * Another guard of the same hold. The lock is held until all of them are released.
   *
   * @return the other guard
   */
  public final Guard reenter() {
    check();
    if (!one.share()) {
      throw new LockLost(one.plan(), LostReason.RELEASED);
    }
    return new Guard(one, RlockException.join(one.reenter()));
  }

  @Override
  public final void release() {
    release(Machine::release);
  }

  final void release(Consumer<Machine> ending) {
    RlockException.join(end(ending), interruption -> new OutcomeUnknown(name(), interruption));
  }

  /**
   * Releases the lock.
   *
   * @return completes as {@code release} does
   */
  public final CompletableFuture<Void> releaseAsync() {
    // What follows runs in another thread than the renewals.
    return end(Machine::release).thenApplyAsync(Function.identity());
  }

  /**
   * A lock that was left to another process.
   *
   * @param name of the lock
   * @param owner the owner that the other process names in {@code adopt}
   * @param left how long the lock is held, unless it is adopted
   */
  public record Detached(String name, String owner, Duration left) {}

  /**
   * Leaves the lock to another process, which adopts it. This guard ends. Nothing renews the lock
   * until it is adopted.
   *
   * @return what the other process must know
   * @throws Invalid if there are other guards
   * @throws LockLost if it was lost before
   * @throws OutcomeUnknown if that is unknown, because no answer came
   */
  public final Detached detach() {
    check();
    CompletableFuture<Long> left = one.detach();
    if (left == null) {
      throw new Invalid("the lock has other guards; release them before you detach it");
    }
    over.set(true);
    Function<InterruptedException, RlockException> unknown =
        interruption -> new OutcomeUnknown(name(), interruption);
    return new Detached(name(), owner(), Duration.ofNanos(RlockException.join(left, unknown)));
  }

  @Override
  public final void close() {
    if (!over()) {
      release();
    }
  }

  /** Released, detached or downgraded. */
  final boolean over() {
    return over.get();
  }

  private CompletableFuture<Void> end(Consumer<Machine> ending) {
    LostReason why = over.getAndSet(true) ? LostReason.RELEASED : one.why();
    if (why == LostReason.RELEASED) {
      return CompletableFuture.failedFuture(new LockLost(one.plan(), why));
    }
    CompletableFuture<Void> released = one.drop(ending);
    return why == null ? released : CompletableFuture.failedFuture(new LockLost(one.plan(), why));
  }

  @Override
  public final String toString() {
    return "Guard[" + name() + ", " + owner() + "]";
  }
}
