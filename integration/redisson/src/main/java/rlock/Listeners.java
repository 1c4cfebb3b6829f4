package rlock;

import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.redisson.api.DeletedObjectListener;
import org.redisson.api.ExpiredObjectListener;
import org.redisson.api.RLock;
import org.redisson.api.RTopic;
import org.redisson.client.codec.LongCodec;

/** Java code that listens for a lock's end hears of what native clients do. */
final class Listeners {
    private Listeners() {
    }

    static List<Scenario> scenarios() {
        return List.of(
            Scenario.of("listeners to the deletion and to the unlock channel hear native releases", Listeners::released),
            Scenario.of("an expired listener hears a native lease end, also one that is noticed for a native waiter", Listeners::expired));
    }

    private static BlockingQueue<String> listen(RLock lock) {
        BlockingQueue<String> heard = new LinkedBlockingQueue<>();
        lock.addListener((DeletedObjectListener) name -> heard.add("deleted " + name));
        lock.addListener((ExpiredObjectListener) name -> heard.add("expired " + name));
        return heard;
    }

    private static <T> T next(BlockingQueue<T> heard) throws InterruptedException {
        return heard.poll(Check.SOON_MS, TimeUnit.MILLISECONDS);
    }

    private static void released(World world) throws Exception {
        String key = world.key("released");
        BlockingQueue<String> heard = listen(world.one.getLock(key));
        BlockingQueue<Long> messages = new LinkedBlockingQueue<>();
        String channel = Kind.PLAIN.channel(key);
        RTopic topic = world.sharded() ? world.one.getShardedTopic(channel, LongCodec.INSTANCE)
            : world.one.getTopic(channel, LongCodec.INSTANCE);
        topic.addListener(Long.class, (from, message) -> messages.add(message));
        try (Native client = world.client()) {
            client.acquire(key, "native", 30_000);
            client.acquire(key, "native", 30_000);
            client.release(key, "native");
            client.release(key, "native");
            Check.equal("deleted " + key, next(heard), "after RLOCK.RELEASE");
            Check.equal(0L, next(messages), "message after RLOCK.RELEASE");
            client.acquire(key, "native", 30_000);
            client.forceRelease(key);
            Check.equal("deleted " + key, next(heard), "after RLOCK.FORCERELEASE");
            Check.equal(0L, next(messages), "message after RLOCK.FORCERELEASE");
            Check.equal(null, heard.poll(), "heard besides");
        }
    }

    private static void expired(World world) throws Exception {
        String key = world.key("expired");
        BlockingQueue<String> heard = listen(world.one.getLock(key));
        try (Native client = world.client()) {
            client.acquire(key, "alone", 300);
            Check.equal("expired " + key, next(heard), "after the lease");
            client.acquire(key, "first", 300);
            Check.equal(true, client.acquire(key, "second", 30_000, "BLOCK", "20000"), "acquired");
            Check.equal("expired " + key, next(heard), "after the lease that a native awaited");
            client.release(key, "second");
            Check.equal("deleted " + key, next(heard), "after the release");
        }
    }
}
