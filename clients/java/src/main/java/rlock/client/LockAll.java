package rlock.client;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Objects;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import rlock.client.RlockException.Invalid;
import rlock.client.RlockException.LockLost;
import rlock.client.RlockException.Timeout;

/**
 * Several locks that are acquired together. Free locks take one round trip. If another owner holds
 * one of them, those before it by name stay held while the client waits for that one. So two {@code
 * LockAll}s never wait for each other.
 *
 * <p>Work under the guard must not wait for a further lock whose name comes before one of these:
 * limit the wait if it does.
 */
public final class LockAll implements Lockable<AllGuard> {
  private final Client client;
  private final List<NamedLock> locks = new ArrayList<>(); // in the order in which all clients wait

  LockAll(Client client, Collection<String> names) {
    this.client = client;
    TreeSet<String> sorted =
        new TreeSet<>(Comparator.comparing(name -> name.getBytes(UTF_8), Arrays::compareUnsigned));
    sorted.addAll(names);
    sorted.forEach(name -> locks.add(client.lock(name)));
    if (locks.isEmpty()) {
      throw new Invalid("name at least one lock");
    }
  }

  @Override
  public AllGuard acquire() throws InterruptedException {
    return acquire(locks.get(0).plan.limit);
  }

  @Override
  public AllGuard acquire(Duration timeout) throws InterruptedException {
    return acquire(Settings.nanos("a timeout", timeout, 0));
  }

  @Override
  public AllGuard tryAcquire() throws InterruptedException {
    return acquire(0);
  }

  private AllGuard acquire(long limit) throws InterruptedException {
    Guard[] guards = new Guard[locks.size()];
    boolean done = false;
    try {
      done = limit == 0 ? takeOnce(guards) : await(guards, limit);
      return new AllGuard(List.of(guards));
    } finally {
      if (!done) {
        release(guards, 0);
      }
    }
  }

  private boolean takeOnce(Guard[] guards) throws InterruptedException {
    RuntimeException error = takeFree(guards, Machine.NEVER);
    if (error != null) {
      throw error;
    }
    for (Guard guard : guards) {
      guard.check(); // a lease may be shorter than the slowest reply
    }
    return true;
  }

  private boolean await(Guard[] guards, long limit) throws InterruptedException {
    long began = client.engine.now();
    while (true) {
      dropLost(guards);
      // An error is as good as a denial: the wait meets it again, and knows whether it passes.
      takeFree(guards, left(began, limit));
      dropLost(guards);
      int missing = Arrays.asList(guards).indexOf(null);
      if (missing < 0) {
        return true;
      }
      // Only locks before it may be held while it is waited for.
      release(guards, missing);
      NamedLock lock = locks.get(missing);
      try {
        guards[missing] = lock.acquire(left(began, limit), true, null);
      } catch (Timeout timeout) {
        long waited = (client.engine.now() - began) / Machine.MS;
        throw new Timeout(lock.name(), waited, timeout.getCause());
      }
    }
  }

  private long left(long began, long limit) {
    // 0 would ask once.
    return limit == Machine.NEVER ? limit : Math.max(1, began + limit - client.engine.now());
  }

  /**
   * Asks at once for all locks that are not held; returns the error of one that is not free. No
   * request waits, so none of them can be part of a deadlock.
   */
  private RuntimeException takeFree(Guard[] guards, long within) throws InterruptedException {
    List<CompletableFuture<Guard>> asked = new ArrayList<>();
    for (int i = 0; i < guards.length; i++) {
      asked.add(guards[i] == null ? locks.get(i).tryAcquireAsync() : null);
    }
    RuntimeException first = null;
    try {
      CompletableFuture.allOf(
              asked.stream().filter(Objects::nonNull).toArray(CompletableFuture[]::new))
          .get(within, TimeUnit.NANOSECONDS);
    } catch (ExecutionException error) {
      first = RlockException.here(error);
    } catch (TimeoutException late) {
      // What is still under way is given back.
    } finally {
      for (int i = 0; i < guards.length; i++) {
        CompletableFuture<Guard> one = asked.get(i);
        if (one != null && !one.cancel(true) && !one.isCompletedExceptionally()) {
          guards[i] = one.join();
        }
      }
    }
    return first;
  }

  /** The next acquisition of a lock that is lost is another one. */
  private static void dropLost(Guard[] guards) {
    for (int i = 0; i < guards.length; i++) {
      try {
        if (guards[i] != null) {
          guards[i].check();
        }
      } catch (LockLost lost) {
        guards[i].releaseAsync();
        guards[i] = null;
      }
    }
  }

  private static void release(Guard[] guards, int from) {
    for (int i = from; i < guards.length; i++) {
      if (guards[i] != null) {
        guards[i].releaseAsync();
        guards[i] = null;
      }
    }
  }
}
