package rlock.fleet;

import io.lettuce.core.RedisClient;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.sync.RedisCommands;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;

/**
 * Redisson threads under load are replaced by native ones, one by one, and later the other way. In every mix no lock has two
 * holders, every wait ends in time, and every thread continues to acquire its lock.
 */
final class Replacement {
    /** Threads for each lock. */
    private static final int MEMBERS = 6;
    /** How often every thread acquires its lock in each mix, and how long a mix lasts at least. */
    private static final int HOLDS = 6;
    private static final Duration MIX = Duration.ofMillis(1_000);
    /** Longer than a lease: see Service.LEASE. */
    private static final Member.Load LOAD = new Member.Load(Duration.ofSeconds(15), 2_000, 10_000);

    private final long start = System.nanoTime();
    private final Random random;
    private final List<Service> redissons;
    private final List<Service> natives;
    private final List<List<Member>> members = new ArrayList<>();

    private Replacement(String url, long seed, GuardValue guard) {
        random = new Random(seed);
        redissons = List.of(Service.redisson(url), Service.redisson(url));
        natives = List.of(Service.guards(url), Service.views(url));
        for (Kind kind : Kind.values()) {
            Resource resource = new Resource(kind, "fleet:" + kind.text, guard);
            List<Member> group = new ArrayList<>();
            for (int i = 0; i < MEMBERS; i++) {
                group.add(new Member(kind.text + " " + i, resource, LOAD, random.nextLong(), redissons.get(i % 2)));
            }
            members.add(group);
        }
    }

    static void run(String url, long seed) throws InterruptedException {
        RedisClient client = RedisClient.create(url);
        try (StatefulRedisConnection<String, String> connection = client.connect()) {
            Replacement replacement = new Replacement(url, seed, new GuardValue(connection.sync()));
            replacement.there();
            replacement.end();
            replacement.nothingLeft(connection.sync());
        } finally {
            client.shutdown();
        }
    }

    private List<Member> all() {
        return members.stream().flatMap(List::stream).toList();
    }

    /** And back. */
    private void there() throws InterruptedException {
        all().forEach(Thread::start);
        proceed();
        replace(natives);
        replace(redissons);
    }

    private void replace(List<Service> by) throws InterruptedException {
        List<Integer> order = new ArrayList<>();
        for (int i = 0; i < MEMBERS; i++) {
            order.add(i);
        }
        Collections.shuffle(order, random);
        for (int i : order) {
            members.forEach(group -> group.get(i).change(by.get(i % 2)));
            proceed();
        }
    }

    /** Every thread acquires its lock in this mix. */
    private void proceed() throws InterruptedException {
        long began = System.nanoTime();
        List<Member> all = all();
        List<Long> goals = all.stream().map(member -> member.holds.get() + HOLDS).toList();
        for (int i = 0; i < all.size(); i++) {
            Member member = all.get(i);
            while (member.holds.get() < goals.get(i)) {
                // A wait that is not over in time is a failure of its thread: the loop ends.
                all.forEach(Member::check);
                Thread.sleep(5);
            }
        }
        while (System.nanoTime() - began < MIX.toNanos()) {
            Thread.sleep(5);
        }
        all.forEach(Member::check);
        long wait = all.stream().mapToLong(Member::takeLongestWait).max().orElse(0);
        System.out.printf("%5.1f s  %2d of %d threads native: the longest wait took %d ms%n",
            (System.nanoTime() - start) / 1e9, all.stream().filter(Member::isNative).count(), all.size(), wait / 1_000_000);
    }

    private void end() throws InterruptedException {
        all().forEach(Member::end);
        for (Member member : all()) {
            member.await(LOAD.limit());
        }
        redissons.forEach(Service::close);
        natives.forEach(Service::close);
        System.out.println(all().stream().mapToLong(member -> member.holds.get()).sum() + " holds, never two holders");
    }

    private void nothingLeft(RedisCommands<String, String> server) {
        List<String> left = server.keys("*").stream().filter(key -> !key.startsWith("guard:")).toList();
        if (!left.isEmpty()) {
            throw new AssertionError("left behind: " + left);
        }
    }
}
