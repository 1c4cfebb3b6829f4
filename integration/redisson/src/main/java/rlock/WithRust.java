package rlock;

import java.util.List;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RReadWriteLock;

/** Redisson and the Rust client on the same locks: each one's watchdog keeps the other out, and each wakes the other. */
final class WithRust {
    private static final List<Kind> KINDS = List.of(Kind.PLAIN, Kind.FENCED, Kind.FAIR, Kind.WRITE);
    /** Longer than the leases of both. */
    private static final long LONGER_MS = World.WATCHDOG_MS * 4 / 3;

    private WithRust() {
    }

    static List<Scenario> scenarios() {
        Stream<Scenario> handOvers = KINDS.stream().map(kind -> Scenario.of(
            "Redisson and the Rust client keep each other out and hand over: " + kind, world -> handOver(world, kind)));
        Stream<Scenario> others = Stream.of(
            Scenario.of("readers of Redisson's and of the Rust client are in together, and keep writers out", WithRust::readers),
            Scenario.of("a Rust user that is gone lets Redisson in", WithRust::gone));
        return Stream.concat(handOvers, others).toList();
    }

    /** From the Rust client to Redisson and back, each beyond its lease. */
    private static void handOver(World world, Kind kind) throws Exception {
        String key = world.placeOn(KINDS.indexOf(kind) % 3) + kind;
        try (RustClient rust = world.rustClient(); RustClient other = world.rustClient()) {
            long token = rust.take(kind, key);
            Future<Long> redisson = Check.start(() -> redissonTakes(world, kind, key, other));
            Thread.sleep(LONGER_MS);
            rust.check();
            Check.equal(false, redisson.isDone(), "Redisson has what the Rust client holds");
            Check.equal("done", rust.giveBack(), "the Rust client gives it back");
            // It has the lock for longer than its lease, and then the other user of the Rust client.
            long second = redisson.get(LONGER_MS + Check.SOON_MS, TimeUnit.MILLISECONDS);
            Check.that(kind != Kind.FENCED || second > token, "the token " + second + " is not larger than " + token);
        }
    }

    /** The token of its hold, during which the Rust client waits, and which gets the lock then. */
    private static Long redissonTakes(World world, Kind kind, String key, RustClient rust) throws Exception {
        RLock lock = kind.of(world.two, key);
        long token = lock instanceof RFencedLock fenced ? fenced.lockAndGetToken() : lockedBy(lock);
        Future<Long> waiter = Check.start(() -> rust.take(kind, key));
        Thread.sleep(LONGER_MS);
        Check.equal(true, lock.isHeldByCurrentThread(), "isHeldByCurrentThread");
        Check.equal(false, waiter.isDone(), "the Rust client has what Redisson holds");
        lock.unlock();
        long next = Check.soon(waiter);
        Check.that(kind != Kind.FENCED || next > token, "the token " + next + " is not larger than " + token);
        rust.check();
        Check.equal(false, lock.isHeldByCurrentThread(), "isHeldByCurrentThread beside the Rust client's hold");
        Check.equal("done", rust.giveBack(), "the Rust client gives it back");
        return token;
    }

    private static long lockedBy(RLock lock) {
        lock.lock();
        return 0;
    }

    private static void readers(World world) throws Exception {
        String key = world.key("readers-of-both");
        RReadWriteLock lock = world.one.getReadWriteLock(key);
        try (RustClient reader = world.rustClient(); RustClient writer = world.rustClient()) {
            lock.readLock().lock();
            reader.take(Kind.READ, key);
            Future<Long> rustWriter = Check.start(() -> {
                writer.take(Kind.WRITE, key);
                return System.nanoTime();
            });
            try (Native client = world.client()) {
                Check.eventually("the Rust client waits", () -> client.waiters(key) == 1);
            }
            Future<long[]> redissonWriter = Check.start(() -> writes(world.two.getReadWriteLock(key).writeLock()));
            Thread.sleep(LONGER_MS);
            reader.check();
            Check.equal(true, lock.readLock().isHeldByCurrentThread(), "isHeldByCurrentThread");
            lock.readLock().unlock();
            Thread.sleep(World.WATCHDOG_MS / 2);
            Check.equal(false, rustWriter.isDone() || redissonWriter.isDone(), "a writer is in beside a reader");
            Check.equal("done", reader.giveBack(), "the last reader goes");
            long taken = Check.soon(rustWriter);
            // After readers of more than a second the lock is left to Redisson for a window: its writer may have been first, and
            // is gone. If it was not, it is not in while the Rust client writes.
            Thread.sleep(600);
            long given = System.nanoTime();
            Check.equal("done", writer.giveBack(), "the writer goes");
            long[] wrote = Check.soon(redissonWriter);
            Check.that(wrote[1] < taken || wrote[0] > given, "a second writer is in");
        }
    }

    /** Two moments at which Redisson writes, the first and the last that it knows of. */
    private static long[] writes(RLock lock) throws InterruptedException {
        Check.that(lock.tryLock(60, 60, TimeUnit.SECONDS), "Redisson does not write");
        long first = System.nanoTime();
        long last = System.nanoTime();
        lock.unlock();
        return new long[] {first, last};
    }

    /** A guard that is dropped, here with its connection, is given back. */
    private static void gone(World world) throws Exception {
        String key = world.key("gone-of-rust");
        Future<Long> waiter;
        try (RustClient rust = world.rustClient()) {
            rust.take(Kind.PLAIN, key);
            waiter = Check.takes(world.one.getLock(key));
            try (Native client = world.client()) {
                Check.eventually("Redisson listens", () -> world.listeners(client, Kind.PLAIN.channel(key)) > 0);
            }
            Check.equal(false, rust.tryToTake(Kind.PLAIN, key), "another acquisition of the Rust client's");
        }
        Check.soon(waiter);
    }
}
