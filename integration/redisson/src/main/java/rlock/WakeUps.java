package rlock;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RLock;

/** Whoever frees a lock wakes those who wait on the other side, long before the lease that they were told of ends. */
final class WakeUps {
    private WakeUps() {
    }

    static List<Scenario> scenarios() {
        List<Scenario> scenarios = new ArrayList<>(List.of(
            release(Kind.PLAIN, Kind.PLAIN, 0, 150),
            release(Kind.PLAIN, Kind.SPIN, 1, 10),
            release(Kind.FENCED, Kind.FENCED, 0, 30),
            // Natives that do not stand in its queue.
            release(Kind.PLAIN, Kind.FAIR, 1, 60),
            release(Kind.READ, Kind.WRITE, 0, 60),
            release(Kind.WRITE, Kind.READ, 3, 30),
            release(Kind.WRITE, Kind.WRITE, 0, 30),
            unlock(Kind.PLAIN, Kind.PLAIN, 150),
            unlock(Kind.SPIN, Kind.PLAIN, 30),
            unlock(Kind.FENCED, Kind.FENCED, 30),
            unlock(Kind.FAIR, Kind.PLAIN, 60),
            unlock(Kind.READ, Kind.WRITE, 30),
            unlock(Kind.WRITE, Kind.WRITE, 30)));
        for (Kind kind : List.of(Kind.PLAIN, Kind.SPIN, Kind.FENCED, Kind.FAIR)) {
            scenarios.add(Scenario.of("a native lease that ends lets a Redisson waiter in: " + kind, world -> nativeLeaseEnds(world, kind)));
        }
        for (Kind kind : Kind.values()) {
            scenarios.add(Scenario.of("Redisson's forceUnlock lets a native waiter in: " + kind, world -> forceUnlock(world, kind)));
        }
        scenarios.addAll(List.of(
            Scenario.of("a Redisson lease that ends lets a native waiter in", WakeUps::redissonLeaseEnds),
            Scenario.of("a Redisson client that is gone lets go after its lease", WakeUps::redissonGone),
            Scenario.of("a native hand-off to a shorter lease wakes a Redisson waiter in time", WakeUps::shorterLease),
            Scenario.of("RLOCK.FORCERELEASE lets a Redisson waiter in", WakeUps::forceRelease),
            Scenario.of("a Redisson waiter that gave up leaves nothing behind", WakeUps::giveUp)));
        return scenarios;
    }

    /** Sleeps for up to two milliseconds, to be early, late and just in time. */
    static void aMoment() throws InterruptedException {
        TimeUnit.MICROSECONDS.sleep(ThreadLocalRandom.current().nextInt(2_000));
    }

    /**
     * So many times the release meets the waiters at some moment between their first attempt and their sleep. So many of each Redisson
     * client wait; 0: one, of one client and the other in turn.
     *
     * <p>A writer's message `1` wakes the threads that sleep when it comes; one that has tried and does not sleep yet misses it, and
     * would sleep until the lease that it was told of, as between Redisson clients alone: so `0` comes before it.
     */
    private static Scenario release(Kind held, Kind awaited, int ofEach, int rounds) {
        long bound = held == Kind.WRITE ? 500 : Check.SOON_MS;
        String waiter = awaited.isOfReadWrite() ? "reader or writer" : "waiter";
        return new Scenario("no native release is missed by a Redisson " + waiter + ": " + held + " to " + awaited, world -> {
            String key = world.key("to-redisson");
            long longest = 0;
            try (Native client = world.client()) {
                for (int round = 0; round < rounds; round++) {
                    String owner = world.owner();
                    Check.that(client.acquire(key, owner, Check.LONG_LEASE_MS, held.and("BLOCK", "8000")), "the lock is not free");
                    List<Future<Long>> waiting = new ArrayList<>();
                    for (int i = 0; i < Math.max(1, 2 * ofEach); i++) {
                        waiting.add(Check.takes(awaited.of(world.clients().get((round + i) % 2), key), round / 2 % 2 == 0));
                    }
                    if (ofEach == 0 && round % 3 == 0) {
                        Check.eventually("the waiter listens", () -> world.listeners(client, awaited.channel(key)) > 0);
                    }
                    aMoment();
                    long released = System.nanoTime();
                    client.release(key, owner, held.mode());
                    for (long in : Check.soon(waiting)) {
                        longest = Math.max(longest, in - released);
                    }
                }
            }
            String found = rounds + " times, within " + longest / 1_000_000 + " ms";
            Check.that(longest / 1_000_000 < bound, found);
            return found;
        });
    }

    private static Scenario unlock(Kind held, Kind awaited, int rounds) {
        return new Scenario("no Redisson unlock is missed by a native waiter: " + held + " to " + awaited, world -> {
            String key = world.key("to-native");
            RLock lock = held.of(world.one, key);
            long longest = 0;
            try (Native client = world.client()) {
                for (int round = 0; round < rounds; round++) {
                    String owner = world.owner();
                    lock.lock();
                    Future<Long> waiter = Check.start(() -> {
                        Check.that(client.acquire(key, owner, Check.LONG_LEASE_MS, awaited.and("BLOCK", "60000")), "not acquired");
                        return System.nanoTime();
                    });
                    aMoment();
                    long released = System.nanoTime();
                    lock.unlock();
                    longest = Math.max(longest, Check.soon(waiter) - released);
                    Check.equal(1L, client.release(key, owner, awaited.mode()), "release");
                }
            }
            return rounds + " times, within " + longest / 1_000_000 + " ms";
        });
    }

    private static void nativeLeaseEnds(World world, Kind kind) throws Exception {
        String key = world.key("ends");
        try (Native client = world.client()) {
            client.acquire(key, "native", 700);
            Check.soon(Check.takes(kind.of(world.one, key)));
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

    private static void redissonGone(World world) throws Exception {
        String key = world.key("gone");
        var third = world.redisson();
        third.getLock(key).lock();
        third.shutdown();
        try (Native client = world.client()) {
            long start = System.nanoTime();
            Check.equal(true, client.acquire(key, "native", 30_000, "BLOCK", "20000"), "acquired");
            long waited = Check.millisSince(start);
            Check.that(waited <= World.WATCHDOG_MS + 2_000, "waited for " + waited + " ms");
        }
    }

    /** The waiter sleeps by the first holder's lease; the second holder dies, and its lease is far shorter. */
    private static void shorterLease(World world) throws Exception {
        String key = world.key("shorter");
        try (Native first = world.client(); Native second = world.client()) {
            first.acquire(key, "first", Check.LONG_LEASE_MS);
            Future<Boolean> handedOver = Check.start(() -> second.acquire(key, "second", 500, "BLOCK", "60000"));
            Check.eventually("the second waits", () -> first.waiters(key) == 1);
            Future<Long> waiter = Check.takes(world.one.getLock(key));
            Check.eventually("Redisson listens", () -> world.listeners(first, Kind.PLAIN.channel(key)) > 0);
            first.release(key, "first");
            Check.equal(true, Check.soon(handedOver), "handed over");
            Check.soon(waiter);
        }
    }

    /** A hold of Redisson's, and then those of natives. */
    private static void forceUnlock(World world, Kind kind) throws Exception {
        String key = world.key("forced");
        RLock lock = kind.of(world.one, key);
        lock.lock();
        List<Kind> excluded = kind.excluded().get(0).excluded();
        List<Kind> natives = List.of(kind.excluded().get(0), excluded.get(excluded.size() - 1));
        Kind held = kind;
        try (Native client = world.client()) {
            for (int i = 0; i < natives.size(); i++) {
                Kind next = natives.get(i);
                Future<Boolean> waiter = world.waits(key, "native" + i, next);
                Check.eventually("the native client waits", () -> client.waiters(key) == 1);
                Check.equal(true, held.of(world.two, key).forceUnlock(), "forceUnlock: " + held);
                Check.equal(true, Check.soon(waiter), "acquired: " + next);
                // The watchdog of the owner that lost the lock leaves the new one alone.
                Check.equal(false, lock.isHeldByCurrentThread(), "isHeldByCurrentThread");
                held = next;
            }
            Check.equal(true, held.of(world.two, key).forceUnlock(), "forceUnlock of a native lock");
            Check.equal(false, client.renew(key, "native1", 30_000, held.mode()), "renewed after forceUnlock");
            Check.equal(false, held.of(world.two, key).forceUnlock(), "forceUnlock of a free lock");
        }
    }

    private static void forceRelease(World world) throws Exception {
        String key = world.key("forced");
        RLock lock = world.one.getLock(key);
        lock.lock();
        try (Native client = world.client()) {
            Future<Long> waiter = Check.takes(world.two.getLock(key));
            Check.eventually("Redisson listens", () -> world.listeners(client, Kind.PLAIN.channel(key)) > 0);
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
            Check.eventually("nobody listens", () -> world.listeners(client, Kind.PLAIN.channel(key)) == 0);
            Check.equal(0L, client.waiters(key), "waiters");
            client.release(key, "native");
            Check.equal("none", client.info(key).get("kind"), "kind");
        }
    }
}
