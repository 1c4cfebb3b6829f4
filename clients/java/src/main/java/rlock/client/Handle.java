package rlock.client;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.function.Consumer;

/**
 * A lock by its name. It does no I/O until it is acquired; each acquisition has a new owner, unless
 * {@code withOwner} names one. The methods that set options return a copy.
 *
 * @param <H> the kind of lock
 * @param <G> its guards
 */
public abstract sealed class Handle<H extends Handle<H, G>, G extends Guard> implements Lockable<G>
    permits NamedLock, ReadLock, WriteLock, NamedSemaphore {
  final Client client;
  final Plan plan;

  Handle(Client client, Plan plan) {
    this.client = client;
    this.plan = plan;
  }

  abstract H with(Plan plan);

  abstract G guard(Acquisition one, long token);

  final H with(Consumer<Plan> change) {
    return with(plan.with(change));
  }

  /**
   * The lock's name.
   *
   * @return the key in the server
   */
  public final String name() {
    return plan.lock;
  }

  /**
   * How long a hold lasts unless it is renewed.
   *
   * @param lease from 100 ms
   * @return a copy
   */
  public final H withLease(Duration lease) {
    long nanos = Settings.lease(lease);
    return with(
        plan -> {
          plan.lease = nanos;
          plan.response = client.settings.response(nanos);
        });
  }

  /**
   * How long {@code acquire} and {@code run} wait.
   *
   * @param wait from 0, which asks once
   * @return a copy
   */
  public final H withWait(Duration wait) {
    long nanos = Settings.nanos("a wait", wait, 0);
    return with(plan -> plan.limit = nanos);
  }

  /**
   * How long the lock outlives the connection of its process. A stopped process or a cut network
   * does not end the connection at the server: in these cases the lease counts.
   *
   * @param grace from 100 ms
   * @return a copy
   */
  public final H withSessionGrace(Duration grace) {
    long nanos = Settings.nanos("a session grace", grace, 100);
    return with(plan -> plan.grace = nanos);
  }

  /**
   * How long the lock stays held from its acquisition on, also if it is released sooner: for work
   * that must not run twice in that time.
   *
   * @param time from 0
   * @return a copy
   */
  public final H withAtLeast(Duration time) {
    long nanos = Settings.nanos("at least", time, 0);
    return with(plan -> plan.atLeast = nanos);
  }

  /**
   * How long the lock is renewed from its acquisition on: for work that could hang.
   *
   * @param time from 1 ms
   * @return a copy
   */
  public final H withMaxHold(Duration time) {
    long nanos = Settings.nanos("max hold", time, 1);
    return with(plan -> plan.maxHold = nanos);
  }

  /**
   * Turns renewal off: the lock ends with its lease.
   *
   * @return a copy
   */
  public final H withoutRenewal() {
    return with(plan -> plan.renew = false);
  }

  /**
   * Names the owner, instead of a new one for each acquisition: acquiring a lock that this owner
   * holds in this client re-enters it. After a loss, its acquisitions fail with {@code LockLost}
   * until all guards of the lost hold are released.
   *
   * @param owner 1 to 512 bytes; no other client may use it
   * @return a copy
   */
  public final H withOwner(String owner) {
    return with(plan -> plan.owner = Plan.checked("an owner", owner, 512));
  }

  @Override
  public final G acquire() throws InterruptedException {
    return acquire(plan.limit, true, plan.owner);
  }

  @Override
  public final G acquire(Duration timeout) throws InterruptedException {
    return acquire(Settings.nanos("a timeout", timeout, 0), true, plan.owner);
  }

  @Override
  public final G tryAcquire() throws InterruptedException {
    return acquire(0, true, plan.owner);
  }

  /**
   * The guard of a hold that another process has left to this one by {@code detach}.
   *
   * @param owner the owner that the other process names
   * @return a guard to release
   * @throws RlockException.LockLost if that owner does not hold the lock
   * @throws InterruptedException before the server has answered: the lock may be renewed once
   */
  public final G adopt(String owner) throws InterruptedException {
    H named = withOwner(owner);
    return named.received(named.begin(0, owner, true), true);
  }

  /**
   * Waits for the lock. Cancelling the returned future leaves the queue, and releases a grant that
   * is on its way. Cancelling a future that depends on it does not.
   *
   * @return a guard to release
   */
  public final CompletableFuture<G> acquireAsync() {
    return acquireAsync(plan.limit);
  }

  /**
   * Waits for the lock, at most for this time.
   *
   * @param timeout from 0, which asks once
   * @return a guard to release
   */
  public final CompletableFuture<G> acquireAsync(Duration timeout) {
    return acquireAsync(Settings.nanos("a timeout", timeout, 0));
  }

  /**
   * Asks once.
   *
   * @return a guard to release
   */
  public final CompletableFuture<G> tryAcquireAsync() {
    return acquireAsync(0);
  }

  /**
   * Whether the lock is held.
   *
   * @return what the server says
   */
  public final boolean locked() {
    return !info().kind().equals("none");
  }

  /**
   * Holders and queue.
   *
   * @return what the server says
   */
  public final Info info() {
    return Info.of(client.ask(List.of("RLOCK.INFO", name())));
  }

  /**
   * Removes all holds; the holders notice it at their next renewal.
   *
   * @return false: it was free
   */
  public final boolean forceRelease() {
    return Long.valueOf(1).equals(client.ask(List.of("RLOCK.FORCERELEASE", name())));
  }

  /** `owner`: null for a new one. */
  final G acquire(long wait, boolean interruptible, String owner) throws InterruptedException {
    return received(begin(wait, owner, false), interruptible);
  }

  final G received(Acquisition one, boolean interruptible) throws InterruptedException {
    try {
      return guard(one, interruptible ? one.acquired.get() : RlockException.join(one.acquired));
    } catch (InterruptedException error) {
      one.abandon();
      throw error;
    } catch (ExecutionException error) {
      throw RlockException.here(error);
    }
  }

  private CompletableFuture<G> acquireAsync(long wait) {
    Acquisition one = begin(wait, plan.owner, false);
    CompletableFuture<G> result = new CompletableFuture<>();
    one.acquired.whenCompleteAsync(
        (token, error) -> {
          if (error != null) {
            result.completeExceptionally(
                error instanceof RlockException known ? known.own() : error);
          } else if (!result.complete(guard(one, token))) {
            // The caller does not receive the guard.
            one.abandon();
          }
        });
    result.whenComplete((guard, error) -> one.cancel());
    return result;
  }

  final Acquisition begin(long wait, String owner, boolean adopt) {
    Acquisition one = new Acquisition(client.engine, plan.with(asked -> asked.limit = wait), owner);
    one.begin(adopt);
    return one;
  }

  @Override
  public final String toString() {
    return getClass().getSimpleName() + "[" + name() + "]";
  }
}
