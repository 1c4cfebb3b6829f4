package rlock;

import java.util.List;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;

/** Each side sees, respects and carries on what the other did, for as long as that is renewed. */
final class Sight {
    private static final long LEASE_MS = 2_000;

    private Sight() {
    }

    static List<Scenario> scenarios() {
        Stream<Scenario> kinds = Stream.of(Kind.values()).flatMap(kind -> Stream.of(
            Scenario.of("a native client sees and respects a hold that Redisson's watchdog keeps: " + kind,
                world -> nativeSeesRedisson(world, kind)),
            Scenario.of("Redisson sees and respects a hold that a native client renews: " + kind,
                world -> redissonSeesNative(world, kind))));
        return Stream.concat(kinds, Stream.of(
            Scenario.of("Redisson's watchdog renews a lock after a native waiter had it", Sight::backAndForth),
            Scenario.of("holds of one owner are counted together", Sight::holdsAreCountedTogether),
            Scenario.of("fencing tokens of both sides grow together", Sight::tokensGrowTogether),
            Scenario.of("a multi lock waits for a native holder of one of its locks", Sight::multi))).toList();
    }

    private static void nativeSeesRedisson(World world, Kind kind) throws Exception {
        String key = world.key("seen");
        RLock lock = kind.of(world.one, key);
        RLock elsewhere = kind.of(world.two, key);
        long me = Thread.currentThread().getId();
        try (Native client = world.client()) {
            lock.lock();
            Check.equal(kind.isOfReadWrite() ? "readwrite" : "mutex", client.info(key).get("kind"), "kind");
            Check.that(!kind.isOfReadWrite() || kind.toString().equals(client.info(key).get("mode")), "mode");
            Check.equal(World.ownerOf(world.one) + "=1", client.holder(key), "holder");
            Check.equal(true, lock.isHeldByCurrentThread() && lock.isHeldByThread(me), "held by this thread");
            Check.equal(false, lock.isHeldByThread(me + 1), "isHeldByThread of another thread");
            Check.equal(false, Check.soon(Check.start(lock::isHeldByCurrentThread)), "isHeldByCurrentThread of another thread");
            Check.equal(false, elsewhere.isHeldByCurrentThread() || elsewhere.isHeldByThread(me), "held by another process");
            for (Kind other : kind.excluded()) {
                Check.equal(other == kind, other.of(world.two, key).isLocked(), "isLocked: " + other);
                Check.equal(false, client.acquire(key, "native", 30_000, other.and()), "acquired by another: " + other);
            }
            Check.equal(null, client.release(key, "native", kind.mode()), "released by another");
            Check.equal(false, client.renew(key, "native", 30_000, kind.mode()), "renewed by another");
            String[] waiting = kind.excluded().get(0).and("BLOCK", Long.toString(World.WATCHDOG_MS * 2));
            Check.equal(false, client.acquire(key, "native", 30_000, waiting), "acquired while the watchdog renews");
            // Not before: Redisson 3.52 cannot renew a read lock that one thread holds twice.
            lock.lock();
            Check.equal(World.ownerOf(world.one) + "=2", client.holder(key), "holder of two holds");
            lock.unlock();
            Check.equal(World.ownerOf(world.one) + "=1", client.holder(key), "holder after one unlock");
            Check.equal(true, lock.isHeldByCurrentThread(), "isHeldByCurrentThread after one unlock");
            lock.unlock();
            for (Kind other : kind.excluded()) {
                Check.equal(true, client.acquire(key, "native", 30_000, other.and()), "acquired when free: " + other);
                Check.equal(1L, client.release(key, "native", other.mode()), "release: " + other);
            }
            Check.equal("none", client.info(key).get("kind"), "kind when free");
        }
    }

    private static void redissonSeesNative(World world, Kind kind) throws Exception {
        String key = world.key("seen");
        RLock lock = kind.of(world.one, key);
        try (Native client = world.client()) {
            Check.equal(true, client.acquire(key, "native", 30_000, kind.and()), "acquired by a native");
            Check.equal(true, lock.isLocked(), "isLocked of a native's hold");
            Check.equal(false, lock.isHeldByCurrentThread(), "isHeldByCurrentThread of a native's hold");
            Check.equal(false, lock.isHeldByThread(Thread.currentThread().getId()), "isHeldByThread of a native's hold");
            Check.equal(0, lock.getHoldCount(), "getHoldCount of a native's hold");
            for (Kind other : kind.excluded()) {
                Check.equal(other == kind, other.of(world.one, key).isLocked(), "isLocked: " + other);
                Check.equal(false, other.of(world.one, key).tryLock(), "tryLock: " + other);
                Check.equal(false, client.acquire(key, "other", 30_000, other.and()), "acquired by another native: " + other);
            }
            boolean refused = false;
            try {
                lock.unlock();
            } catch (IllegalMonitorStateException expected) {
                refused = true;
            }
            Check.that(refused, "unlock of another's lock was not refused");
            Check.equal("native=1", client.holder(key), "holder");
            Check.equal(1L, client.release(key, "native", kind.mode()), "release");
            client.acquire(key, "native", LEASE_MS, kind.and());
            RLock excluded = kind.excluded().get(0).of(world.one, key);
            Future<Boolean> waiter = Check.start(() -> excluded.tryLock(5_000, TimeUnit.MILLISECONDS));
            while (!waiter.isDone()) {
                Check.that(client.renew(key, "native", LEASE_MS, kind.mode()), "the lock was lost");
                long left = lock.remainTimeToLive();
                Check.that(left > 0 && left <= LEASE_MS, "remainTimeToLive: " + left);
                Thread.sleep(300);
            }
            Check.equal(false, waiter.get(), "acquired while renewed");
            Check.equal(1L, client.release(key, "native", kind.mode()), "release");
            Check.equal(false, lock.isLocked(), "isLocked after the release");
            for (Kind other : kind.excluded()) {
                RLock free = other.of(world.one, key);
                Check.equal(false, free.isLocked() || free.isHeldByCurrentThread(), "locked after the release: " + other);
                Check.equal(true, free.tryLock(), "tryLock after the release: " + other);
                Check.equal(true, free.isLocked(), "isLocked of a Redisson hold: " + other);
                free.unlock();
            }
        }
    }

    /** The watchdog belongs to a hold: the native hold in between is neither renewed nor ended by it. */
    private static void backAndForth(World world) throws Exception {
        String key = world.key("back-and-forth");
        RLock lock = world.one.getLock(key);
        try (Native client = world.client()) {
            lock.lock();
            lock.unlock();
            client.acquire(key, "native", World.WATCHDOG_MS);
            Thread.sleep(World.WATCHDOG_MS / 2);
            long left = lock.remainTimeToLive();
            Check.that(left <= World.WATCHDOG_MS / 2 + 100, "the watchdog renewed a lock of another: " + left);
            client.release(key, "native");
            lock.lock();
            Thread.sleep(World.WATCHDOG_MS * 3 / 2);
            Check.equal(false, client.acquire(key, "native", 30_000), "acquired while watched");
            lock.unlock();
        }
    }

    /** One owner by two clients: a native command continues what Redisson began, and the other way round. */
    private static void holdsAreCountedTogether(World world) {
        String key = world.key("together");
        RLock lock = world.one.getLock(key);
        String me = World.ownerOf(world.one);
        try (Native client = world.client()) {
            client.acquire(key, me, 60_000);
            Check.equal(true, lock.isHeldByCurrentThread(), "isHeldByCurrentThread");
            Check.equal(true, lock.isHeldByThread(Thread.currentThread().getId()), "isHeldByThread");
            Check.equal(1, lock.getHoldCount(), "getHoldCount");
            lock.lock();
            Check.equal(me + "=2", client.holder(key), "holder");
            client.acquire(key, me, 60_000, "HOLDS", "3");
            Check.equal(3, lock.getHoldCount(), "getHoldCount");
            lock.unlock();
            Check.equal(0L, client.release(key, me), "native release of the second hold");
            Check.equal(1, lock.getHoldCount(), "getHoldCount");
            lock.unlock();
            Check.equal("none", client.info(key).get("kind"), "kind");
        }
    }

    private static void tokensGrowTogether(World world) {
        String key = world.key("fenced");
        RFencedLock lock = world.one.getFencedLock(key);
        try (Native client = world.client()) {
            long last = 0;
            for (int i = 0; i < 10; i++) {
                String owner = world.owner();
                long token = i % 2 == 0 ? client.token(key, owner, 30_000, "FENCED", "BLOCK", "0") : lock.lockAndGetToken();
                Check.that(token > last, "the token " + token + " is not larger than " + last);
                Check.equal(token, client.info(key).get("token"), "token in INFO");
                Check.equal(token, lock.getToken(), "getToken");
                if (i % 2 == 0) {
                    client.release(key, owner);
                } else {
                    lock.unlock();
                }
                last = token;
            }
        }
    }

    private static void multi(World world) throws Exception {
        String first = world.key("multi");
        String second = world.key("multi");
        try (Native client = world.client()) {
            client.acquire(second, "native", Check.LONG_LEASE_MS);
            RLock impatient = world.one.getMultiLock(world.one.getLock(first), world.one.getLock(second));
            Check.equal(false, impatient.tryLock(200, 60_000, TimeUnit.MILLISECONDS), "acquired while one is held");
            Check.equal("none", client.info(first).get("kind"), "the first lock after that");
            Future<Boolean> waiter = Check.start(() -> {
                RLock both = world.two.getMultiLock(world.two.getLock(first), world.two.getLock(second));
                boolean acquired = both.tryLock(60, 60, TimeUnit.SECONDS);
                try (Native other = world.client()) {
                    Check.equal(false, other.acquire(first, "native", 30_000), "acquired while both are held");
                }
                both.unlock();
                return acquired;
            });
            Check.eventually("it has the first", () -> !client.holder(first).isEmpty());
            client.release(second, "native");
            Check.equal(true, Check.soon(waiter), "acquired when free");
            Check.equal("none", client.info(first).get("kind"), "the first lock");
            Check.equal("none", client.info(second).get("kind"), "the second lock");
        }
    }
}
