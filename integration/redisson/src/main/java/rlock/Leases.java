package rlock;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Until when the locks of one owner are held at least, as the server has said: one that is lost before was taken away, one that is lost
 * later its owner has not renewed in time.
 */
final class Leases implements AutoCloseable {
    private static final long PAUSE_MS = 100;
    /** After so many pauses the server has been asked. */
    private static final int LOOKS = 20;

    private final Nodes nodes;
    private final String owner;
    private final List<String> keys;
    /** By the clock of System.nanoTime. */
    private final Map<String, Long> ends = new ConcurrentHashMap<>();
    /** How many ms after the end of its lease a hold was first seen to be gone. */
    private final Map<String, Long> lost = new ConcurrentHashMap<>();
    private final AtomicLong least = new AtomicLong(Long.MAX_VALUE);
    private final Future<Void> watch;
    private volatile boolean over;

    /** @param keys of locks in one slot */
    Leases(Nodes nodes, String owner, List<String> keys) {
        this.nodes = nodes;
        this.owner = owner;
        this.keys = keys;
        this.watch = Check.start(this::watch);
    }

    private Void watch() throws Exception {
        try (Roaming client = new Roaming(nodes, keys.get(0))) {
            while (!over) {
                for (String key : keys) {
                    long asked = System.nanoTime();
                    note(key, asked, left(client.info(key)));
                }
                Thread.sleep(PAUSE_MS);
            }
        }
        return null;
    }

    private void note(String key, long asked, long left) {
        if (left > 0) {
            ends.merge(key, asked + left * 1_000_000, Math::max);
            least.accumulateAndGet(left, Math::min);
        } else if (ends.containsKey(key)) {
            // Some time after the end of the lease, or before it.
            lost.putIfAbsent(key, Check.millisSince(ends.get(key)));
        }
    }

    /** What is left of the owner's lease, in ms; 0: it holds nothing. */
    private long left(Map<String, Object> info) {
        for (Object holder : (List<?>) info.get("holders")) {
            Map<String, Object> fields = Native.map(holder);
            if (fields.get("owner").equals(owner)) {
                return (Long) fields.get("lease-ms");
            }
        }
        return 0;
    }

    /** When each ends by the last renewal that was seen, by the clock of System.nanoTime. */
    Map<String, Long> ends() {
        return Map.copyOf(ends);
    }

    /** Whether all have been renewed since, or are lost: the end of one lease is seen to a fraction of a second. */
    boolean areLater(Map<String, Long> before) {
        return keys.stream().allMatch(key -> lost.containsKey(key)
            || ends.getOrDefault(key, 0L) - before.getOrDefault(key, 0L) > TimeUnit.SECONDS.toNanos(1));
    }

    /** How many ms after the end of its lease a hold was seen to be gone, after a look or two; less than 0: it was taken away. */
    long lostAfter(String key) throws InterruptedException {
        for (int i = 0; i < LOOKS && !lost.containsKey(key); i++) {
            Thread.sleep(PAUSE_MS);
        }
        return lost.getOrDefault(key, Long.MIN_VALUE);
    }

    /** For how many ms more than until this moment a hold had to last. */
    long leftAt(long nanos, String key) {
        return (ends.getOrDefault(key, Long.MAX_VALUE) - nanos) / 1_000_000;
    }

    /** The shortest that was left of any lease, in ms. */
    long least() {
        return least.get();
    }

    @Override
    public void close() {
        over = true;
        watch.cancel(true);
    }
}
