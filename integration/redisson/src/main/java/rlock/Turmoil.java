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
 * Threads of two Redisson clients, native clients and users of the Rust client take locks of every kind in one slot, also while the
 * cluster around them changes, or the module comes: never two holders, and everybody goes on.
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
    /** Of a read/write lock one and the other in turn. */
    private static final Map<String, List<Kind>> KINDS = Map.of("plain", List.of(Kind.PLAIN), "fenced", List.of(Kind.FENCED),
        "fair", List.of(Kind.FAIR), "page", List.of(Kind.READ, Kind.WRITE));
    private static final String REDISSON = " of Redisson";
    private static final String NATIVE = " of a native";
    private static final String RUST = " of the Rust client";
    /** Those whose turns are a matter of chance. */
    private static final String HASTY = "hasty";
    /** For how long all go on at once, and how long a wait is longer than any then, in one order and for a native. */
    private static final long SECONDS = 3;
    private static final long FAIR_BOUND_MS = 1_500;
    private static final long NATIVE_BOUND_MS = 2_000;

    private final World world;
    /** Redisson's threads try for their locks instead of waiting for them. */
    private final boolean tries;
    private final long leaseMs;
    /** Between two turns of a native client. */
    private volatile long pauseMs = PAUSE_MS;
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
        KINDS.keySet().forEach(name -> resources.put(name, new Resource(place + name)));
    }

    /**
     * Everybody at once: for some seconds natives hand the locks on to each other without a pause, and others take the plain lock too, who
     * wait for a moment or not at all, or fence it. Then fewer natives pause, so that each of Redisson's threads has turns.
     */
    static String allAtOnce(World world) throws Exception {
        Turmoil turmoil = new Turmoil(world, world.placeOn(1), World.WATCHDOG_MS, false).redissons().redissons();
        turmoil.pauseMs = 0;
        turmoil.natives().natives().others().rustClients();
        Thread.sleep(SECONDS * 1_000);
        turmoil.endNatives();
        turmoil.pauseMs = PAUSE_MS;
        long longest = turmoil.natives().rustClients().goOn(4);
        String found = turmoil.end() + "; each had four turns within " + longest + " ms";
        Check.that(turmoil.errors.get() + turmoil.unknown.get() == 0, found);
        Check.that(turmoil.longest("fair") < FAIR_BOUND_MS && turmoil.longest("page" + NATIVE) < NATIVE_BOUND_MS, found);
        Check.that(turmoil.resources.get("page").together.get() > 0, "no reader was in beside another");
        return found;
    }

    private long longest(String begins) {
        return workers.stream().filter(worker -> worker.name.startsWith(begins)).mapToLong(worker -> worker.longest).max().orElseThrow();
    }

    private Turmoil others() {
        Resource plain = resources.get("plain");
        for (RedissonClient redisson : world.clients()) {
            start("another" + REDISSON, plain,
                () -> new RedissonWay(redisson, KINDS.get("fenced"), plain.key, leaseMs, RedissonWay.FOR_EVER, errors));
            start(HASTY + REDISSON, plain, () -> new RedissonWay(redisson, KINDS.get("plain"), plain.key, leaseMs, 3, errors));
        }
        start("another" + NATIVE, plain, () -> new NativeWay(world, KINDS.get("fenced"), plain.key, leaseMs, false, "BLOCK", "0"));
        start(HASTY + NATIVE, plain, () -> new NativeWay(world, KINDS.get("plain"), plain.key, leaseMs, false, "BLOCK", "2"));
        start(HASTY + NATIVE, plain, () -> new NativeWay(world, KINDS.get("plain"), plain.key, leaseMs, false));
        return this;
    }

    /** Two threads for each lock begin, one of each Redisson client. */
    Turmoil redissons() {
        resources.forEach((kind, resource) -> {
            // See Changes: it may never return.
            if (!tries || !kind.equals("fenced")) {
                for (RedissonClient redisson : world.clients()) {
                    start(kind + REDISSON, resource, () -> new RedissonWay(redisson, KINDS.get(kind), resource.key, leaseMs,
                        tries ? 0 : RedissonWay.FOR_EVER, errors));
                }
            }
        });
        return this;
    }

    /** Two native clients for each lock begin. */
    Turmoil natives() {
        resources.forEach((kind, resource) -> {
            for (int i = 0; i < 2; i++) {
                start(kind + NATIVE, resource, () -> new NativeWay(world, KINDS.get(kind), resource.key, leaseMs,
                    !tries && world.isChanging(), "BLOCK", "0"));
            }
        });
        return this;
    }

    /** Two users of the Rust client for each lock begin, if there is one. */
    Turmoil rustClients() {
        resources.forEach((kind, resource) -> {
            for (int i = 0; i < 2 && World.hasRust(); i++) {
                start(kind + RUST, resource, () -> new RustWay(world.rustClient(), KINDS.get(kind), resource.key, unknown));
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
            while (!worker.over && !worker.name.startsWith(HASTY) && worker.turns.get() < goals.get(i)) {
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
            try (Native client = world.client(resource.key)) {
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
                    resource.use(mine.kind == Kind.READ, token);
                    turns.incrementAndGet();
                    mine.giveBack();
                    long took = Check.millisSince(start);
                    if (!(mine instanceof RedissonWay)) {
                        // Where Redisson's threads try, the lock would never be free else: natives hand it on to each other.
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
        return kept ? Math.max(pauseMs, Math.min(tookMs * RESTS, LONGEST_REST_MS)) : pauseMs;
    }

    /** What a lock protects: it notices when two use it at once. */
    private static final class Resource {
        final String key;
        private final AtomicInteger alone = new AtomicInteger();
        private final AtomicInteger sharing = new AtomicInteger();
        /** How often a reader was in beside another. */
        final AtomicLong together = new AtomicLong();
        private long lastToken;

        Resource(String key) {
            this.key = key;
        }

        void use(boolean shared, long token) throws InterruptedException {
            AtomicInteger mine = shared ? sharing : alone;
            int inside = mine.incrementAndGet();
            Check.that(shared || inside == 1, inside + " holders of " + key);
            together.addAndGet(inside > 1 ? 1 : 0);
            if (token > 0) {
                Check.that(token > lastToken, "token " + token + " after " + lastToken);
                lastToken = token;
            }
            TimeUnit.MICROSECONDS.sleep(ThreadLocalRandom.current().nextInt(2_000));
            Check.equal(0, (shared ? alone : sharing).get(), "others who hold " + key);
            mine.decrementAndGet();
        }
    }
}
