package rlock;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicBoolean;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/**
 * What Redisson by itself does not survive when a slot moves, without any native client: to be run on servers with the module and on
 * servers without it, where it has to be the same.
 */
final class Control {
    private static final int MOVES = 6;
    /** So many others are in the slot, so that to move it takes a while. */
    private static final int KEYS = 3_000;
    private static final long LEASE_MS = 10_000;

    private Control() {
    }

    static List<Scenario> scenarios() {
        return List.of(
            new Scenario("Redisson's waiters sleep when the slot has moved, and their client cannot wait again", Control::subscriptions),
            new Scenario("what Redisson's threads meet while the slot moves, as it comes", Control::inTheMove));
    }

    /** The one who waits hears nothing of the unlock, and after that nobody of that client can wait for this lock. */
    private static String subscriptions(World world) throws Exception {
        String key = world.placeOn(0) + "slept";
        RedissonClient sleeper = world.redisson();
        try (Native client = world.client()) {
            RLock held = world.one.getLock(key);
            held.lock(LEASE_MS, TimeUnit.MILLISECONDS);
            long told = System.nanoTime();
            Future<Long> waiter = Check.takes(sleeper.getLock(key));
            Check.eventually("it listens", () -> world.listeners(client, Kind.PLAIN.channel(key)) > 0);
            // It tries once more then; that it sleeps cannot be seen.
            Thread.sleep(500);
            world.order("move", key, 0, 1);
            held.unlock();
            long unlocked = System.nanoTime();
            long in = Check.soon(waiter);
            Check.that(in - unlocked > TimeUnit.SECONDS.toNanos(2), "it was woken: Redisson subscribed again");
            long slept = (in - told) / 1_000_000;
            Check.that(slept > LEASE_MS * 9 / 10, "it came in before the lease that it was told of: after " + slept + " ms");
            held.lock(2 * LEASE_MS, TimeUnit.MILLISECONDS);
            String refusal = refusal(sleeper.getLock(key));
            Check.that(refusal.contains("subscription"), "its client can wait for the lock again: " + refusal);
            return "it had the lock " + (in - unlocked) / 1_000_000 + " ms after the unlock; then: " + refusal;
        } finally {
            sleeper.shutdown(0, 0, TimeUnit.SECONDS);
        }
    }

    /** What another thread of the client is told that waits for a lock that is held. */
    private static String refusal(RLock lock) throws Exception {
        Future<String> waiter = Check.start(() -> {
            try {
                lock.lock();
                return "acquired";
            } catch (RuntimeException error) {
                return error.getClass().getSimpleName() + ": " + error.getMessage();
            }
        });
        return waiter.get(2 * Check.SOON_MS, TimeUnit.MILLISECONDS);
    }

    /** Threads try for locks of every kind while the slot goes all the way round; what is thrown, and who never comes back. */
    private static String inTheMove(World world) throws Exception {
        String place = world.placeOn(0);
        try (Native client = world.client()) {
            for (int i = 0; i < KEYS; i++) {
                client.at(place).set(place + i, "");
            }
        }
        AtomicBoolean stop = new AtomicBoolean();
        Map<String, Long> thrown = new TreeMap<>();
        Map<String, Future<Void>> threads = new TreeMap<>();
        List<RedissonClient> redissons = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            RedissonClient redisson = world.redisson();
            redissons.add(redisson);
            for (Kind kind : List.of(Kind.PLAIN, Kind.FENCED, Kind.FENCED, Kind.FENCED, Kind.FAIR, Kind.WRITE)) {
                RLock lock = kind.of(redisson, place + kind + threads.size() % 6);
                threads.put(lock.getName() + " of client " + i, Check.start(() -> tries(lock, stop, thrown)));
            }
        }
        for (int i = 0; i < MOVES; i++) {
            Thread.sleep(500);
            world.order("move", place, i % 3, (i + 1) % 3);
        }
        stop.set(true);
        List<String> stuck = new ArrayList<>();
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
        for (var thread : threads.entrySet()) {
            try {
                thread.getValue().get(Math.max(0, deadline - System.nanoTime()), TimeUnit.NANOSECONDS);
            } catch (TimeoutException never) {
                stuck.add(thread.getKey().substring(place.length()));
            }
        }
        redissons.forEach(redisson -> redisson.shutdown(0, 0, TimeUnit.SECONDS));
        return "thrown " + thrown + "; not back within 30 s: " + stuck;
    }

    private static Void tries(RLock lock, AtomicBoolean stop, Map<String, Long> thrown) throws Exception {
        while (!stop.get()) {
            String call = "tryLock";
            try {
                boolean acquired = lock instanceof RFencedLock fenced ? fenced.tryLockAndGetToken() != null : lock.tryLock();
                call = "unlock";
                if (acquired) {
                    lock.unlock();
                }
            } catch (RuntimeException error) {
                String kind = lock.getClass().getSimpleName() + "." + call + ": " + error.getClass().getSimpleName();
                synchronized (thrown) {
                    thrown.merge(kind, 1L, Long::sum);
                }
            }
            WakeUps.aMoment();
        }
        return null;
    }
}
