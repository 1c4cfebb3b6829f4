package rlock;

import java.util.List;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RLock;

/** Each side's renewals keep the other side waiting, for as long as they go on and no longer. */
final class Watchdogs {
    private Watchdogs() {
    }

    static List<Scenario> scenarios() {
        return List.of(
            Scenario.of("Redisson's watchdog keeps native waiters out", Watchdogs::redissons),
            Scenario.of("a native client's renewals keep Redisson out", Watchdogs::natives),
            Scenario.of("Redisson's watchdog renews a lock after a native waiter had it", Watchdogs::backAndForth),
            Scenario.of("a Redisson client that is gone lets go after its lease", Watchdogs::redissonGone));
    }

    private static void redissons(World world) throws Exception {
        String key = world.key("watched");
        RLock lock = world.one.getLock(key);
        lock.lock();
        try (Native client = world.client()) {
            long wait = World.WATCHDOG_MS * 2;
            Check.equal(false, client.acquire(key, "native", 30_000, "BLOCK", Long.toString(wait)), "acquired");
            Check.equal(true, lock.isHeldByCurrentThread(), "isHeldByCurrentThread");
            lock.unlock();
            Check.equal(true, client.acquire(key, "native", 30_000), "acquired when free");
        }
    }

    private static void natives(World world) throws Exception {
        String key = world.key("renewed");
        try (Native client = world.client()) {
            client.acquire(key, "native", 2_000);
            Future<Boolean> waiter = Check.start(() -> world.one.getLock(key).tryLock(5_000, TimeUnit.MILLISECONDS));
            while (!waiter.isDone()) {
                Check.that(client.renew(key, "native", 2_000), "the lock was lost");
                Thread.sleep(300);
            }
            Check.equal(false, waiter.get(), "acquired while renewed");
            client.release(key, "native");
            Check.equal(true, world.one.getLock(key).tryLock(), "acquired when free");
        }
    }

    /** The watchdog belongs to a hold: the native hold in between is neither renewed nor ended by it. */
    private static void backAndForth(World world) throws Exception {
        String key = world.key("back-and-forth");
        RLock lock = world.one.getLock(key);
        try (Native client = world.client()) {
            lock.lock();
            lock.unlock();
            client.acquire(key, "native", World.WATCHDOG_MS);
            Thread.sleep(World.WATCHDOG_MS / 2);
            long left = lock.remainTimeToLive();
            Check.that(left <= World.WATCHDOG_MS / 2 + 100, "the watchdog renewed a lock of another: " + left);
            client.release(key, "native");
            lock.lock();
            Thread.sleep(World.WATCHDOG_MS * 3 / 2);
            Check.equal(false, client.acquire(key, "native", 30_000), "acquired while watched");
            lock.unlock();
        }
    }

    private static void redissonGone(World world) throws Exception {
        String key = world.key("gone");
        var third = world.redisson();
        third.getLock(key).lock();
        third.shutdown();
        try (Native client = world.client()) {
            long start = System.nanoTime();
            Check.equal(true, client.acquire(key, "native", 30_000, "BLOCK", "20000"), "acquired");
            long waited = Check.millisSince(start);
            Check.that(waited <= World.WATCHDOG_MS + 2_000, "waited for " + waited + " ms");
        }
    }
}
