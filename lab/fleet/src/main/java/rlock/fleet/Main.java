package rlock.fleet;

import java.nio.file.Path;

/**
 * Replaces the threads of a fleet on the server at REDIS_URL, or with a file as its argument measures what a hold costs, and writes
 * that there. RLOCK_SEED repeats a run.
 */
public final class Main {
    private Main() {}

    public static void main(String[] arguments) {
        try {
            run(arguments);
        } catch (Throwable error) {
            error.printStackTrace();
            // Redisson's threads would keep the program alive.
            System.exit(1);
        }
    }

    private static void run(String[] arguments) throws Exception {
        String url = System.getenv().getOrDefault("REDIS_URL", "redis://127.0.0.1:6399");
        String given = System.getenv("RLOCK_SEED");
        long seed = given == null || given.isEmpty() ? System.nanoTime() % 1_000_000_000 : Long.parseLong(given);
        System.out.println("RLOCK_SEED=" + seed);
        if (arguments.length > 0) {
            Measurement.run(url, seed, Path.of(arguments[0]));
        } else {
            Replacement.run(url, seed);
            Shared.run(url);
        }
    }
}
