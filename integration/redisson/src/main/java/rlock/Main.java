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
 * REDIS_CLUSTER=1 tells Redisson that the server is a node of a cluster. CLUSTER_ORDERS says who changes the cluster on order:
 * then it runs the scenarios of a cluster that changes instead. Exits with 1 if one failed.
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
        boolean changes = System.getenv("CLUSTER_ORDERS") != null;
        if (changes) {
            // It complains of every connection that ends with its server.
            System.setProperty("org.slf4j.simpleLogger.defaultLogLevel", "off");
        }
        try (World world = World.connect()) {
            System.out.println("Redisson " + World.redissonVersion() + ", " + world);
            if (changes) {
                runAll(Changes.scenarios(), only, world, 1);
            } else {
                runAll(beside(), only, world, 12);
                runAll(alone(), only, world, 1);
            }
        }
        System.out.println(passed + " passed, " + failed + " failed");
        // Threads that a failed scenario left waiting must not keep the process.
        System.exit(failed.get() == 0 && passed.get() > 0 ? 0 : 1);
    }

    private static List<Scenario> beside() {
        return Stream.of(Sight.scenarios(), WakeUps.scenarios(), Watchdogs.scenarios(), Listeners.scenarios(), Kinds.scenarios(),
            Fair.scenarios(), FairOrder.scenarios(), ReadWrite.scenarios(), ReadLeases.scenarios()).flatMap(List::stream).toList();
    }

    /** No other scenarios run beside them; other parts of the whole may. */
    private static List<Scenario> alone() {
        return Stream.of(Contention.scenarios(), ReadLeases.alone(), Starvation.scenarios(), Fair.alone(), FairOrder.alone())
            .flatMap(List::stream).toList();
    }

    /** Most scenarios wait most of the time, so that several run at once. */
    private static void runAll(List<Scenario> scenarios, String only, World world, int atOnce) throws InterruptedException {
        ExecutorService pool = Executors.newFixedThreadPool(atOnce);
        for (Scenario scenario : scenarios) {
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
