package rlock.fleet;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

/** What a lock protects: it notices when two use it at once, and measures how soon the next holder follows. */
final class Resource {
    final Kind kind;
    final String key;
    /** Holders of each side; null: the fleet's own memory is guard enough. */
    private final GuardValue server;
    private final AtomicInteger writers = new AtomicInteger();
    private final AtomicInteger readers = new AtomicInteger();
    /** When the last writer began to release; 0: another holder followed. */
    private final AtomicLong releasing = new AtomicLong();
    private final List<Long> handOffs = new ArrayList<>();

    Resource(Kind kind, String key, GuardValue server) {
        this.kind = kind;
        this.key = key;
        this.server = server;
    }

    void enter(boolean shared) {
        long now = System.nanoTime();
        long before = releasing.getAndSet(0);
        if (before != 0) {
            synchronized (handOffs) {
                handOffs.add(now - before);
            }
        }
        (shared ? readers : writers).incrementAndGet();
        check(shared, writers.get(), readers.get());
        if (server != null) {
            server.add(key, shared, 1);
            check(shared, server.get(key, false), server.get(key, true));
        }
    }

    void leave(boolean shared) {
        if (server != null) {
            check(shared, server.get(key, false), server.get(key, true));
            server.add(key, shared, -1);
        }
        check(shared, writers.get(), readers.get());
        (shared ? readers : writers).decrementAndGet();
        if (!shared) {
            releasing.set(System.nanoTime());
        }
    }

    /** The times from releases to the next holders, in ns, since this was last asked. */
    List<Long> takeHandOffs() {
        synchronized (handOffs) {
            List<Long> all = List.copyOf(handOffs);
            handOffs.clear();
            return all;
        }
    }

    private void check(boolean shared, long writing, long reading) {
        if (shared ? writing != 0 || reading == 0 : writing != 1 || reading != 0) {
            throw new AssertionError("two holders of " + key + ": " + writing + " writers and " + reading + " readers");
        }
    }
}
