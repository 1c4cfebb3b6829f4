package rlock;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.redisson.api.RedissonClient;

/**
 * Threads of two Redisson clients and native clients take locks of every kind in one slot, while the cluster around them changes:
 * never two holders, and everybody goes on.
 */
final class Turmoil {
    /** How long anybody may wait for a turn, the change included. */
    static final long BOUND_MS = 30_000;

    private static final long PAUSE_MS = 10;

    private final World world;
    /** Redisson's threads try for their locks instead of waiting for them. */
    private final boolean tries;
    private final List<Resource> resources = new ArrayList<>();
    private final List<Worker> workers = new ArrayList<>();
    /** What Redisson threw. */
    private final AtomicLong errors = new AtomicLong();
    private volatile boolean over;

    /**
     * Begins at once.
     *
     * @param tries Redisson's threads try for their locks instead of waiting for them
     */
    Turmoil(World world, String place, long leaseMs, boolean tries) {
        this.world = world;
        this.tries = tries;
        for (String kind : List.of("plain", "fenced", "fair", "page")) {
            Resource resource = new Resource(place + kind);
            resources.add(resource);
            for (RedissonClient redisson : world.clients()) {
                // See Changes: it may never return.
                if (!tries || !kind.equals("fenced")) {
                    workers.add(new Worker(kind + " of Redisson", resource,
                        () -> new RedissonWay(redisson, kind, resource.key, leaseMs, tries, errors)));
                }
                workers.add(new Worker(kind + " of a native", resource,
                    () -> new NativeWay(world, kind, resource.key, leaseMs, !tries)));
            }
        }
        for (Worker worker : workers) {
            worker.end = Check.start(worker::work);
        }
    }

    /** Waits until everybody had so many turns more; how long that took, in ms. */
    long goOn(long turns) throws Exception {
        long start = System.nanoTime();
        List<Long> goals = workers.stream().map(worker -> worker.turns.get() + turns).toList();
        for (int i = 0; i < goals.size(); i++) {
            Worker worker = workers.get(i);
            while (worker.turns.get() < goals.get(i)) {
                if (worker.end.isDone()) {
                    worker.end.get();
                }
                Check.that(Check.millisSince(start) < BOUND_MS, "no turn within " + BOUND_MS + " ms: " + stuck(goals));
                Thread.sleep(5);
            }
        }
        return Check.millisSince(start);
    }

    private String stuck(List<Long> goals) {
        List<String> names = new ArrayList<>();
        for (int i = 0; i < goals.size(); i++) {
            Worker worker = workers.get(i);
            if (worker.turns.get() < goals.get(i)) {
                names.add(worker.name + " (" + worker.turns + " of " + goals.get(i) + ")");
            }
        }
        return String.join(", ", names);
    }

    /** Everybody stops; nothing may be left of the locks. What it was like. */
    String end() throws Exception {
        over = true;
        long turns = 0;
        long longest = 0;
        String who = "";
        for (Worker worker : workers) {
            worker.end.get(BOUND_MS, TimeUnit.MILLISECONDS);
            turns += worker.turns.get();
            if (worker.longest > longest) {
                longest = worker.longest;
                who = worker.name;
            }
        }
        for (Resource resource : resources) {
            try (Roaming client = new Roaming(world.nodes(), resource.key)) {
                // An unlock may have been lost with the connection: then the lease ends.
                Check.eventually(resource.key + " to be free", () -> client.isFree(resource.key));
            }
        }
        return turns + " turns, the longest wait " + longest + " ms (" + who + "), " + errors + " errors in Redisson";
    }

    private final class Worker {
        final String name;
        final AtomicLong turns = new AtomicLong();
        private final Resource resource;
        private final Callable<Way> way;
        volatile long longest;
        Future<Void> end;

        Worker(String name, Resource resource, Callable<Way> way) {
            this.name = name;
            this.resource = resource;
            this.way = way;
        }

        Void work() throws Exception {
            try (Way mine = way.call()) {
                while (!over) {
                    long start = System.nanoTime();
                    long token = mine.take();
                    longest = Math.max(longest, Check.millisSince(start));
                    resource.use(mine.shared(), token);
                    turns.incrementAndGet();
                    mine.giveBack();
                    if (tries || mine instanceof NativeWay) {
                        // Else the lock would never be free: natives hand it on to each other.
                        Thread.sleep(PAUSE_MS);
                    }
                }
            }
            return null;
        }
    }

    /** What a lock protects: it notices when two use it at once. */
    private static final class Resource {
        final String key;
        private final AtomicInteger alone = new AtomicInteger();
        private final AtomicInteger together = new AtomicInteger();
        private long lastToken;

        Resource(String key) {
            this.key = key;
        }

        void use(boolean shared, long token) throws InterruptedException {
            AtomicInteger mine = shared ? together : alone;
            int inside = mine.incrementAndGet();
            Check.that(shared || inside == 1, inside + " holders of " + key);
            if (token > 0) {
                Check.that(token > lastToken, "token " + token + " after " + lastToken);
                lastToken = token;
            }
            TimeUnit.MICROSECONDS.sleep(ThreadLocalRandom.current().nextInt(2_000));
            Check.equal(0, (shared ? alone : together).get(), "others who hold " + key);
            mine.decrementAndGet();
        }
    }
}
