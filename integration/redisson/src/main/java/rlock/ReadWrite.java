package rlock;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Future;
import org.redisson.api.RLock;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RedissonClient;

/** RReadWriteLock and READ / WRITE: who may be in together, and who is woken. */
final class ReadWrite {
    /** So many times the release meets the waiter at some moment. */
    private static final int ROUNDS = 60;
    private static final long WRITER_LEASE_MS = 1_000;

    private ReadWrite() {
    }

    static List<Scenario> scenarios() {
        return List.of(
            Scenario.of("readers of both sides are in together, no writer with them", ReadWrite::readersTogether),
            Scenario.of("a native writer is alone", ReadWrite::nativeWriterAlone),
            Scenario.of("a Redisson writer is alone", ReadWrite::redissonWriterAlone),
            Scenario.of("a Redisson writer that becomes a reader lets native readers in", ReadWrite::redissonDowngrade),
            Scenario.of("a native writer that becomes a reader lets Redisson's readers in", ReadWrite::nativeDowngrade),
            new Scenario("a native writer's release wakes every Redisson reader", ReadWrite::wakesAllReaders),
            Scenario.of("no release of a native reader is missed by a Redisson writer", ReadWrite::wakesRedissonWriter),
            new Scenario("a native writer's release wakes a Redisson writer", ReadWrite::writerWakesWriter),
            Scenario.of("no unlock of a Redisson reader or writer is missed by a native writer", ReadWrite::wakesNativeWriter),
            Scenario.of("forceUnlock of either lock lets a native waiter in", ReadWrite::forceUnlock),
            Scenario.of("holds of one owner are counted together, read and write", ReadWrite::holdsAreCountedTogether));
    }

    private static void readersTogether(World world) throws Exception {
        String key = world.key("readers");
        RReadWriteLock lock = world.one.getReadWriteLock(key);
        try (Native client = world.client()) {
            lock.readLock().lock();
            Check.equal(true, client.acquire(key, "native", 30_000, "READ"), "a native reader with Redisson's");
            Check.equal(true, Check.soon(Check.takes(world.two.getReadWriteLock(key).readLock())), "a third reader");
            Check.equal("readwrite", client.info(key).get("kind"), "kind");
            Check.equal("read", client.info(key).get("mode"), "mode");
            Check.equal(2L, client.info(key).get("holder-count"), "holder-count");
            Check.equal(false, client.acquire(key, "writer", 30_000, "WRITE"), "a native writer among readers");
            Check.equal(false, lock.writeLock().tryLock(), "a Redisson writer that reads");
            Check.equal(false, world.two.getReadWriteLock(key).writeLock().tryLock(), "a Redisson writer among readers");
            lock.readLock().unlock();
            Check.equal(false, client.acquire(key, "writer", 30_000, "WRITE"), "a native writer and a native reader");
            Check.equal(1L, client.release(key, "native", "READ"), "release of the last reader");
            Check.equal(true, client.acquire(key, "writer", 30_000, "WRITE"), "a writer when all are gone");
            Check.equal(1L, client.release(key, "writer", "WRITE"), "release of the writer");
            Check.equal("none", client.info(key).get("kind"), "kind");
        }
    }

    private static void nativeWriterAlone(World world) throws Exception {
        String key = world.key("writer");
        RReadWriteLock lock = world.one.getReadWriteLock(key);
        try (Native client = world.client()) {
            client.acquire(key, "native", 30_000, "WRITE");
            Check.equal(true, lock.writeLock().isLocked(), "isLocked of the write lock");
            Check.equal(false, lock.readLock().isLocked(), "isLocked of the read lock");
            Check.equal(false, lock.readLock().tryLock(), "a Redisson reader");
            Check.equal(false, lock.writeLock().tryLock(), "a Redisson writer");
            Check.equal(false, client.acquire(key, "other", 30_000, "READ"), "a native reader");
            Check.equal(1L, client.release(key, "native", "WRITE"), "release");
            Check.equal(true, lock.readLock().tryLock(), "a Redisson reader when free");
            Check.equal(true, lock.readLock().isLocked(), "isLocked of the read lock");
            lock.readLock().unlock();
        }
    }

    private static void redissonWriterAlone(World world) throws Exception {
        String key = world.key("writer");
        RLock lock = world.one.getReadWriteLock(key).writeLock();
        try (Native client = world.client()) {
            lock.lock();
            Check.equal("write", client.info(key).get("mode"), "mode");
            Check.equal(World.ownerOf(world.one) + "=1", client.holder(key), "holder");
            Check.equal(false, client.acquire(key, "native", 30_000, "READ"), "a native reader");
            Check.equal(false, client.acquire(key, "native", 30_000, "WRITE"), "a native writer");
            Check.equal(null, client.release(key, "native", "WRITE"), "released by another");
            Check.equal(false, client.renew(key, "native", 30_000, "WRITE"), "renewed by another");
            lock.unlock();
            Check.equal(true, client.acquire(key, "native", 30_000, "WRITE"), "a native writer when free");
            Check.equal(1L, client.release(key, "native", "WRITE"), "release");
        }
    }

    private static void redissonDowngrade(World world) throws Exception {
        String key = world.key("downgrade");
        RReadWriteLock lock = world.one.getReadWriteLock(key);
        try (Native client = world.client()) {
            lock.writeLock().lock();
            lock.readLock().lock();
            Future<Boolean> reader = world.waits(key, "reader", "READ");
            Check.eventually("the reader waits", () -> client.waiters(key) == 1);
            lock.writeLock().unlock();
            Check.equal(true, Check.soon(reader), "the native reader is in");
            Check.equal(true, lock.readLock().isHeldByCurrentThread(), "the writer reads on");
            Check.equal(false, client.acquire(key, "writer", 30_000, "WRITE"), "a native writer");
            lock.readLock().unlock();
            Check.equal(1L, client.release(key, "reader", "READ"), "release");
            Check.equal("none", client.info(key).get("kind"), "kind");
        }
    }

    private static void nativeDowngrade(World world) throws Exception {
        String key = world.key("downgrade");
        try (Native client = world.client()) {
            client.acquire(key, "native", Check.LONG_LEASE_MS, "WRITE");
            Check.equal(true, client.acquire(key, "native", Check.LONG_LEASE_MS, "READ"), "the writer reads too");
            List<Future<Boolean>> readers = redissonReaders(world, key);
            Check.eventually("they listen", () -> world.listeners(client, World.readWriteChannel(key)) == 2);
            // They try once more then; that they sleep cannot be seen. See `missed` for why they have to.
            Thread.sleep(500);
            Check.equal(1L, client.release(key, "native", "WRITE"), "release of the write lock");
            Check.that(!Check.soon(readers).contains(false), "a Redisson reader is not in");
            Check.equal(false, world.one.getReadWriteLock(key).writeLock().tryLock(), "a Redisson writer");
            Check.equal(1L, client.release(key, "native", "READ"), "release of the read lock");
        }
    }

    /** Some threads of each of two processes that wait for the read lock. */
    private static List<Future<Boolean>> redissonReaders(World world, String key) {
        List<Future<Boolean>> readers = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            for (RedissonClient redisson : world.clients()) {
                readers.add(Check.takes(redisson.getReadWriteLock(key).readLock()));
            }
        }
        return readers;
    }

    private static void wakesRedissonWriter(World world) throws Exception {
        String key = world.key("to-writer");
        try (Native client = world.client()) {
            for (int round = 0; round < ROUNDS; round++) {
                String owner = world.owner();
                Check.equal(true, client.acquire(key, owner, Check.LONG_LEASE_MS, "READ", "BLOCK", "8000"), "acquired");
                Future<Boolean> writer = Check.takes(world.clients().get(round % 2).getReadWriteLock(key).writeLock());
                WakeUps.aMoment();
                Check.equal(1L, client.release(key, owner, "READ"), "release");
                Check.equal(true, Check.soon(writer), "the Redisson writer");
            }
        }
    }

    private static String wakesAllReaders(World world) throws Exception {
        return missed(world, "to-readers", (key, round) -> redissonReaders(world, key));
    }

    private static String writerWakesWriter(World world) throws Exception {
        return missed(world, "to-writer",
            (key, round) -> List.of(Check.takes(world.clients().get(round % 2).getReadWriteLock(key).writeLock())));
    }

    private interface Waiters {
        List<Future<Boolean>> of(String key, int round);
    }

    /**
     * No release is missed. The message `1` wakes the threads that sleep when it comes; one that has tried and does not sleep yet
     * misses it, and would sleep until the lease that it was told of, as between Redisson clients alone: so `0` comes before it.
     */
    private static String missed(World world, String what, Waiters waiters) throws Exception {
        String key = world.key(what);
        long missed = 0;
        try (Native client = world.client()) {
            for (int round = 0; round < ROUNDS / 2; round++) {
                String owner = world.owner();
                Check.equal(true, client.acquire(key, owner, WRITER_LEASE_MS, "WRITE", "BLOCK", "8000"), "acquired");
                List<Future<Boolean>> waiting = waiters.of(key, round);
                WakeUps.aMoment();
                long released = System.nanoTime();
                client.release(key, owner, "WRITE");
                Check.that(!Check.soon(waiting).contains(false), "not acquired by Redisson");
                missed += Check.millisSince(released) > WRITER_LEASE_MS / 2 ? 1 : 0;
            }
        }
        Check.that(missed == 0, missed + " of " + ROUNDS / 2 + " were missed");
        return "none of " + ROUNDS / 2 + " was missed";
    }

    private static void wakesNativeWriter(World world) throws Exception {
        String key = world.key("to-native");
        RReadWriteLock lock = world.one.getReadWriteLock(key);
        try (Native client = world.client()) {
            for (int round = 0; round < ROUNDS; round++) {
                String owner = world.owner();
                RLock held = round % 2 == 0 ? lock.readLock() : lock.writeLock();
                held.lock();
                Future<Boolean> writer = world.waits(key, owner, "WRITE");
                WakeUps.aMoment();
                held.unlock();
                Check.equal(true, Check.soon(writer), "the native writer");
                Check.equal(1L, client.release(key, owner, "WRITE"), "release");
            }
        }
    }

    private static void forceUnlock(World world) throws Exception {
        String key = world.key("forced");
        RReadWriteLock lock = world.one.getReadWriteLock(key);
        try (Native client = world.client()) {
            lock.readLock().lock();
            Future<Boolean> writer = world.waits(key, "writer", "WRITE");
            Check.eventually("the writer waits", () -> client.waiters(key) == 1);
            Check.equal(true, world.two.getReadWriteLock(key).readLock().forceUnlock(), "forceUnlock of the read lock");
            Check.equal(true, Check.soon(writer), "acquired");
            Future<Boolean> reader = world.waits(key, "reader", "READ");
            Check.eventually("the reader waits", () -> client.waiters(key) == 1);
            Check.equal(true, world.two.getReadWriteLock(key).writeLock().forceUnlock(), "forceUnlock of the write lock");
            Check.equal(true, Check.soon(reader), "acquired");
            Check.equal(1L, client.release(key, "reader", "READ"), "release");
        }
    }

    private static void holdsAreCountedTogether(World world) {
        String key = world.key("together");
        RReadWriteLock lock = world.one.getReadWriteLock(key);
        String me = World.ownerOf(world.one);
        try (Native client = world.client()) {
            client.acquire(key, me, 60_000, "WRITE");
            Check.equal(true, lock.writeLock().isHeldByCurrentThread(), "isHeldByCurrentThread");
            Check.equal(1, lock.writeLock().getHoldCount(), "getHoldCount of the write lock");
            client.acquire(key, me, 60_000, "READ");
            lock.readLock().lock();
            Check.equal(2, lock.readLock().getHoldCount(), "getHoldCount of the read lock");
            lock.writeLock().unlock();
            Check.equal("read", client.info(key).get("mode"), "mode");
            Check.equal(0L, client.release(key, me, "READ"), "native release of the second read hold");
            Check.equal(1, lock.readLock().getHoldCount(), "getHoldCount of the read lock");
            lock.readLock().unlock();
            Check.equal("none", client.info(key).get("kind"), "kind");
        }
    }
}
