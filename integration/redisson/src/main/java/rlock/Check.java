package rlock;

import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.IntFunction;
import java.util.stream.IntStream;
import org.redisson.api.RLock;

/** What the scenarios check with. */
final class Check {
    /** How long anything may take that should come at once: far below every lease it is used with. */
    static final long SOON_MS = 15_000;

    /** A lease that no scenario outlives: whoever gets the lock before its end was told. */
    static final long LONG_LEASE_MS = 120_000;

    private static final ExecutorService THREADS = Executors.newCachedThreadPool(body -> {
        Thread thread = new Thread(body);
        thread.setDaemon(true);
        return thread;
    });

    private Check() {
    }

    static void equal(Object expected, Object found, String what) {
        if (!Objects.equals(expected, found)) {
            throw new AssertionError(what + ": expected " + expected + ", found " + found);
        }
    }

    static void that(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    /** Runs the body in a thread of its own. */
    static <T> Future<T> start(Callable<T> body) {
        return THREADS.submit(body);
    }

    /** Runs a body for each number below this one, each in a thread of its own. */
    static <T> List<Future<T>> start(int count, IntFunction<Callable<T>> body) {
        return IntStream.range(0, count).mapToObj(number -> start(body.apply(number))).toList();
    }

    /** A Redisson thread acquires a lock and releases it; when it had it. */
    static Future<Long> takes(RLock lock) {
        return takes(lock, false);
    }

    /** @param limited it waits for no more than a time, which Redisson does in another way */
    static Future<Long> takes(RLock lock, boolean limited) {
        return start(() -> {
            if (limited) {
                that(lock.tryLock(60, 60, TimeUnit.SECONDS), "not acquired");
            } else {
                lock.lock(LONG_LEASE_MS, TimeUnit.MILLISECONDS);
            }
            long now = System.nanoTime();
            lock.unlock();
            return now;
        });
    }

    /** What threads return, which has to be soon. */
    static <T> List<T> soon(List<Future<T>> futures) throws Exception {
        List<T> found = new ArrayList<>();
        for (Future<T> future : futures) {
            found.add(soon(future));
        }
        return found;
    }

    /** What a thread returns, which has to be soon. */
    static <T> T soon(Future<T> future) throws Exception {
        return future.get(SOON_MS, TimeUnit.MILLISECONDS);
    }

    /** Waits until the condition holds. */
    static void eventually(String what, Callable<Boolean> condition) throws Exception {
        long deadline = System.nanoTime() + SOON_MS * 1_000_000;
        while (!condition.call()) {
            that(System.nanoTime() < deadline, "not within " + SOON_MS + " ms: " + what);
            Thread.sleep(5);
        }
    }

    static long millisSince(long nanos) {
        return (System.nanoTime() - nanos) / 1_000_000;
    }
}
