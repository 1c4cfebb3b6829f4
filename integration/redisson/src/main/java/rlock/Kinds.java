package rlock;

import java.util.List;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.redisson.api.LockOptions;
import org.redisson.api.RLock;

/** Redisson's other kinds of locks, which are plain ones to the server. */
final class Kinds {
    private Kinds() {
    }

    static List<Scenario> scenarios() {
        return List.of(
            Scenario.of("a spin lock and a native one exclude each other", Kinds::spin),
            Scenario.of("a multi lock waits for a native holder of one of its locks", Kinds::multi));
    }

    /** It listens to nothing, and asks again and again. */
    private static void spin(World world) throws Exception {
        String key = world.key("spin");
        RLock lock = world.one.getSpinLock(key, new LockOptions.ConstantBackOff().delay(20));
        try (Native client = world.client()) {
            lock.lock();
            Check.equal(false, client.acquire(key, "native", 30_000), "acquired by another");
            Future<Boolean> waiter = world.waits(key, "native");
            Check.eventually("the native client waits", () -> client.waiters(key) == 1);
            lock.unlock();
            Check.equal(true, Check.soon(waiter), "acquired when free");
            Future<Boolean> spinner = Check.takes(lock);
            Thread.sleep(100);
            Check.equal(false, spinner.isDone(), "acquired while it is held");
            client.release(key, "native");
            Check.equal(true, Check.soon(spinner), "the spin lock when free");
        }
    }

    private static void multi(World world) throws Exception {
        String first = world.key("multi");
        String second = world.key("multi");
        try (Native client = world.client()) {
            client.acquire(second, "native", Check.LONG_LEASE_MS);
            RLock impatient = world.one.getMultiLock(world.one.getLock(first), world.one.getLock(second));
            Check.equal(false, impatient.tryLock(200, 60_000, TimeUnit.MILLISECONDS), "acquired while one is held");
            Check.equal("none", client.info(first).get("kind"), "the first lock after that");
            Future<Boolean> waiter = Check.start(() -> {
                RLock both = world.two.getMultiLock(world.two.getLock(first), world.two.getLock(second));
                boolean acquired = both.tryLock(60, 60, TimeUnit.SECONDS);
                try (Native other = world.client()) {
                    Check.equal(false, other.acquire(first, "native", 30_000), "acquired while both are held");
                }
                both.unlock();
                return acquired;
            });
            Check.eventually("it has the first", () -> !client.holder(first).isEmpty());
            client.release(second, "native");
            Check.equal(true, Check.soon(waiter), "acquired when free");
            Check.equal("none", client.info(first).get("kind"), "the first lock");
            Check.equal("none", client.info(second).get("kind"), "the second lock");
        }
    }
}
