package rlock.fleet;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.locks.ReadWriteLock;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import rlock.client.Client;
import rlock.client.Settings;

/** What a process of the fleet locks with: a client of Redisson or a native one. */
abstract class Service implements AutoCloseable {
    /** Both kinds renew each third of it. A Redisson thread that misses a message waits for its end. */
    static final Duration LEASE = Duration.ofSeconds(5);

    private final boolean isNative;

    private Service(boolean isNative) {
        this.isNative = isNative;
    }

    final boolean isNative() {
        return isNative;
    }

    /** New sides of this lock: for all, or for writers and for readers. */
    abstract List<Side> sides(Kind kind, String key);

    @Override
    public abstract void close();

    static Service redisson(String url) {
        Config config = new Config();
        config.setLockWatchdogTimeout(LEASE.toMillis());
        config.useSingleServer().setAddress(url).setConnectionMinimumIdleSize(4);
        RedissonClient redisson = Redisson.create(config);
        return new Service(false) {
            @Override
            List<Side> sides(Kind kind, String key) {
                return switch (kind) {
                    case PLAIN -> List.of(Side.of(redisson.getLock(key)));
                    case FAIR -> List.of(Side.of(redisson.getFairLock(key)));
                    case READ_WRITE -> both(redisson.getReadWriteLock(key));
                };
            }

            @Override
            public void close() {
                redisson.shutdown();
            }
        };
    }

    private interface Locks {
        List<Side> of(Client client, Kind kind, String key);
    }

    private static Service natives(String url, Locks locks) {
        Client client = new Client(url, Settings.defaults().withLease(LEASE));
        return new Service(true) {
            @Override
            List<Side> sides(Kind kind, String key) {
                return locks.of(client, kind, key);
            }

            @Override
            public void close() {
                client.close();
            }
        };
    }

    /** With guards. */
    static Service guards(String url) {
        return natives(url, (client, kind, key) -> switch (kind) {
            case PLAIN -> List.of(Side.of(client.lock(key)));
            case FAIR -> List.of(Side.of(client.lock(key).fair()));
            case READ_WRITE -> List.of(Side.of(client.readWriteLock(key).write()), Side.of(client.readWriteLock(key).read()));
        });
    }

    /** With locks of java.util.concurrent. */
    static Service views(String url) {
        return natives(url, (client, kind, key) -> switch (kind) {
            case PLAIN -> List.of(Side.of(client.javaLock(key)));
            case FAIR -> List.of(Side.of(client.lock(key).fair().javaLock()));
            case READ_WRITE -> both(client.readWriteLock(key).javaLock());
        });
    }

    private static List<Side> both(ReadWriteLock lock) {
        return List.of(Side.of(lock.writeLock()), Side.of(lock.readLock()));
    }
}
