package rlock;

import java.util.List;
import java.util.function.BiFunction;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** Each side sees, respects and carries on what the other did. */
final class Sight {
    private Sight() {
    }

    static List<Scenario> scenarios() {
        return List.of(
            Scenario.of("a native client sees and respects a Redisson lock", Sight::nativeSeesRedisson),
            Scenario.of("Redisson sees and respects a native lock", Sight::redissonSeesNative),
            Scenario.of("holds of one owner are counted together", Sight::holdsAreCountedTogether),
            Scenario.of("Redisson knows its own holds from those of natives and of other threads", Sight::heldByWhom),
            Scenario.of("fencing tokens of both sides grow together", Sight::tokensGrowTogether));
    }

    private static void nativeSeesRedisson(World world) {
        String key = world.key("seen");
        RLock lock = world.one.getLock(key);
        try (Native client = world.client()) {
            lock.lock();
            lock.lock();
            Check.equal("mutex", client.info(key).get("kind"), "kind");
            Check.equal(World.ownerOf(world.one) + "=2", client.holder(key), "holder");
            Check.equal(false, client.acquire(key, "native", 30_000), "acquired by another");
            Check.equal(null, client.release(key, "native"), "released by another");
            Check.equal(false, client.renew(key, "native", 30_000), "renewed by another");
            lock.unlock();
            Check.equal(World.ownerOf(world.one) + "=1", client.holder(key), "holder after one unlock");
            lock.unlock();
            Check.equal(true, client.acquire(key, "native", 30_000), "acquired when free");
        }
    }

    private static void redissonSeesNative(World world) {
        String key = world.key("seen");
        RLock lock = world.one.getLock(key);
        try (Native client = world.client()) {
            client.acquire(key, "native", 30_000);
            Check.equal(true, lock.isLocked(), "isLocked");
            Check.equal(false, lock.isHeldByCurrentThread(), "isHeldByCurrentThread of a native's hold");
            Check.equal(false, lock.isHeldByThread(Thread.currentThread().getId()), "isHeldByThread of a native's hold");
            Check.equal(0, lock.getHoldCount(), "getHoldCount");
            long left = lock.remainTimeToLive();
            Check.that(left > 0 && left <= 30_000, "remainTimeToLive: " + left);
            Check.equal(false, lock.tryLock(), "tryLock");
            boolean refused = false;
            try {
                lock.unlock();
            } catch (IllegalMonitorStateException expected) {
                refused = true;
            }
            Check.that(refused, "unlock of another's lock was not refused");
            Check.equal("native=1", client.holder(key), "holder");
            Check.equal(1L, client.release(key, "native"), "release");
            Check.equal(false, lock.isLocked(), "isLocked after the release");
            Check.equal(true, lock.tryLock(), "tryLock after the release");
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

    /** Whose hold it is, each thread of each process is told for itself, whichever side has taken it. */
    private static void heldByWhom(World world) throws Exception {
        long me = Thread.currentThread().getId();
        for (Kind kind : Kind.values()) {
            String key = world.key("whose");
            RLock mine = kind.of(world.one, key);
            RLock elsewhere = kind.of(world.two, key);
            try (Native client = world.client()) {
                mine.lock();
                Check.equal(true, mine.isHeldByCurrentThread() && mine.isHeldByThread(me), kind + ": held by this thread");
                Check.equal(false, mine.isHeldByThread(me + 1), kind + ": isHeldByThread of another thread");
                Check.equal(false, Check.soon(Check.start(mine::isHeldByCurrentThread)), kind + ": in another thread");
                Check.equal(false, elsewhere.isHeldByCurrentThread() || elsewhere.isHeldByThread(me), kind + ": in another process");
                mine.unlock();
                String owner = world.owner();
                Check.equal(true, client.acquire(key, owner, 30_000, kind.words), kind + ": acquired by a native");
                Check.equal(true, mine.isLocked(), kind + ": isLocked");
                Check.equal(false, mine.isHeldByCurrentThread() || mine.isHeldByThread(me), kind + ": a native's hold");
                Check.equal(0, mine.getHoldCount(), kind + ": getHoldCount of a native's hold");
                Check.equal(1L, client.release(key, owner), kind + ": release");
                Check.equal(false, mine.isHeldByThread(me) || mine.isLocked(), kind + ": free");
            }
        }
    }

    /** A kind of lock on either side. */
    private enum Kind {
        PLAIN(RedissonClient::getLock),
        FENCED(RedissonClient::getFencedLock, "FENCED"),
        FAIR(RedissonClient::getFairLock, "FAIR"),
        READ((redisson, key) -> redisson.getReadWriteLock(key).readLock(), "READ"),
        WRITE((redisson, key) -> redisson.getReadWriteLock(key).writeLock(), "WRITE");

        private final BiFunction<RedissonClient, String, RLock> lock;
        final String[] words;

        Kind(BiFunction<RedissonClient, String, RLock> lock, String... words) {
            this.lock = lock;
            this.words = words;
        }

        RLock of(RedissonClient redisson, String key) {
            return lock.apply(redisson, key);
        }
    }

    private static void tokensGrowTogether(World world) {
        String key = world.key("fenced");
        RFencedLock lock = world.one.getFencedLock(key);
        try (Native client = world.client()) {
            long last = 0;
            for (int i = 0; i < 10; i++) {
                String owner = world.owner();
                long token = i % 2 == 0 ? client.acquireFenced(key, owner, 30_000) : lock.lockAndGetToken();
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
}
