package rlock;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.RedisException;

/**
 * Locks of every kind that one thread of Redisson holds, as long as its watchdog renews them, while threads of another Redisson
 * client and native clients wait for them. For one thread.
 *
 * <p>After the end of a primary, planned or not, Redisson's watchdog may renew nothing for the whole of a lease, now and then: then the
 * server has to keep the locks until that has ended, and nobody may have them before.
 */
final class Kept implements AutoCloseable {
    /**
     * How long each may wait after the locks are free and the leases have ended that it was told of: what fails meanwhile Redisson
     * tries again after a second or two, and to subscribe again takes it 7.5 s to give up.
     */
    private static final long SLACK_MS = 15_000;

    private final World world;
    private final long leaseMs;
    private final List<RLock> held = new ArrayList<>();
    private final List<Roaming> natives = new ArrayList<>();
    private final List<Future<Long>> waiting = new ArrayList<>();
    /** Errors that Redisson threw at those who wait. */
    private final AtomicLong errors = new AtomicLong();
    private final Leases leases;
    /** Whether Redisson has to renew everything in time. */
    private final boolean strict;
    /** What Redisson did not renew in time. */
    private final Set<String> unrenewed = new TreeSet<>();
    private volatile boolean free;

    Kept(World world, List<RedissonClient> redissons, String place, long leaseMs, boolean moving) throws Exception {
        this.world = world;
        this.leaseMs = leaseMs;
        this.strict = moving;
        RedissonClient holder = redissons.get(0);
        RedissonClient other = redissons.get(1);
        keep(holder.getLock(place + "kept"), other.getLock(place + "kept"), Kind.PLAIN);
        // See Changes: Redisson's wait for a fenced lock might never end.
        keep(holder.getFencedLock(place + "kept-fenced"), moving ? null : other.getFencedLock(place + "kept-fenced"), Kind.FENCED);
        keep(holder.getFairLock(place + "kept-fair"), other.getFairLock(place + "kept-fair"), Kind.FAIR);
        keep(holder.getReadWriteLock(place + "written").writeLock(), other.getReadWriteLock(place + "written").readLock(), Kind.READ);
        keep(holder.getReadWriteLock(place + "read").readLock(), other.getReadWriteLock(place + "read").writeLock(), Kind.WRITE);
        leases = new Leases(world.nodes(), World.ownerOf(holder), held.stream().map(RLock::getName).toList());
        for (RLock lock : held) {
            Check.eventually("all wait for " + lock.getName(), () -> allWait(lock.getName()));
        }
    }

    /** Both who wait stand in a fair lock's queue; elsewhere it is seen that Redisson listens. */
    private boolean allWait(String key) throws Exception {
        String channel = (key.contains("kept") ? Kind.PLAIN : Kind.READ).channel(key);
        try (Roaming client = new Roaming(world.nodes(), key); Native there = world.client()) {
            return client.waiters(key) == (key.endsWith("fair") ? 2 : 1)
                && (key.contains("kept-") || world.listeners(there, channel) > 0);
        }
    }

    /**
     * @param others the lock for which a Redisson client waits, or null
     * @param kind the kind for which a native waits
     */
    private void keep(RLock mine, RLock others, Kind kind) {
        mine.lock();
        held.add(mine);
        Roaming client = new Roaming(world.nodes(), mine.getName());
        natives.add(client);
        if (others != null) {
            waiting.add(Check.start(() -> redissonWaits(others)));
        }
        waiting.add(Check.start(() -> nativeWaits(client, mine.getName(), kind)));
    }

    private Long redissonWaits(RLock lock) throws Exception {
        boolean tries = false;
        while (true) {
            try {
                if (!tries) {
                    lock.lock();
                    break;
                }
                if (lock.tryLock()) {
                    break;
                }
                Thread.sleep(20);
            } catch (RuntimeException error) {
                errors.incrementAndGet();
                tries = true;
            }
        }
        return comesIn(lock.getName(), lock::unlock);
    }

    private Long nativeWaits(Roaming client, String key, Kind kind) throws Exception {
        String owner = world.owner();
        client.acquire(key, owner, leaseMs, kind.and("HOLDS", "1", "BLOCK", "0"));
        return comesIn(key, () -> client.release(key, owner, Native.with(kind.mode(), "HOLDS", "0")));
    }

    private interface Release {
        void run() throws Exception;
    }

    private Long comesIn(String key, Release release) throws Exception {
        long now = System.nanoTime();
        if (!free) {
            long left = leases.leftAt(now, key);
            Check.that(!strict && left <= 0, key + " was held, and another has it " + left + " ms before the end of the lease");
        }
        release.run();
        return now;
    }

    /** Redisson throws at its users what it meets while it looks for the new primary: they ask again. */
    private static <T> T insistently(Callable<T> request) throws Exception {
        long deadline = System.nanoTime() + SLACK_MS * 1_000_000;
        while (true) {
            try {
                return request.call();
            } catch (RedisException error) {
                if (System.nanoTime() > deadline) {
                    throw error;
                }
                Thread.sleep(10);
            }
        }
    }

    private static void letGo(RLock lock) throws Exception {
        insistently(() -> {
            while (lock.isHeldByCurrentThread()) {
                lock.unlock();
            }
            return null;
        });
    }

    /** Everything is held still. */
    void check() throws Exception {
        for (RLock lock : held) {
            if (!insistently(lock::isHeldByCurrentThread)) {
                long after = leases.lostAfter(lock.getName());
                Check.that(!strict && after >= 0, lock.getName() + " is lost, " + after + " ms after the end of its lease");
                unrenewed.add(lock.getName());
            }
        }
        Check.that(unrenewed.size() < held.size(), "no lock was renewed");
        for (Future<Long> one : waiting) {
            if (one.isDone()) {
                one.get();
            }
        }
    }

    /** Waits until everything has been renewed once more, or is lost. */
    void awaitRenewals() throws Exception {
        Map<String, Long> before = leases.ends();
        while (!leases.areLater(before)) {
            check();
            Thread.sleep(100);
        }
    }

    /** Gives everything back: all who wait get it. */
    String end() throws Exception {
        check();
        free = true;
        long released = System.nanoTime();
        for (RLock lock : held) {
            letGo(lock);
        }
        long longest = 0;
        long bound = leaseMs + SLACK_MS;
        for (Future<Long> one : waiting) {
            longest = Math.max(longest, one.get(bound, TimeUnit.MILLISECONDS) - released);
        }
        Check.that(longest < bound * 1_000_000, "the last who waited came in after " + longest / 1_000_000 + " ms");
        long sentAway = natives.stream().mapToLong(Roaming::sentAway).sum();
        Check.that(sentAway > 0, "no native client was told to ask again");
        return "the last who waited for what was kept came in after " + longest / 1_000_000 + " ms, natives were sent away "
            + sentAway + " times, Redisson's waiters failed " + errors + " times, at least " + leases.least() + " ms were left of each lease, and "
            + unrenewed.size() + " were not renewed in time";
    }

    @Override
    public void close() {
        leases.close();
        natives.forEach(Roaming::close);
    }
}
