package rlock;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/**
 * Loads the module into a server while threads of Redisson hold locks, wait for them and take them in turn.
 * Never two holders, and nobody sleeps.
 */
final class Loading {
    private static final long LONGER_MS = World.WATCHDOG_MS * 3 / 2;

    private Loading() {
    }

    /** Each on a server of its own, into which it loads the module. */
    static List<Scenario> scenarios() {
        return List.of(
            new Scenario("what Redisson held and awaited before the module was loaded goes on beside native clients", Loading::loaded),
            new Scenario("threads of Redisson take turns while the module comes, and natives with it", Loading::busy));
    }

    /** Locks of all kinds, each held by one thread of Redisson's, renewed by its watchdog, and awaited by another's. */
    private static String loaded(World world) throws Exception {
        List<Held> locks = new ArrayList<>();
        try (Native client = world.client()) {
            for (Kind kind : List.of(Kind.PLAIN, Kind.FENCED, Kind.FAIR, Kind.WRITE, Kind.READ)) {
                locks.add(new Held(world, kind));
            }
            for (Held lock : locks) {
                lock.await("of Redisson", () -> lock.redissonWaits(world.two));
            }
            Thread.sleep(World.WATCHDOG_MS / 2);
            load(client);
            for (Held lock : locks) {
                lock.await("of a native", () -> lock.nativeWaits(world));
                lock.await("that comes later, of Redisson", () -> lock.redissonWaits(world.one));
                lock.isAwaited(client);
            }
            Thread.sleep(LONGER_MS);
            long longest = 0;
            for (Held lock : locks) {
                longest = Math.max(longest, lock.release());
            }
            for (Held lock : locks) {
                Check.equal("none", client.info(lock.key).get("kind"), "kind of " + lock.key);
            }
            return "the last of three who waited for each of " + locks.size() + " locks was through after " + longest + " ms";
        }
    }

    private static String busy(World world) throws Exception {
        try (Native client = world.client()) {
            Turmoil turmoil = new Turmoil(world, world.key("busy"), World.WATCHDOG_MS, false).redissons();
            turmoil.goOn(20);
            load(client);
            long longest = turmoil.goOn(5);
            for (int i = 0; i < 3; i++) {
                turmoil.natives();
                longest = Math.max(longest, turmoil.goOn(20));
                turmoil.endNatives();
                longest = Math.max(longest, turmoil.goOn(20));
            }
            return turmoil.end() + "; all had their next turns within " + longest + " ms";
        }
    }

    private static void load(Native client) {
        Native.send(client.at(""), "MODULE", "LOAD", System.getenv("MODULE"));
    }

    /** A lock that this thread holds by Redisson, and those who wait for it. */
    private static final class Held {
        final String key;
        /** The kind for which others wait. For a held read or write lock it is WRITE, so that each waiter is alone. */
        private final Kind kind;
        private final RLock lock;
        private final List<Future<Long>> waiting = new ArrayList<>();
        private final AtomicInteger inside = new AtomicInteger(1);
        private final AtomicLong redissonsWaiting = new AtomicLong();

        Held(World world, Kind kind) {
            this.kind = kind.excluded().get(0);
            this.key = world.key(kind.toString());
            this.lock = kind.of(world.one, key);
            lock.lock();
        }

        void await(String who, Callable<Long> waiter) {
            waiting.add(Check.start(() -> {
                try {
                    return waiter.call();
                } catch (Exception | AssertionError error) {
                    throw new AssertionError("waiting for " + key + " " + who, error);
                }
            }));
        }

        Long redissonWaits(RedissonClient redisson) {
            RLock mine = kind.of(redisson, key);
            redissonsWaiting.incrementAndGet();
            mine.lock();
            return use(mine::unlock);
        }

        Long nativeWaits(World world) {
            try (Native client = world.client()) {
                String owner = world.owner();
                Check.that(client.acquire(key, owner, Check.LONG_LEASE_MS, kind.and("BLOCK", "0")), "not acquired");
                return use(() -> Check.equal(1L, client.release(key, owner), "release"));
            }
        }

        /** When it was done. */
        private Long use(Runnable release) {
            Check.equal(1, inside.incrementAndGet(), "holders of " + key);
            inside.decrementAndGet();
            release.run();
            return System.nanoTime();
        }

        /** The native, and in a fair queue Redisson's. */
        void isAwaited(Native client) throws Exception {
            long known = kind == Kind.FAIR ? 3 : 1;
            Check.eventually("all wait for " + key, () -> client.waiters(key) == known && redissonsWaiting.get() == 2);
        }

        /** Everybody gets it; after how many ms the last was through. */
        long release() throws Exception {
            Check.equal(true, lock.isHeldByCurrentThread(), "isHeldByCurrentThread of " + key);
            for (Future<Long> waiter : waiting) {
                Check.equal(false, waiter.isDone(), "somebody else had " + key);
            }
            inside.decrementAndGet();
            long released = System.nanoTime();
            lock.unlock();
            long last = released;
            for (Future<Long> waiter : waiting) {
                last = Math.max(last, Check.soon(waiter));
            }
            return (last - released) / 1_000_000;
        }
    }
}
