package rlock;

import java.util.ArrayList;
import java.util.List;
import java.util.LongSummaryStatistics;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Stream;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** Neither side keeps the other out for long, however many of it there are. */
final class Starvation {
    private static final int CROWD = 6;
    /** How long each of the crowd works under the lock: longer than two of the server's timers. */
    private static final long WORK_MS = 5;
    /** For how long the lock is left to Redisson, in its turn. */
    private static final long TURN_MS = 20;

    private Starvation() {
    }

    static List<Scenario> scenarios() {
        Stream<Scenario> scenarios = Stream.of(
            natives("a crowd of native waiters lets Redisson in", new Crowd(CROWD, 0, Kind.PLAIN), 4_000, 2_000, 2, Kind.PLAIN),
            natives("a crowd of native waiters lets a Redisson fair waiter in", new Crowd(CROWD, 0, Kind.PLAIN), 3_000, 1_500, 2, Kind.FAIR),
            // One of them always reads, since each works for another time: a lock that all leave at once is not left to Redisson.
            natives("a crowd of native readers lets a Redisson writer in", new Crowd(CROWD, WORK_MS, Kind.READ), 4_000, 2_000, 1,
                Kind.WRITE),
            natives("natives that read and write by turns let Redisson read and write", new Crowd(2, 0, Kind.READ, Kind.WRITE), 4_000, 4_000,
                2, Kind.READ, Kind.WRITE),
            redissons("a crowd of Redisson threads at work lets a native waiter in", WORK_MS, 2_000, 1_000, Kind.PLAIN),
            redissons("a crowd of Redisson threads without work lets a native waiter in", 0, 2_000, 1_000, Kind.PLAIN));
        // The bound is for the busiest of machines, since it is a matter of chance when none of the crowd reads. One server has the lock, in
        // a cluster as well.
        Stream<Scenario> readers = World.isOfACluster() ? Stream.of() : Stream.of(
            redissons("a crowd of Redisson readers and writers lets a native reader in", WORK_MS, 1_000, 3_000, Kind.READ),
            redissons("a crowd of Redisson readers and writers lets a native writer in", WORK_MS, 1_000, 3_000, Kind.WRITE));
        return Stream.concat(scenarios, readers).toList();
    }

    /** Natives that acquire by turns in these ways, and work under the lock: the first for so long, the second twice so long. */
    private record Crowd(int count, long workMs, Kind... kinds) {
    }

    /**
     * The queue is never empty, so that every release hands the lock on, or somebody always reads; but every 100 hand-offs or readers, or
     * every second, it is left to Redisson for 20 ms. Each such turn lets one thread in, or all that read. The natives go on until
     * each Redisson thread has had the lock. If a Redisson writer were the last to unlock, a thread that is about to sleep would miss
     * its message, as between Redisson clients alone.
     */
    private static Scenario natives(String name, Crowd crowd, long forMs, long boundMs, int clients, Kind... kinds) {
        return new Scenario(name, world -> {
            String key = world.key("native-crowd");
            AtomicBoolean stop = new AtomicBoolean();
            AtomicBoolean redissonsStop = new AtomicBoolean();
            AtomicLong turns = new AtomicLong();
            List<Future<Void>> natives = Check.start(crowd.count, i -> () -> works(world, key, crowd, i, stop, turns));
            List<Future<LongSummaryStatistics>> threads = new ArrayList<>();
            for (RedissonClient redisson : world.clients().subList(0, clients)) {
                for (Kind kind : kinds) {
                    threads.add(Check.start(() -> takeTurns(kind.of(redisson, key), redissonsStop)));
                }
            }
            Thread.sleep(forMs);
            redissonsStop.set(true);
            LongSummaryStatistics waits = new LongSummaryStatistics();
            Check.soon(threads).forEach(waits::combine);
            stop.set(true);
            Check.soon(natives);
            String found = turns + " native turns in " + forMs + " ms, and Redisson's waits " + waits;
            Check.that(waits.getCount() >= forMs / 2_000 && waits.getMax() < boundMs, found);
            return found;
        });
    }

    private static Void works(World world, String key, Crowd crowd, int number, AtomicBoolean stop, AtomicLong turns) throws Exception {
        try (Native client = world.client()) {
            for (int i = 0; !stop.get(); i++) {
                String owner = world.owner();
                Kind kind = crowd.kinds[i % crowd.kinds.length];
                Check.that(client.acquire(key, owner, Check.LONG_LEASE_MS, kind.and("BLOCK", "0")), "not acquired");
                turns.incrementAndGet();
                pause(crowd.workMs * (1 + number));
                Check.equal(1L, client.release(key, owner, kind.mode()), "release");
            }
        }
        return null;
    }

    /** The waits for turns of the thread, in ms. */
    private static LongSummaryStatistics takeTurns(RLock lock, AtomicBoolean stop) throws InterruptedException {
        LongSummaryStatistics waits = new LongSummaryStatistics();
        while (!stop.get()) {
            long start = System.nanoTime();
            lock.lock(Check.LONG_LEASE_MS, TimeUnit.MILLISECONDS);
            waits.accept(Check.millisSince(start));
            lock.unlock();
        }
        return waits;
    }

    /**
     * After Redisson's unlock the server gives the lock to who waits in it as soon as it has done what other clients had sent by
     * then. Only the thread that has the lock goes first, and those of a turn; but where the lock is asked for all the time, and
     * held for no time, one of those other requests may get in before, now and then several times in a row.
     *
     * <p>Of a read/write lock, half of the crowd reads, with pauses in which none may be left, and half writes.
     */
    private static Scenario redissons(String name, long workMs, long forMs, long boundMs, Kind kind) {
        return new Scenario(name, world -> {
            String key = world.key("redisson-crowd");
            AtomicBoolean stop = new AtomicBoolean();
            AtomicLong turns = new AtomicLong();
            List<Future<Void>> crowd = Check.start(CROWD, i -> {
                Kind taken = !kind.isOfReadWrite() ? kind : i < CROWD / 2 ? Kind.READ : Kind.WRITE;
                RLock lock = taken.of(world.clients().get(i % 2), key);
                return () -> redissons(lock, workMs, taken == Kind.READ ? 2 * workMs : 0, stop, turns);
            });
            LongSummaryStatistics waits = new LongSummaryStatistics();
            LongSummaryStatistics overtaken = new LongSummaryStatistics();
            long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(forMs);
            try (Native client = world.client(); Native other = world.client()) {
                while (System.nanoTime() < end) {
                    String owner = world.owner();
                    long start = System.nanoTime();
                    Future<Boolean> wait =
                        Check.start(() -> client.acquire(key, owner, Check.LONG_LEASE_MS, kind.and("BLOCK", "60000")));
                    while (other.waiters(key) == 0 && !wait.isDone()) {
                        Thread.onSpinWait();
                    }
                    long before = turns.get();
                    Check.equal(true, Check.soon(wait), "acquired");
                    overtaken.accept(turns.get() - before);
                    waits.accept(Check.millisSince(start));
                    Check.equal(1L, client.release(key, owner, kind.mode()), "release");
                }
                stop.set(true);
                // One that missed the message of a writer of Redisson's is woken by a native one's.
                Check.eventually("the crowd to go", () -> !kind.isOfReadWrite() || isGone(crowd, client, key));
            }
            Check.soon(crowd);
            String found = turns + " Redisson turns, native waits " + waits + ", overtaken " + overtaken;
            Check.that(waits.getMax() <= boundMs, found);
            Check.that(kind.isOfReadWrite() || workMs == 0 || overtaken.getMax() <= TURN_MS / workMs + 2, found);
            return found;
        });
    }

    private static boolean isGone(List<Future<Void>> crowd, Native client, String key) {
        if (client.acquire(key, "last", Check.LONG_LEASE_MS, "WRITE", "BLOCK", "100")) {
            client.release(key, "last", "WRITE");
        }
        return crowd.stream().allMatch(Future::isDone);
    }

    /** Each works under the lock, and pauses without it. */
    private static Void redissons(RLock lock, long workMs, long pauseMs, AtomicBoolean stop, AtomicLong turns) throws Exception {
        while (!stop.get()) {
            lock.lock(Check.LONG_LEASE_MS, TimeUnit.MILLISECONDS);
            turns.incrementAndGet();
            pause(workMs);
            lock.unlock();
            pause(pauseMs);
        }
        return null;
    }

    /** Without a pause the thread does not even yield. */
    private static void pause(long ms) throws InterruptedException {
        if (ms > 0) {
            Thread.sleep(ms);
        }
    }
}
