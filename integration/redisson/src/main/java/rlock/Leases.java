package rlock;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Until when the locks of one owner are held at least, as the server has said: a lock that is lost before that is lost by the server,
 * and one that is lost later was renewed too late.
 */
final class Leases implements AutoCloseable {
    private static final long PAUSE_MS = 100;

    private final Nodes nodes;
    private final String owner;
    private final List<String> keys;
    /** By the clock of System.nanoTime. */
    private final Map<String, Long> ends = new ConcurrentHashMap<>();
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
                    long left = left(client.info(key));
                    if (left > 0) {
                        ends.merge(key, asked + left * 1_000_000, Math::max);
                        least.accumulateAndGet(left, Math::min);
                    }
                }
                Thread.sleep(PAUSE_MS);
            }
        }
        return null;
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

    /** Whether all have been renewed since: the end of one lease is seen to a fraction of a second. */
    boolean areLater(Map<String, Long> before) {
        return keys.stream().allMatch(key -> ends.getOrDefault(key, 0L) - before.getOrDefault(key, 0L) > TimeUnit.SECONDS.toNanos(1));
    }

    /** Whose fault it is that a lock is lost. */
    String whose(String key) {
        Long end = ends.get(key);
        if (end == null) {
            return "the server has not told of any lease";
        }
        long late = Check.millisSince(end);
        return late < 0 ? "by the server, " + -late + " ms before the end of its lease"
            : "by its owner, which had not renewed it when its lease ended " + late + " ms ago";
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
