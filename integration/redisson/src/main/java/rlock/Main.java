package rlock;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;

/**
 * Runs every scenario against the server at REDIS_URL, or those whose names hold the argument, or one of several that `|`
 * separates, and prints a line for each.
 * A part of a name that no scenario has is a failure. REDIS_CLUSTER=1 tells Redisson that the server is a node of a cluster.
 * RUST_CLIENT says who uses the Rust client on order, for some scenarios more. Others are run instead where CLUSTER_ORDERS says who
 * changes the cluster, or MODULE which module to load; with CONTROL those that need no module. Exits with 1 if one failed.
 */
public final class Main {
    /** How long one scenario may take: far more than any needs. */
    private static final long LIMIT_SECONDS = 90;

    private static final AtomicInteger passed = new AtomicInteger();
    private static final AtomicInteger failed = new AtomicInteger();

    private Main() {
    }

    public static void main(String[] arguments) throws Exception {
        String only = arguments.length > 0 ? arguments[0] : "";
        if (System.getenv("CLUSTER_ORDERS") != null) {
            // It complains of every connection that ends with its server.
            System.setProperty("org.slf4j.simpleLogger.defaultLogLevel", "off");
        }
        List<Batch> batches = batches();
        requireAll(only, batches);
        try (World world = World.connect()) {
            System.out.println("Redisson " + World.redissonVersion() + ", " + world);
            for (Batch batch : batches) {
                runAll(batch, only, world);
            }
        }
        System.out.println(passed + " passed, " + failed + " failed");
        // Threads that a failed scenario left waiting must not keep the process.
        System.exit(failed.get() == 0 && passed.get() > 0 ? 0 : 1);
    }

    /** Scenarios of which so many run at once. */
    private record Batch(List<Scenario> scenarios, int atOnce) {
    }

    /** What the environment asks for. */
    private static List<Batch> batches() {
        if (System.getenv("CONTROL") != null) {
            return List.of(new Batch(Control.scenarios(), 1));
        }
        if (System.getenv("MODULE") != null) {
            return List.of(new Batch(Loading.scenarios(), 1));
        }
        if (System.getenv("CLUSTER_ORDERS") != null) {
            return List.of(new Batch(join(Stream.of(Changes.beside(), WithRust.scenarios())), 12), new Batch(Changes.alone(), 1));
        }
        return List.of(new Batch(beside(), 12), new Batch(alone(), 1));
    }

    private static List<Scenario> join(Stream<List<Scenario>> lists) {
        return lists.flatMap(List::stream).toList();
    }

    /** A scenario that has another name now would be left out in silence. */
    private static void requireAll(String only, List<Batch> batches) {
        for (String part : only.split("\\|")) {
            if (batches.stream().flatMap(batch -> batch.scenarios().stream()).noneMatch(scenario -> scenario.name().contains(part))) {
                System.out.println("No scenario has a name with: " + part);
                System.exit(1);
            }
        }
    }

    private static List<Scenario> beside() {
        return join(Stream.of(Sight.scenarios(), WakeUps.scenarios(), Listeners.scenarios(), FairOrder.scenarios(), ReadWrite.scenarios(),
            World.hasRust() ? WithRust.scenarios() : List.of()));
    }

    /** No other scenarios run beside them; other parts of the whole may. */
    private static List<Scenario> alone() {
        Scenario turmoil = new Scenario("all kinds of clients at once, never two holders", Turmoil::allAtOnce);
        // One server has the lock, in a cluster as well.
        return join(Stream.of(List.of(turmoil), Starvation.scenarios(), World.isOfACluster() ? List.of() : Readers.alone()));
    }

    /** Most scenarios wait most of the time, so that several run at once. */
    private static void runAll(Batch batch, String only, World world) throws InterruptedException {
        ExecutorService pool = Executors.newFixedThreadPool(batch.atOnce());
        for (Scenario scenario : batch.scenarios()) {
            if (Stream.of(only.split("\\|")).anyMatch(scenario.name()::contains)) {
                pool.execute(() -> run(scenario, world));
            }
        }
        pool.shutdown();
        pool.awaitTermination(10, TimeUnit.MINUTES);
    }

    private static void run(Scenario scenario, World world) {
        long start = System.nanoTime();
        String outcome = outcome(scenario, world);
        double seconds = (System.nanoTime() - start) / 1e9;
        (outcome.startsWith("ok") ? passed : failed).incrementAndGet();
        synchronized (System.out) {
            System.out.printf("%6.1f s  %s: %s%n", seconds, scenario.name(), outcome);
        }
    }

    /** "ok", with what the scenario measured, or what went wrong. */
    private static String outcome(Scenario scenario, World world) {
        ExecutorService thread = Executors.newSingleThreadExecutor();
        try {
            Future<String> result = thread.submit(() -> scenario.body().run(world));
            String measured = result.get(LIMIT_SECONDS, TimeUnit.SECONDS);
            return measured.isEmpty() ? "ok" : "ok, " + measured;
        } catch (TimeoutException late) {
            return "FAILED: not done in " + LIMIT_SECONDS + " s";
        } catch (Exception error) {
            StringWriter text = new StringWriter();
            error.getCause().printStackTrace(new PrintWriter(text));
            return "FAILED: " + text;
        } finally {
            thread.shutdownNow();
        }
    }
}
