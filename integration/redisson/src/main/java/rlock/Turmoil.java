package rlock;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Predicate;
import org.redisson.api.RedissonClient;

/**
 * Threads of two Redisson clients, native clients and users of the Rust client take locks of every kind in one slot, while the
 * cluster around them changes, or the module comes and goes: never two holders, and everybody goes on.
 */
final class Turmoil {
    /** How long anybody may wait for a turn, the change included. */
    static final long BOUND_MS = 30_000;

    private static final long PAUSE_MS = 10;
    /**
     * Where Redisson's threads try, the module cannot see them, and natives that hand the lock on to each other may keep them out for
     * ever (docs/REDISSON.md). So once one has tried for this time, the others rest for so many times as long as their turns take:
     * on a busy machine, too, the lock is free for a part of the time then.
     */
    private static final long LONG_TRIED_MS = 3_000;
    private static final int RESTS = 5;
    /** A turn that took longer has met a change. */
    private static final long LONGEST_REST_MS = 1_000;
    private static final List<String> KINDS = List.of("plain", "fenced", "fair", "page");
    private static final String REDISSON = " of Redisson";
    private static final String NATIVE = " of a native";
    private static final String RUST = " of the Rust client";

    private final World world;
    /** Redisson's threads try for their locks instead of waiting for them. */
    private final boolean tries;
    private final long leaseMs;
    /** By their kinds. */
    private final Map<String, Resource> resources = new TreeMap<>();
    /** Threads read it while others begin. */
    private final List<Worker> workers = new CopyOnWriteArrayList<>();
    /** What Redisson threw. */
    private final AtomicLong errors = new AtomicLong();
    /** Releases of the Rust client whose answers were lost. */
    private final AtomicLong unknown = new AtomicLong();

    /** @param tries Redisson's threads try for their locks instead of waiting for them */
    Turmoil(World world, String place, long leaseMs, boolean tries) {
        this.world = world;
        this.leaseMs = leaseMs;
        this.tries = tries;
        KINDS.forEach(kind -> resources.put(kind, new Resource(place + kind)));
    }

    /** Two threads for each lock begin, one of each Redisson client. */
    Turmoil redissons() {
        resources.forEach((kind, resource) -> {
            // See Changes: it may never return.
            if (!tries || !kind.equals("fenced")) {
                for (RedissonClient redisson : world.clients()) {
                    start(kind + REDISSON, resource, () -> new RedissonWay(redisson, kind, resource.key, leaseMs, tries, errors));
                }
            }
        });
        return this;
    }

    /** Two native clients for each lock begin. */
    Turmoil natives() {
        resources.forEach((kind, resource) -> {
            for (int i = 0; i < 2; i++) {
                start(kind + NATIVE, resource, () -> new NativeWay(world, kind, resource.key, leaseMs, !tries && world.isCluster()));
            }
        });
        return this;
    }

    /** Two users of the Rust client for each lock begin. */
    Turmoil rustClients() {
        resources.forEach((kind, resource) -> {
            for (int i = 0; i < 2; i++) {
                start(kind + RUST, resource, () -> new RustWay(world.rustClient(), kind, resource.key, unknown));
            }
        });
        return this;
    }

    private void start(String name, Resource resource, Callable<Way> way) {
        Worker worker = new Worker(name, resource, way);
        workers.add(worker);
        worker.end = Check.start(worker::work);
    }

    /** Waits until everybody had so many turns more; how long that took, in ms. */
    long goOn(long turns) throws Exception {
        long start = System.nanoTime();
        List<Long> goals = workers.stream().map(worker -> worker.turns.get() + turns).toList();
        for (int i = 0; i < goals.size(); i++) {
            Worker worker = workers.get(i);
            while (!worker.over && worker.turns.get() < goals.get(i)) {
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

    /** All but Redisson's threads stop. */
    void endNatives() throws Exception {
        end(worker -> worker.name.endsWith(NATIVE) || worker.name.endsWith(RUST));
    }

    /** Everybody stops; nothing may be left of the locks. What it was like. */
    String end() throws Exception {
        end(worker -> true);
        for (Resource resource : resources.values()) {
            try (Roaming client = new Roaming(world.nodes(), resource.key)) {
                // An unlock may have been lost with the connection: then the lease ends.
                Check.eventually(resource.key + " to be free", () -> client.isFree(resource.key));
            }
        }
        long turns = workers.stream().mapToLong(worker -> worker.turns.get()).sum();
        Worker slowest = workers.stream().max(Comparator.comparing(worker -> worker.longest)).orElseThrow();
        return turns + " turns, the longest wait " + slowest.longest + " ms (" + slowest.name + "), " + errors
            + " errors in Redisson, " + unknown + " releases of the Rust client with an unknown outcome";
    }

    private void end(Predicate<Worker> whose) throws Exception {
        List<Worker> ending = workers.stream().filter(whose).toList();
        ending.forEach(worker -> worker.over = true);
        for (Worker worker : ending) {
            worker.end.get(BOUND_MS, TimeUnit.MILLISECONDS);
        }
    }

    private final class Worker {
        final String name;
        final AtomicLong turns = new AtomicLong();
        private final Resource resource;
        private final Callable<Way> way;
        volatile long longest;
        volatile boolean over;
        /** By the clock of System.nanoTime; the largest number: it asks for nothing. */
        private volatile long asksSince = Long.MAX_VALUE;
        Future<Void> end;

        Worker(String name, Resource resource, Callable<Way> way) {
            this.name = name;
            this.resource = resource;
            this.way = way;
        }

        /** A Redisson thread: only these are awaited. */
        boolean triesForLong() {
            long since = asksSince;
            return name.endsWith(REDISSON) && since != Long.MAX_VALUE && Check.millisSince(since) > LONG_TRIED_MS;
        }

        Void work() throws Exception {
            try (Way mine = way.call()) {
                while (!over) {
                    long start = System.nanoTime();
                    asksSince = start;
                    long token = mine.take();
                    asksSince = Long.MAX_VALUE;
                    longest = Math.max(longest, Check.millisSince(start));
                    resource.use(mine.shared(), token);
                    turns.incrementAndGet();
                    mine.giveBack();
                    long took = Check.millisSince(start);
                    if (!(mine instanceof RedissonWay)) {
                        // Else the lock would never be free: natives hand it on to each other.
                        Thread.sleep(rest(resource, took));
                    } else if (tries) {
                        Thread.sleep(PAUSE_MS);
                    }
                }
            }
            return null;
        }
    }

    /** How long a native client rests after a turn that took so long, the wait included. */
    private long rest(Resource resource, long tookMs) {
        boolean kept = tries && workers.stream().anyMatch(other -> other.resource == resource && other.triesForLong());
        return kept ? Math.max(PAUSE_MS, Math.min(tookMs * RESTS, LONGEST_REST_MS)) : PAUSE_MS;
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
