package rlock;

import java.util.List;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.redisson.api.RLock;

/** Redisson's readers know of no queue: as long as the next reads before the last has gone, a writer waits, of either side. */
final class Readers {
    private static final long SECONDS = 1;
    private static final int CROWD = 6;
    private static final long SHORT_LEASE_MS = 1_000;
    private static final long WORK_MS = 5;

    private Readers() {
    }

    /** It has the machine to itself. */
    static List<Scenario> alone() {
        return List.of(
            new Scenario("Redisson's readers without a gap let a native reader in, and no writer of either side", Readers::withoutGap));
    }

    /**
     * Each reads until another does. A native reader comes in at once, unless a writer of Redisson's is due: then it waits, for the lease
     * of the natives that read before it. A writer, a native one and
     * one of Redisson's, does not for as long as they go on, nor does a native reader that comes after the native writer; they do soon
     * after the end of it.
     */
    private static String withoutGap(World world) throws Exception {
        String key = world.key("redissons-readers");
        AtomicBoolean stop = new AtomicBoolean();
        AtomicLong inside = new AtomicLong();
        AtomicLong reads = new AtomicLong();
        List<Future<Void>> crowd = Check.start(CROWD, i -> () ->
            readsUntilAnotherDoes(world.clients().get(i % 2).getReadWriteLock(key).readLock(), stop, inside, reads));
        Check.eventually("several read", () -> inside.get() > 1);
        try (Native client = world.client()) {
            Check.equal(true, client.acquire(key, "early", SHORT_LEASE_MS, "READ"), "a native reader comes in");
            Check.equal(1L, client.release(key, "early"), "release");
            Future<Long> redissonWriter = Check.takes(world.one.getReadWriteLock(key).writeLock());
            Check.eventually("Redisson's writer listens", () -> world.listeners(client, Kind.WRITE.channel(key)) > 0);
            long nativeReads = readsBeforeAWait(world, client, key);
            Future<Boolean> nativeWriter = comesIn(world, key, "writer", "WRITE");
            Check.eventually("the native writer waits", () -> client.waiters(key) == 1);
            Future<Boolean> nativeReader = comesIn(world, key, "late", "READ");
            Thread.sleep(SECONDS * 1_000);
            Check.equal(false, nativeWriter.isDone() || redissonWriter.isDone(), "a writer is in beside readers");
            Check.equal(false, nativeReader.isDone(), "a native reader has overtaken the native writer");
            stop.set(true);
            Check.soon(crowd);
            long end = System.nanoTime();
            Check.equal(true, Check.soon(nativeWriter), "the native writer is in");
            long waited = Check.millisSince(end);
            Check.equal(true, Check.soon(nativeReader), "the native reader is in");
            Check.soon(redissonWriter);
            return "no writer among " + reads + " reads; the native one " + waited + " ms after the last; beside Redisson's writer "
                + nativeReads + " native reads without a wait";
        }
    }

    /**
     * Natives read until they have to wait for Redisson's writer: it is its turn then, of which Redisson's readers know nothing. It is over
     * with the leases of the natives that read before, and others come in again.
     */
    private static long readsBeforeAWait(World world, Native client, String key) {
        for (long count = 0;; count++) {
            String owner = world.owner();
            if (count == 1_000 || !client.acquire(key, owner, SHORT_LEASE_MS, "READ")) {
                Check.that(client.acquire(key, owner, SHORT_LEASE_MS, "READ", "BLOCK", "20000"), "a native reader is kept out for ever");
                Check.equal(1L, client.release(key, owner), "release");
                return count;
            }
            Check.equal(1L, client.release(key, owner), "release");
        }
    }

    private static Future<Boolean> comesIn(World world, String key, String owner, String mode) {
        return Check.start(() -> {
            try (Native client = world.client()) {
                return client.acquire(key, owner, Check.LONG_LEASE_MS, mode, "BLOCK", "60000") && client.release(key, owner) == 1;
            }
        });
    }

    private static Void readsUntilAnotherDoes(RLock lock, AtomicBoolean stop, AtomicLong inside, AtomicLong reads) throws Exception {
        while (!stop.get()) {
            lock.lock(Check.LONG_LEASE_MS, TimeUnit.MILLISECONDS);
            reads.incrementAndGet();
            inside.incrementAndGet();
            Thread.sleep(WORK_MS);
            // Whoever is not the last goes; the last stays until another has come.
            while (!stop.get() && !oneLess(inside)) {
                Thread.sleep(1);
            }
            if (stop.get()) {
                inside.decrementAndGet();
            }
            lock.unlock();
        }
        return null;
    }

    /** False: it is the last. */
    private static boolean oneLess(AtomicLong inside) {
        return inside.getAndUpdate(count -> count > 1 ? count - 1 : count) > 1;
    }
}
