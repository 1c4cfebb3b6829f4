package rlock;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.redisson.api.RLock;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RedissonClient;

/** RReadWriteLock and READ / WRITE: the leases of many readers, watchdogs, and everything at once. */
final class ReadLeases {
    private static final long SECONDS = 3;

    private ReadLeases() {
    }

    static List<Scenario> scenarios() {
        List<Scenario> scenarios = new ArrayList<>(List.of(
            Scenario.of("Redisson's read watchdog keeps a native writer out", ReadLeases::redissonsWatchdog),
            Scenario.of("a native reader's renewals keep Redisson's writer out", ReadLeases::nativesRenewals),
            Scenario.of("a dead Redisson reader keeps a native writer out for its lease only", ReadLeases::deadRedissonReader),
            Scenario.of("a dead native reader keeps Redisson's writer out for its lease only", ReadLeases::deadNativeReader)));
        // The renewal of 3.x gives the lease keys of all readers its own lease, those of natives too.
        if (!World.redissonVersion().startsWith("3.")) {
            scenarios.add(Scenario.of("a native reader's long lease outlives Redisson's short ones", ReadLeases::longLease));
        }
        return scenarios;
    }

    /** It has the machine to itself. */
    static List<Scenario> alone() {
        return List.of(new Scenario("readers and writers of all kinds at once, no writer with another", ReadLeases::allAtOnce));
    }

    private static void redissonsWatchdog(World world) throws Exception {
        String key = world.key("watched");
        RLock lock = world.one.getReadWriteLock(key).readLock();
        lock.lock();
        try (Native client = world.client()) {
            String wait = Long.toString(World.WATCHDOG_MS * 2);
            Check.equal(false, client.acquire(key, "writer", 30_000, "WRITE", "BLOCK", wait), "a native writer");
            Check.equal(true, client.acquire(key, "reader", 30_000, "READ"), "a native reader");
            Check.equal(1L, client.release(key, "reader", "READ"), "release of the native reader");
            lock.unlock();
            Check.equal(true, client.acquire(key, "writer", 30_000, "WRITE"), "a native writer when free");
        }
    }

    private static void nativesRenewals(World world) throws Exception {
        String key = world.key("renewed");
        RLock writer = world.one.getReadWriteLock(key).writeLock();
        try (Native client = world.client()) {
            client.acquire(key, "native", 2_000, "READ");
            Future<Boolean> waiter = Check.start(() -> writer.tryLock(5_000, TimeUnit.MILLISECONDS));
            while (!waiter.isDone()) {
                Check.that(client.renew(key, "native", 2_000, "READ"), "the lock was lost");
                Thread.sleep(300);
            }
            Check.equal(false, waiter.get(), "acquired while renewed");
            Check.equal(1L, client.release(key, "native", "READ"), "release");
            Check.equal(true, writer.tryLock(), "acquired when free");
            writer.unlock();
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

    /**
     * Of several threads of one process that have tried and do not sleep yet, Redisson keeps a message for one; the others sleep until
     * the end of the lease that they were told of, as between Redisson clients alone. So leases are short here, and the natives, who
     * must not sleep through a release, show that they do not: none waits for as long as a lease.
     */
    private static final long SHORT_LEASE_MS = 4_000;

    private static String allAtOnce(World world) throws Exception {
        Room room = new Room();
        String key = world.key("contended");
        long end = System.nanoTime() + SECONDS * 1_000_000_000;
        List<Future<Void>> threads = new ArrayList<>();
        for (RedissonClient redisson : world.clients()) {
            RReadWriteLock lock = redisson.getReadWriteLock(key);
            threads.add(Check.start(() -> redissons(lock.readLock(), room::read, end)));
            threads.add(Check.start(() -> redissons(lock.readLock(), room::read, end)));
            threads.add(Check.start(() -> redissons(lock.writeLock(), room::write, end)));
        }
        for (String mode : List.of("READ", "READ", "READ", "WRITE", "WRITE")) {
            Room.Visit visit = mode.equals("READ") ? room::read : room::write;
            threads.add(Check.start(() -> natives(world, key, mode, visit, end)));
        }
        for (Future<Void> thread : threads) {
            thread.get(SECONDS + 30, TimeUnit.SECONDS);
        }
        try (Native client = world.client()) {
            Check.equal("none", client.info(key).get("kind"), "kind");
            Check.equal(0L, client.waiters(key), "waiters");
        }
        Check.that(room.written.get() > 0 && room.together.get() > 0, "writers or readers together never were in");
        return room.reads + " reads, " + room.together + " of them beside another, " + room.written + " writes";
    }

    private static Void redissons(RLock lock, Room.Visit visit, long end) throws Exception {
        while (System.nanoTime() < end) {
            lock.lock(SHORT_LEASE_MS, TimeUnit.MILLISECONDS);
            visit.go();
            lock.unlock();
            Thread.sleep(ThreadLocalRandom.current().nextInt(3));
        }
        return null;
    }

    private static Void natives(World world, String key, String mode, Room.Visit visit, long end) throws Exception {
        try (Native client = world.client()) {
            while (System.nanoTime() < end) {
                String owner = world.owner();
                long asked = System.nanoTime();
                Check.equal(true, client.acquire(key, owner, SHORT_LEASE_MS, mode, "BLOCK", "60000"), "acquired");
                long waited = Check.millisSince(asked);
                Check.that(waited < SHORT_LEASE_MS / 2, "a native waited for " + waited + " ms");
                visit.go();
                Check.equal(1L, client.release(key, owner, mode), "release");
                Thread.sleep(ThreadLocalRandom.current().nextInt(3));
            }
        }
        return null;
    }

    /** What the lock protects: it notices a writer who is not alone. */
    private static final class Room {
        interface Visit {
            void go() throws Exception;
        }

        private static final long WRITER = 1_000_000;
        private final AtomicLong inside = new AtomicLong();
        final AtomicLong reads = new AtomicLong();
        final AtomicLong together = new AtomicLong();
        final AtomicLong written = new AtomicLong();

        void read() throws InterruptedException {
            long now = inside.incrementAndGet();
            Check.that(now < WRITER, "a reader beside a writer");
            if (now > 1) {
                together.incrementAndGet();
            }
            reads.incrementAndGet();
            TimeUnit.MICROSECONDS.sleep(300);
            inside.decrementAndGet();
        }

        void write() throws InterruptedException {
            Check.equal(WRITER, inside.addAndGet(WRITER), "a writer beside another");
            written.incrementAndGet();
            TimeUnit.MICROSECONDS.sleep(300);
            inside.addAndGet(-WRITER);
        }
    }
}
