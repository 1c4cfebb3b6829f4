package rlock;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.BiFunction;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** Neither side keeps the other out for long, however many of it there are. */
final class Starvation {
    private static final long SECONDS = 4;
    private static final int CROWD = 6;
    /** How long each of the crowd works under the lock: longer than two of the server's timers. */
    private static final long WORK_MS = 5;
    /** For how long the lock is left to Redisson, in its turn. */
    private static final long TURN_MS = 20;

    private Starvation() {
    }

    static List<Scenario> scenarios() {
        return List.of(
            new Scenario("a crowd of native waiters lets Redisson in",
                world -> nativeCrowd(world, RedissonClient::getLock, SECONDS)),
            new Scenario("a crowd of native readers lets a Redisson writer in", Starvation::nativeReaders),
            new Scenario("natives that read and write by turns let Redisson read and write", Starvation::nativeReadersAndWriters),
            new Scenario("a crowd of Redisson threads at work lets a native waiter in", world -> redissonCrowd(world, WORK_MS)),
            new Scenario("a crowd of Redisson threads without work lets a native waiter in", world -> redissonCrowd(world, 0)));
    }

    /**
     * The queue is never empty, so that every release hands the lock on; but every 100 hand-offs, or every second, it is left to
     * Redisson for 20 ms. Each such turn lets one thread in. The natives go on until Redisson's threads are through, here as below.
     */
    static String nativeCrowd(World world, BiFunction<RedissonClient, String, RLock> lock, long seconds) throws Exception {
        String key = world.key("native-crowd");
        AtomicBoolean stop = new AtomicBoolean();
        AtomicBoolean redissonsStop = new AtomicBoolean();
        AtomicLong handOffs = new AtomicLong();
        List<Future<Void>> crowd = Check.start(CROWD, i -> () -> natives(world, key, stop, handOffs, 0));
        List<Future<long[]>> threads = Check.start(2, i -> () -> takeTurns(lock.apply(world.clients().get(i), key), redissonsStop));
        Thread.sleep(seconds * 1_000);
        redissonsStop.set(true);
        long turns = 0;
        long longest = 0;
        for (long[] turnsAndLongest : Check.soon(threads)) {
            turns += turnsAndLongest[0];
            longest = Math.max(longest, turnsAndLongest[1]);
        }
        stop.set(true);
        Check.soon(crowd);
        String found = handOffs + " native and " + turns + " Redisson turns in " + seconds + " s, Redisson's longest wait " + longest + " ms";
        Check.that(turns >= seconds / 2 && longest < seconds * 1_000 / 2, found);
        return found;
    }

    /**
     * Somebody always reads: each of the crowd works for another time, since a lock that all leave at once is free without being left
     * to Redisson. But every 100 readers, or every second, new readers wait until the lock is free, as long as Redisson listens.
     */
    private static String nativeReaders(World world) throws Exception {
        String key = world.key("native-readers");
        AtomicBoolean stop = new AtomicBoolean();
        AtomicBoolean redissonsStop = new AtomicBoolean();
        AtomicLong reads = new AtomicLong();
        List<Future<Void>> crowd = Check.start(CROWD, i -> () -> natives(world, key, stop, reads, WORK_MS * (1 + i), "READ"));
        Future<long[]> writer =
            Check.start(() -> takeTurns(world.clients().get(0).getReadWriteLock(key).writeLock(), redissonsStop));
        Thread.sleep(SECONDS * 1_000);
        redissonsStop.set(true);
        long[] turnsAndLongest = Check.soon(writer);
        stop.set(true);
        Check.soon(crowd);
        String found = reads + " native reads and " + turnsAndLongest[0] + " of Redisson's writes in " + SECONDS
            + " s, its longest wait " + turnsAndLongest[1] + " ms";
        Check.that(turnsAndLongest[0] >= SECONDS / 2 && turnsAndLongest[1] < SECONDS * 1_000 / 2, found);
        return found;
    }

    /**
     * Natives take a lock by turns to read and to write, without a pause; Redisson's turns let one thread in, or all that read. The
     * natives go on until its threads are through: where the last to unlock were a writer of Redisson's, one that is about to sleep
     * would miss its message, as between Redisson clients alone.
     */
    private static String nativeReadersAndWriters(World world) throws Exception {
        String key = world.key("native-readers-and-writers");
        AtomicBoolean stop = new AtomicBoolean();
        AtomicBoolean redissonsStop = new AtomicBoolean();
        AtomicLong natives = new AtomicLong();
        List<Future<Void>> crowd = Check.start(2, i -> () -> natives(world, key, stop, natives, 0, "READ", "WRITE"));
        List<Future<long[]>> threads = new ArrayList<>();
        for (RedissonClient redisson : world.clients()) {
            threads.add(Check.start(() -> takeTurns(redisson.getReadWriteLock(key).readLock(), redissonsStop)));
            threads.add(Check.start(() -> takeTurns(redisson.getReadWriteLock(key).writeLock(), redissonsStop)));
        }
        Thread.sleep(SECONDS * 1_000);
        redissonsStop.set(true);
        List<String> found = new ArrayList<>();
        long longest = 0;
        for (long[] turnsAndLongest : Check.soon(threads)) {
            found.add(turnsAndLongest[0] + " turns, its longest wait " + turnsAndLongest[1] + " ms");
            longest = Math.max(longest, turnsAndLongest[1]);
        }
        stop.set(true);
        Check.soon(crowd);
        String all = natives + " native turns, and of each Redisson thread " + found;
        Check.that(longest < SECONDS * 1_000, all);
        return all;
    }

    /** Each acquires, by turns with these words or without one, works under the lock and releases it. */
    private static Void natives(World world, String key, AtomicBoolean stop, AtomicLong turns, long workMs, String... modes)
            throws Exception {
        try (Native client = world.client()) {
            for (int i = 0; !stop.get(); i++) {
                String owner = world.owner();
                String[] wait = {"BLOCK", "0"};
                String[] words = modes.length == 0 ? wait : new String[] {modes[i % modes.length], "BLOCK", "0"};
                Check.that(client.acquire(key, owner, Check.LONG_LEASE_MS, words), "not acquired");
                turns.incrementAndGet();
                pause(workMs);
                Check.equal(1L, client.release(key, owner), "release");
            }
        }
        return null;
    }

    /** How many turns the thread had, and the longest wait for one in ms. */
    static long[] takeTurns(RLock lock, AtomicBoolean stop) throws InterruptedException {
        long turns = 0;
        long longest = 0;
        while (!stop.get()) {
            long start = System.nanoTime();
            lock.lock(Check.LONG_LEASE_MS, TimeUnit.MILLISECONDS);
            longest = Math.max(longest, Check.millisSince(start));
            turns++;
            lock.unlock();
        }
        return new long[] {turns, longest};
    }

    /**
     * After Redisson's unlock the server gives the lock to who waits in it as soon as it has done what other clients had sent by
     * then. Only the thread that has the lock goes first, and those of a turn; but where the lock is asked for all the time, and
     * held for no time, one of those other requests may get in before, now and then several times in a row.
     */
    private static String redissonCrowd(World world, long workMs) throws Exception {
        String key = world.key("redisson-crowd");
        AtomicBoolean stop = new AtomicBoolean();
        AtomicLong turns = new AtomicLong();
        List<Future<Void>> crowd =
            Check.start(CROWD, i -> () -> redissons(world.clients().get(i % 2).getLock(key), workMs, 0, stop, turns));
        List<Wait> waits = new ArrayList<>();
        long end = System.nanoTime() + SECONDS * 1_000_000_000 / 2;
        try (Native client = world.client(); Native other = world.client()) {
            while (System.nanoTime() < end) {
                waits.add(waitAmongOthers(client, other, key, world.owner(), turns));
            }
        }
        stop.set(true);
        Check.soon(crowd);
        long most = waits.stream().mapToLong(Wait::overtaken).max().orElseThrow();
        long longest = waits.stream().mapToLong(Wait::ms).max().orElseThrow();
        String found = waits.size() + " waits among " + turns + " Redisson turns, overtaken at most " + most + " times, for at most "
            + longest + " ms";
        Check.that(longest <= 1_000, found);
        Check.that(workMs == 0 || most <= TURN_MS / workMs + 2, found);
        return found;
    }

    /** How many others had the lock from when the owner was seen to wait, and for how long it waited. */
    private record Wait(long overtaken, long ms) {
    }

    private static Wait waitAmongOthers(Native client, Native other, String key, String owner, AtomicLong turns)
            throws Exception {
        long start = System.nanoTime();
        Future<Boolean> wait =
            Check.start(() -> client.acquire(key, owner, Check.LONG_LEASE_MS, "BLOCK", "60000"));
        while (other.waiters(key) == 0 && !wait.isDone()) {
            Thread.onSpinWait();
        }
        long before = turns.get();
        Check.equal(true, Check.soon(wait), "acquired");
        Wait waited = new Wait(turns.get() - before, Check.millisSince(start));
        Check.equal(1L, client.release(key, owner), "release");
        return waited;
    }

    /** Each works under the lock, and pauses without it. */
    static Void redissons(RLock lock, long workMs, long pauseMs, AtomicBoolean stop, AtomicLong turns) throws Exception {
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
