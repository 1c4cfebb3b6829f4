package rlock.fleet;

import io.lettuce.core.RedisClient;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.sync.RedisCommands;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.stream.Stream;

/**
 * What a hold costs while none, half or all of a fleet is native: processes of which each has threads that hold one lock without
 * a pause between two holds, so that every hold but the first is handed over by another. Writes a line of JSON for each round.
 */
final class Measurement {
    private static final int PROCESSES = 4;
    private static final int THREADS = 3;
    /** Before these, one that does not count: the virtual machine compiles. */
    private static final int ROUNDS = 4;
    private static final Duration WARM_UP = Duration.ofSeconds(1);
    private static final Duration ROUND = Duration.ofSeconds(2);
    /** A hold of a millisecond, no pause, and waits that no mix makes too long. */
    private static final Member.Load LOAD = new Member.Load(Duration.ofSeconds(60), 1_000, 0);

    private final RedisCommands<String, String> server;
    private final List<Service> redissons;
    private final List<Service> natives;
    private final Random random;

    private Measurement(String url, long seed, RedisCommands<String, String> server) {
        this.server = server;
        this.random = new Random(seed);
        redissons = Stream.generate(() -> Service.redisson(url)).limit(PROCESSES).toList();
        natives = Stream.generate(() -> Service.guards(url)).limit(PROCESSES).toList();
    }

    /** What is measured in one round: a kind of lock, and how many processes are native. */
    private record Cell(Kind kind, int natives) {}

    static void run(String url, long seed, Path file) throws IOException, InterruptedException {
        RedisClient client = RedisClient.create(url);
        try (StatefulRedisConnection<String, String> connection = client.connect()) {
            Measurement measurement = new Measurement(url, seed, connection.sync());
            Files.write(file, measurement.rounds());
            measurement.redissons.forEach(Service::close);
            measurement.natives.forEach(Service::close);
        } finally {
            client.shutdown();
        }
    }

    /** All cells in each round, in another order each time. */
    private List<String> rounds() throws InterruptedException {
        List<Cell> cells = new ArrayList<>();
        for (Kind kind : Kind.values()) {
            Stream.of(0, PROCESSES / 2, PROCESSES).forEach(count -> cells.add(new Cell(kind, count)));
        }
        List<String> lines = new ArrayList<>();
        for (int round = 0; round <= ROUNDS; round++) {
            Collections.shuffle(cells, random);
            for (Cell cell : cells) {
                String line = measure(cell);
                System.out.println((round > 0 ? "" : "warm-up: ") + line);
                if (round > 0) {
                    lines.add(line);
                }
            }
        }
        return lines;
    }

    private String measure(Cell cell) throws InterruptedException {
        Resource resource = new Resource(cell.kind, "fleet:" + cell.kind.text, null);
        List<Member> members = new ArrayList<>();
        for (int i = 0; i < PROCESSES * THREADS; i++) {
            int process = i % PROCESSES;
            Service service = (process < cell.natives ? natives : redissons).get(process);
            members.add(new Member("thread " + i, resource, LOAD, random.nextLong(), service));
        }
        members.forEach(Thread::start);
        Thread.sleep(WARM_UP.toMillis());
        String line = figures(cell, resource, members);
        members.forEach(Member::end);
        for (Member member : members) {
            member.await(LOAD.limit());
        }
        return line;
    }

    private String figures(Cell cell, Resource resource, List<Member> members) throws InterruptedException {
        server.configResetstat();
        resource.takeHandOffs();
        members.forEach(Member::takeLongestWait);
        long before = holds(members);
        long redissonBefore = redissonHolds(members);
        double cpu = Stats.cpuSeconds(server);
        Thread.sleep(ROUND.toMillis());
        double used = Stats.cpuSeconds(server) - cpu;
        double holds = holds(members) - before;
        double redisson = redissonHolds(members) - redissonBefore;
        Stats.Calls calls = Stats.calls(server);
        List<Long> handOffs = resource.takeHandOffs().stream().sorted().toList();
        long wait = members.stream().mapToLong(Member::takeLongestWait).max().orElse(0);
        members.forEach(Member::check);
        return String.format(
            "{\"kind\":\"%s\",\"native_percent\":%d,\"holds\":%.0f,\"redisson_holds\":%.0f,\"requests\":%.2f,\"commands\":%.2f,"
                + "\"cpu_us\":%.1f,\"hand_off_us\":%.0f,\"hand_off_p90_us\":%.0f,\"longest_wait_ms\":%d}",
            cell.kind.text, 100 * cell.natives / PROCESSES, holds, redisson,
            // Redisson deletes the result of each unlock by a command of its own.
            (calls.sent() + redisson) / holds, calls.all() / holds, used * 1e6 / holds,
            percentile(handOffs, 50), percentile(handOffs, 90), wait / 1_000_000);
    }

    private static long holds(List<Member> members) {
        return members.stream().mapToLong(member -> member.holds.get()).sum();
    }

    private static long redissonHolds(List<Member> members) {
        return holds(members.stream().filter(member -> !member.isNative()).toList());
    }

    /** In µs. */
    private static double percentile(List<Long> sorted, int percent) {
        return sorted.isEmpty() ? 0 : sorted.get((sorted.size() - 1) * percent / 100) / 1e3;
    }
}
