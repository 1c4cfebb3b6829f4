package rlock;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Future;
import org.redisson.api.RedissonClient;

/** RFairLock and native clients that do not stand in its queue: its waiters are called, in their order. */
final class Fair {
    private static final int ROUNDS = 60;
    private static final int CROWD = 6;
    private static final long SECONDS = 3;

    private Fair() {
    }

    static List<Scenario> scenarios() {
        return List.of(
            new Scenario("no Redisson fair waiter misses a native release", Fair::nativeReleaseCallsTheHead),
            new Scenario("no native waiter misses the unlock of a fair lock", Fair::fairUnlockWakesNative),
            Scenario.of("a native lease that ends lets the first Redisson fair waiter in", Fair::nativeLeaseEnds),
            Scenario.of("Redisson fair waiters keep their order beside a native holder", Fair::orderIsKept));
    }

    /** It has the machine to itself. */
    static List<Scenario> alone() {
        return List.of(new Scenario("a crowd of native waiters lets a Redisson fair waiter in",
            world -> Starvation.nativeCrowd(world, RedissonClient::getFairLock, SECONDS)));
    }

    private static String nativeReleaseCallsTheHead(World world) throws Exception {
        String key = world.key("to-fair");
        long longest = 0;
        try (Native client = world.client()) {
            for (int round = 0; round < ROUNDS; round++) {
                String owner = world.owner();
                Check.that(client.acquire(key, owner, Check.LONG_LEASE_MS, "BLOCK", "8000"), "the lock is not free");
                Future<Long> first = WakeUps.takesAndReleases(world.one.getFairLock(key));
                Future<Long> second = WakeUps.takesAndReleases(world.two.getFairLock(key));
                WakeUps.aMoment();
                long released = System.nanoTime();
                client.release(key, owner);
                longest = Math.max(longest, Math.max(Check.soon(first), Check.soon(second)) - released);
            }
        }
        return 2 * ROUNDS + " times, within " + longest / 1_000_000 + " ms";
    }

    private static String fairUnlockWakesNative(World world) throws Exception {
        String key = world.key("fair-to-native");
        return WakeUps.unlockWakesNative(world, key, world.one.getFairLock(key), ROUNDS);
    }

    private static void nativeLeaseEnds(World world) throws Exception {
        String key = world.key("fair-ends");
        try (Native client = world.client()) {
            client.acquire(key, "native", 700);
            Check.soon(WakeUps.takesAndReleases(world.one.getFairLock(key)));
        }
    }

    private static void orderIsKept(World world) throws Exception {
        String key = world.key("fair-order");
        try (Native client = world.client()) {
            client.acquire(key, "native", Check.LONG_LEASE_MS);
            List<Future<Long>> waiting = new ArrayList<>();
            for (int i = 0; i < CROWD; i++) {
                waiting.add(WakeUps.takesAndReleases(world.clients().get(i % 2).getFairLock(key)));
                long queued = i + 1;
                Check.eventually("it stands in the queue", () -> client.at(key).llen(World.fairQueue(key)) == queued);
            }
            client.release(key, "native");
            long last = 0;
            for (long at : Check.soon(waiting)) {
                Check.that(at > last, "one who came later was first");
                last = at;
            }
        }
    }
}
