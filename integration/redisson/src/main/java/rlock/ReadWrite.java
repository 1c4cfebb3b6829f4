package rlock;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RedissonClient;

/** RReadWriteLock and READ / WRITE: who may be in together, and for how long. */
final class ReadWrite {
    private ReadWrite() {
    }

    static List<Scenario> scenarios() {
        List<Scenario> scenarios = new ArrayList<>(List.of(
            Scenario.of("readers of both sides are in together, no writer with them", ReadWrite::readersTogether),
            Scenario.of("a Redisson writer that becomes a reader lets native readers in", ReadWrite::redissonDowngrade),
            Scenario.of("a native writer that becomes a reader lets Redisson's readers in", ReadWrite::nativeDowngrade),
            Scenario.of("holds of one owner are counted together, read and write", ReadWrite::holdsAreCountedTogether),
            Scenario.of("a dead Redisson reader keeps a native writer out for its lease only", ReadWrite::deadRedissonReader),
            Scenario.of("a dead native reader keeps Redisson's writer out for its lease only", ReadWrite::deadNativeReader)));
        // The renewal of 3.x gives the lease keys of all readers its own lease, those of natives too.
        if (!World.redissonVersion().startsWith("3.")) {
            scenarios.add(Scenario.of("a native reader's long lease outlives Redisson's short ones", ReadWrite::longLease));
        }
        return scenarios;
    }

    private static void readersTogether(World world) throws Exception {
        String key = world.key("readers");
        RReadWriteLock lock = world.one.getReadWriteLock(key);
        try (Native client = world.client()) {
            lock.readLock().lock();
            Check.equal(true, client.acquire(key, "native", 30_000, "READ"), "a native reader with Redisson's");
            Check.soon(Check.takes(world.two.getReadWriteLock(key).readLock()));
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

    private static void redissonDowngrade(World world) throws Exception {
        String key = world.key("downgrade");
        RReadWriteLock lock = world.one.getReadWriteLock(key);
        try (Native client = world.client()) {
            lock.writeLock().lock();
            lock.readLock().lock();
            Future<Boolean> reader = world.waits(key, "reader", Kind.READ);
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
            List<Future<Long>> readers = new ArrayList<>();
            for (int i = 0; i < 6; i++) {
                readers.add(Check.takes(world.clients().get(i % 2).getReadWriteLock(key).readLock(), i < 4));
            }
            Check.eventually("they listen", () -> world.listeners(client, Kind.READ.channel(key)) == 2);
            // They try once more then; that they sleep cannot be seen. See WakeUps for why they have to.
            Thread.sleep(500);
            Check.equal(1L, client.release(key, "native", "WRITE"), "release of the write lock");
            Check.soon(readers);
            Check.equal(false, world.one.getReadWriteLock(key).writeLock().tryLock(), "a Redisson writer");
            Check.equal(1L, client.release(key, "native", "READ"), "release of the read lock");
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

    /** It dies while another reads on: only its lease key tells that it is dead. */
    private static void deadRedissonReader(World world) throws Exception {
        String key = world.key("dead");
        try (Native client = world.client()) {
            client.acquire(key, "alive", Check.LONG_LEASE_MS, "READ");
            world.one.getReadWriteLock(key).readLock().lock(1_000, TimeUnit.MILLISECONDS);
            Check.equal(1L, client.release(key, "alive", "READ"), "release of the one that is alive");
            long start = System.nanoTime();
            Check.equal(true, client.acquire(key, "writer", 30_000, "WRITE", "BLOCK", "60000"), "a native writer");
            Check.that(Check.millisSince(start) < Check.SOON_MS, "waited " + Check.millisSince(start) + " ms");
            Check.equal(1L, client.release(key, "writer", "WRITE"), "release");
        }
    }

    private static void deadNativeReader(World world) throws Exception {
        String key = world.key("dead");
        RReadWriteLock lock = world.one.getReadWriteLock(key);
        try (Native client = world.client()) {
            lock.readLock().lock();
            client.acquire(key, "dead", 1_000, "READ");
            lock.readLock().unlock();
            long start = System.nanoTime();
            Check.equal(true, lock.writeLock().tryLock(60, TimeUnit.SECONDS), "Redisson's writer");
            Check.that(Check.millisSince(start) < Check.SOON_MS, "waited " + Check.millisSince(start) + " ms");
            lock.writeLock().unlock();
        }
    }

    /** The renewal of a read lock by 4.x gives the whole hash its own lease, also where that is shorter. */
    private static void longLease(World world) throws Exception {
        String key = world.key("long");
        RedissonClient third = world.redisson();
        try (Native client = world.client()) {
            client.acquire(key, "native", 60_000, "READ");
            third.getReadWriteLock(key).readLock().lock();
            Thread.sleep(World.WATCHDOG_MS / 2);
            third.shutdown();
            Thread.sleep(World.WATCHDOG_MS * 3 / 2);
            Check.equal(false, world.one.getReadWriteLock(key).writeLock().tryLock(), "Redisson's writer");
            Check.equal(false, client.acquire(key, "writer", 30_000, "WRITE"), "a native writer");
            Check.equal(1L, client.release(key, "native", "READ"), "release");
            Check.equal(true, client.acquire(key, "writer", 30_000, "WRITE"), "a native writer when free");
            Check.equal(1L, client.release(key, "writer", "WRITE"), "release of the writer");
        }
    }
}
