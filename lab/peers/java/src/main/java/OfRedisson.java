import io.netty.channel.EventLoopGroup;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** Redisson, configured as it is shipped. */
final class OfRedisson implements Contender {
    private final String url;
    private final RedissonClient redisson;
    /** Shared with the others of this process. */
    private EventLoopGroup events;
    private ExecutorService threads;

    OfRedisson(String url) {
        this(url, new Config());
    }

    private OfRedisson(String url, Config config) {
        this.url = url;
        // It would open 24 connections before it needs the second.
        config.useSingleServer().setAddress(url).setConnectionMinimumIdleSize(1);
        redisson = Redisson.create(config);
    }

    @Override
    public Object acquire(String key) {
        RLock lock = redisson.getLock(key);
        lock.lock();
        return lock;
    }

    @Override
    public void release(Object held) {
        ((RLock) held).unlock();
    }

    @Override
    public Contender another() {
        if (events == null) {
            events = events();
            threads = Executors.newFixedThreadPool(16);
        }
        Config config = new Config();
        config.setEventLoopGroup(events).setExecutor(threads);
        return new OfRedisson(url, config);
    }

    /** Newer versions of Netty have another class for it, which older Redissons do not know. */
    @SuppressWarnings("deprecation")
    private static EventLoopGroup events() {
        return new io.netty.channel.nio.NioEventLoopGroup();
    }

    @Override
    public void record(String key) throws Exception {
        Recorded.pair(redisson.getLock(key + ":warm"));
        Recorded.pair(redisson.getLock(key + ":pair"));
        RedissonClient other = ((OfRedisson) another()).redisson;
        String contended = key + ":hand-off";
        Recorded.handOff(redisson.getLock(contended), other.getLock(contended),
            redisson.getTopic("redisson_lock__channel:{" + contended + "}"));
        for (String readers : List.of(key + ":warm-read", key + ":read")) {
            Recorded.pairBeside(redisson.getReadWriteLock(readers).readLock(), other.getReadWriteLock(readers).readLock());
        }
        other.shutdown();
    }

    @Override
    public void close() {
        redisson.shutdown();
    }
}
