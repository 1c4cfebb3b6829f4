package rlock;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** RFairLock and FAIR: one order for both. */
final class FairOrder {
    private static final int WAITERS = 8;

    private FairOrder() {
    }

    static List<Scenario> scenarios() {
        return List.of(
            Scenario.of("fair waiters of both sides are served in the order they came", world -> inOrder(world, 60, true)),
            Scenario.of("a long wait of a Redisson client drops no native fair waiter", world -> inOrder(world, 3_600, true)),
            Scenario.of("Redisson fair waiters keep their order beside a native holder", world -> inOrder(world, 60, false)),
            Scenario.of("a Redisson fair waiter that gives up changes nobody's place", FairOrder::giveUp),
            Scenario.of("a native fair waiter that goes lets Redisson's behind it in", FairOrder::nativeGoes),
            Scenario.of("a Redisson fair waiter that died is passed", FairOrder::deadRedisson));
    }

    /** Takes and releases; the number of this turn. */
    private static Future<Integer> redissons(RedissonClient redisson, String key, long waitSeconds, AtomicInteger turns) {
        return Check.start(() -> {
            RLock lock = redisson.getFairLock(key);
            Check.that(lock.tryLock(waitSeconds, 60, TimeUnit.SECONDS), "not acquired");
            int turn = turns.incrementAndGet();
            lock.unlock();
            return turn;
        });
    }

    private static Future<Integer> natives(World world, String key, AtomicInteger turns) {
        return Check.start(() -> {
            try (Native client = world.client()) {
                String owner = world.owner();
                Check.that(client.acquire(key, owner, Check.LONG_LEASE_MS, "FAIR", "BLOCK", "60000"), "not acquired");
                int turn = turns.incrementAndGet();
                Check.equal(1L, client.release(key, owner), "release");
                return turn;
            }
        });
    }

    private static void awaitQueue(Native client, String key, long length) throws Exception {
        Check.eventually(length + " stand in the queue", () -> client.at(key).llen(World.fairQueue(key)) == length);
    }

    /** @param both every second is native, and Redisson holds the lock first; else a native that stands in no queue */
    private static void inOrder(World world, long waitSeconds, boolean both) throws Exception {
        String key = world.key("order");
        AtomicInteger turns = new AtomicInteger();
        RLock lock = world.one.getFairLock(key);
        try (Native client = world.client()) {
            if (both) {
                lock.lock();
            } else {
                client.acquire(key, "native", Check.LONG_LEASE_MS);
            }
            List<Future<Integer>> waiting = new ArrayList<>();
            for (int i = 0; i < WAITERS; i++) {
                RedissonClient redisson = world.clients().get((both ? i / 2 : i) % 2);
                waiting.add(both && i % 2 == 1 ? natives(world, key, turns) : redissons(redisson, key, waitSeconds, turns));
                awaitQueue(client, key, i + 1);
            }
            if (both) {
                lock.unlock();
            } else {
                client.release(key, "native");
            }
            for (int i = 0; i < WAITERS; i++) {
                Check.equal(i + 1, Check.soon(waiting.get(i)), "the turn of waiter " + (i + 1));
            }
            awaitQueue(client, key, 0);
        }
    }

    private static void giveUp(World world) throws Exception {
        String key = world.key("gives-up");
        AtomicInteger turns = new AtomicInteger();
        RLock lock = world.one.getFairLock(key);
        lock.lock();
        try (Native client = world.client()) {
            Future<Boolean> givesUp = Check.start(() -> world.two.getFairLock(key).tryLock(1, 60, TimeUnit.SECONDS));
            awaitQueue(client, key, 1);
            Future<Integer> first = natives(world, key, turns);
            awaitQueue(client, key, 2);
            Future<Integer> second = redissons(world.two, key, 60, turns);
            awaitQueue(client, key, 3);
            Check.equal(false, Check.soon(givesUp), "acquired by the one that gives up");
            awaitQueue(client, key, 2);
            lock.unlock();
            Check.equal(1, Check.soon(first), "the turn of the native waiter");
            Check.equal(2, Check.soon(second), "the turn of Redisson's");
        }
    }

    private static void nativeGoes(World world) throws Exception {
        String key = world.key("goes");
        AtomicInteger turns = new AtomicInteger();
        RLock lock = world.one.getFairLock(key);
        lock.lock();
        try (Native client = world.client(); Native gone = world.client()) {
            String owner = world.owner();
            Future<Boolean> waiter =
                Check.start(() -> gone.acquire(key, owner, Check.LONG_LEASE_MS, "FAIR", "BLOCK", "60000"));
            awaitQueue(client, key, 1);
            Future<Integer> behind = redissons(world.two, key, 60, turns);
            awaitQueue(client, key, 2);
            Check.equal(1L, client.send("RLOCK.CANCEL", key, owner), "RLOCK.CANCEL");
            Check.equal(false, Check.soon(waiter), "acquired by the one that goes");
            awaitQueue(client, key, 1);
            lock.unlock();
            Check.equal(1, Check.soon(behind), "the turn of Redisson's");
        }
    }

    /** Its place in the queue stays; it is called, and passed when its turn is over. */
    private static void deadRedisson(World world) throws Exception {
        String key = world.key("died");
        AtomicInteger turns = new AtomicInteger();
        RLock lock = world.one.getFairLock(key);
        RedissonClient third = world.redisson();
        lock.lock();
        try (Native client = world.client()) {
            Check.start(() -> third.getFairLock(key).tryLock(60, 60, TimeUnit.SECONDS));
            awaitQueue(client, key, 1);
            third.shutdown();
            Future<Integer> behind = natives(world, key, turns);
            awaitQueue(client, key, 2);
            Future<Integer> last = redissons(world.two, key, 60, turns);
            awaitQueue(client, key, 3);
            lock.unlock();
            Check.equal(1, Check.soon(behind), "the turn of the native waiter");
            Check.equal(2, Check.soon(last), "the turn of Redisson's");
        }
    }
}
