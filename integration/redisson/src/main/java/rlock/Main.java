package rlock;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Runs every scenario against the server at REDIS_URL, or those whose name holds the argument, and prints a line for each.
 * REDIS_CLUSTER=1 tells Redisson that the server is a node of a cluster. Exits with 1 if one failed.
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
        try (World world = World.connect()) {
            System.out.println("Redisson " + World.redissonVersion() + ", " + world);
            List<Scenario> beside = new ArrayList<>();
            List<Scenario> alone = new ArrayList<>();
            beside.addAll(Sight.scenarios());
            beside.addAll(WakeUps.scenarios());
            beside.addAll(Watchdogs.scenarios());
            beside.addAll(Listeners.scenarios());
            beside.addAll(Kinds.scenarios());
            beside.addAll(Fair.scenarios());
            beside.addAll(FairOrder.scenarios());
            beside.addAll(ReadWrite.scenarios());
            beside.addAll(ReadLeases.scenarios());
            alone.addAll(Contention.scenarios());
            alone.addAll(ReadLeases.alone());
            alone.addAll(Starvation.scenarios());
            alone.addAll(Fair.alone());
            alone.addAll(FairOrder.alone());
            runAll(beside, only, world, 12);
            runAll(alone, only, world, 1);
        }
        System.out.println(passed + " passed, " + failed + " failed");
        // Threads that a failed scenario left waiting must not keep the process.
        System.exit(failed.get() == 0 && passed.get() > 0 ? 0 : 1);
    }

    /** Most scenarios wait most of the time, so that several run at once. */
    private static void runAll(List<Scenario> scenarios, String only, World world, int atOnce) throws InterruptedException {
        ExecutorService pool = Executors.newFixedThreadPool(atOnce);
        for (Scenario scenario : scenarios) {
            if (scenario.name().contains(only)) {
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
