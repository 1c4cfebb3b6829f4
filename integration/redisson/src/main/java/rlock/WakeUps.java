package rlock;

import java.util.List;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RLock;

/** Whoever frees a lock wakes those who wait on the other side, long before the lease that they were told of ends. */
final class WakeUps {
    /** So many times the release meets the waiter at some moment between its first attempt and its sleep. */
    private static final int ROUNDS = 150;

    private WakeUps() {
    }

    static List<Scenario> scenarios() {
        return List.of(
            new Scenario("no native release is missed by a Redisson waiter", WakeUps::nativeReleaseWakesRedisson),
            new Scenario("no Redisson unlock is missed by a native waiter", WakeUps::redissonUnlockWakesNative),
            Scenario.of("a native lease that ends lets a Redisson waiter in", WakeUps::nativeLeaseEnds),
            Scenario.of("a Redisson lease that ends lets a native waiter in", WakeUps::redissonLeaseEnds),
            Scenario.of("a native hand-off to a shorter lease wakes a Redisson waiter in time", WakeUps::shorterLease),
            Scenario.of("Redisson's forceUnlock lets a native waiter in", WakeUps::forceUnlock),
            Scenario.of("RLOCK.FORCERELEASE lets a Redisson waiter in", WakeUps::forceRelease),
            Scenario.of("a Redisson waiter that gave up leaves nothing behind", WakeUps::giveUp));
    }

    /** Sleeps for up to two milliseconds, to be early, late and just in time. */
    static void aMoment() throws InterruptedException {
        TimeUnit.MICROSECONDS.sleep(ThreadLocalRandom.current().nextInt(2_000));
    }

    /** When it had the lock. */
    static Future<Long> takesAndReleases(RLock lock) {
        return Check.start(() -> {
            lock.lock(Check.LONG_LEASE_MS, TimeUnit.MILLISECONDS);
            long now = System.nanoTime();
            lock.unlock();
            return now;
        });
    }

    private static String nativeReleaseWakesRedisson(World world) throws Exception {
        String key = world.key("to-redisson");
        long longest = 0;
        try (Native client = world.client()) {
            for (int round = 0; round < ROUNDS; round++) {
                String owner = world.owner();
                Check.that(client.acquire(key, owner, Check.LONG_LEASE_MS, "BLOCK", "8000"), "the lock is not free");
                Future<Long> waiter = takesAndReleases(world.clients().get(round % 2).getLock(key));
                if (round % 3 == 0) {
                    Check.eventually("the waiter listens", () -> world.listeners(client, World.channel(key)) > 0);
                }
                aMoment();
                long released = System.nanoTime();
                client.release(key, owner);
                longest = Math.max(longest, Check.soon(waiter) - released);
            }
        }
        return ROUNDS + " times, within " + longest / 1_000_000 + " ms";
    }

    private static String redissonUnlockWakesNative(World world) throws Exception {
        String key = world.key("to-native");
        return unlockWakesNative(world, key, world.one.getLock(key), ROUNDS);
    }

    static String unlockWakesNative(World world, String key, RLock lock, int rounds) throws Exception {
        long longest = 0;
        try (Native client = world.client()) {
            for (int round = 0; round < rounds; round++) {
                String owner = world.owner();
                lock.lock();
                Future<Long> waiter = Check.start(() -> {
                    Check.that(client.acquire(key, owner, Check.LONG_LEASE_MS, "BLOCK", "60000"), "not acquired");
                    return System.nanoTime();
                });
                aMoment();
                long released = System.nanoTime();
                lock.unlock();
                longest = Math.max(longest, Check.soon(waiter) - released);
                Check.equal(1L, client.release(key, owner), "release");
            }
        }
        return rounds + " times, within " + longest / 1_000_000 + " ms";
    }

    private static void nativeLeaseEnds(World world) throws Exception {
        String key = world.key("ends");
        try (Native client = world.client()) {
            client.acquire(key, "native", 700);
            Check.soon(takesAndReleases(world.one.getLock(key)));
            Check.equal(null, client.release(key, "native"), "release of the lost lock");
        }
    }

    private static void redissonLeaseEnds(World world) throws Exception {
        String key = world.key("ends");
        RLock lock = world.one.getLock(key);
        lock.lock(700, TimeUnit.MILLISECONDS);
        try (Native client = world.client()) {
            long start = System.nanoTime();
            Check.that(client.acquire(key, "native", 30_000, "BLOCK", "20000"), "not acquired");
            Check.that(Check.millisSince(start) < Check.SOON_MS, "the wait lasted for longer than the lease");
            Check.equal(false, lock.isHeldByCurrentThread(), "isHeldByCurrentThread");
            client.release(key, "native");
        }
    }

    /** The waiter sleeps by the first holder's lease; the second holder dies, and its lease is far shorter. */
    private static void shorterLease(World world) throws Exception {
        String key = world.key("shorter");
        try (Native first = world.client(); Native second = world.client()) {
            first.acquire(key, "first", Check.LONG_LEASE_MS);
            Future<Boolean> handedOver = Check.start(() -> second.acquire(key, "second", 500, "BLOCK", "60000"));
            Check.eventually("the second waits", () -> first.waiters(key) == 1);
            Future<Long> waiter = takesAndReleases(world.one.getLock(key));
            Check.eventually("Redisson listens", () -> world.listeners(first, World.channel(key)) > 0);
            first.release(key, "first");
            Check.equal(true, Check.soon(handedOver), "handed over");
            Check.soon(waiter);
        }
    }

    private static void forceUnlock(World world) throws Exception {
        String key = world.key("forced");
        RLock lock = world.one.getLock(key);
        lock.lock();
        try (Native client = world.client(); Native other = world.client()) {
            Future<Boolean> waiter = Check.start(() -> client.acquire(key, "native", 30_000, "BLOCK", "60000"));
            Check.eventually("the native client waits", () -> other.waiters(key) == 1);
            Check.equal(true, world.two.getLock(key).forceUnlock(), "forceUnlock");
            Check.equal(true, Check.soon(waiter), "acquired");
            // The watchdog of the owner that lost the lock leaves the new one alone.
            Check.equal(false, lock.isHeldByCurrentThread(), "isHeldByCurrentThread");
            Check.equal(true, world.two.getLock(key).forceUnlock(), "forceUnlock of a native lock");
            Check.equal(false, client.renew(key, "native", 30_000), "renewed after forceUnlock");
            Check.equal(false, world.two.getLock(key).forceUnlock(), "forceUnlock of a free lock");
        }
    }

    private static void forceRelease(World world) throws Exception {
        String key = world.key("forced");
        RLock lock = world.one.getLock(key);
        lock.lock();
        try (Native client = world.client()) {
            Future<Long> waiter = takesAndReleases(world.two.getLock(key));
            Check.eventually("Redisson listens", () -> world.listeners(client, World.channel(key)) > 0);
            Check.equal(true, client.forceRelease(key), "RLOCK.FORCERELEASE");
            Check.soon(waiter);
            // Nothing brings the hold of the first owner back: not even its watchdog's next tick.
            Thread.sleep(World.WATCHDOG_MS / 2);
            Check.equal("none", client.info(key).get("kind"), "kind");
            Check.equal(false, lock.isHeldByCurrentThread(), "isHeldByCurrentThread");
        }
    }

    private static void giveUp(World world) throws Exception {
        String key = world.key("given-up");
        RLock lock = world.one.getLock(key);
        try (Native client = world.client()) {
            client.acquire(key, "native", Check.LONG_LEASE_MS);
            // Time to subscribe on a busy machine: who gives up before that leaves its subscription behind, in Redisson alone too.
            Check.equal(false, lock.tryLock(3_000, TimeUnit.MILLISECONDS), "tryLock");
            Check.eventually("nobody listens", () -> world.listeners(client, World.channel(key)) == 0);
            Check.equal(0L, client.waiters(key), "waiters");
            client.release(key, "native");
            Check.equal("none", client.info(key).get("kind"), "kind");
        }
    }
}
