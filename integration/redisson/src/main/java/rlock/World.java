package rlock;

import java.net.URI;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import redis.clients.jedis.HostAndPort;

/** The server, two Redisson clients as two processes would have them, and as many native clients as are asked for. */
final class World implements AutoCloseable {
    /** Redisson renews each third of it. */
    static final long WATCHDOG_MS = 3_000;

    private final URI url;
    private final boolean cluster;
    private final AtomicInteger names = new AtomicInteger();
    /** Another run may have left something on the same server. */
    private final String run = Long.toString(System.currentTimeMillis(), Character.MAX_RADIX);
    final RedissonClient one;
    final RedissonClient two;

    private World(URI url, boolean cluster) {
        this.url = url;
        this.cluster = cluster;
        this.one = redisson();
        this.two = redisson();
    }

    static World connect() {
        URI url = URI.create(System.getenv().getOrDefault("REDIS_URL", "redis://127.0.0.1:6399"));
        World world = new World(url, "1".equals(System.getenv("REDIS_CLUSTER")));
        try (Native client = world.client()) {
            // Redisson's expired and deleted listeners hear keyspace events.
            client.send("CONFIG", "SET", "notify-keyspace-events", "Egx");
        }
        return world;
    }

    /** One more Redisson client, for who shuts it down. */
    RedissonClient redisson() {
        Config config = new Config();
        config.setLockWatchdogTimeout(WATCHDOG_MS);
        if (cluster) {
            config.useClusterServers().addNodeAddress(url.toString());
        } else {
            config.useSingleServer().setAddress(url.toString()).setConnectionMinimumIdleSize(4);
        }
        return Redisson.create(config);
    }

    /** Both Redisson clients. */
    List<RedissonClient> clients() {
        return List.of(one, two);
    }

    /** A new connection of a native client. */
    Native client() {
        return new Native(new HostAndPort(url.getHost(), url.getPort()));
    }

    /** The name of a lock that no other scenario uses. */
    String key(String what) {
        return what + ":" + run + ":" + names.incrementAndGet();
    }

    /** An owner that is never used again. */
    String owner() {
        return run + ":" + names.incrementAndGet();
    }

    /** How Redisson names this thread. */
    static String ownerOf(RedissonClient client) {
        return client.getId() + ":" + Thread.currentThread().getId();
    }

    /** The channel of Redisson's unlock messages for a lock. */
    static String channel(String key) {
        return key.contains("{") ? "redisson_lock__channel:" + key : "redisson_lock__channel:{" + key + "}";
    }

    /** Whether the server publishes these messages only to those who subscribed by SSUBSCRIBE. */
    boolean sharded() {
        return cluster;
    }

    /** How many connections listen for unlock messages: whoever waits by Redisson's protocol does. */
    long listeners(Native client, String key) {
        Object answer = client.send("PUBSUB", cluster ? "SHARDNUMSUB" : "NUMSUB", channel(key));
        return (Long) ((List<?>) answer).get(1);
    }

    static String redissonVersion() {
        return Redisson.class.getPackage().getImplementationVersion();
    }

    @Override
    public String toString() {
        return (cluster ? "a cluster at " : "the server at ") + url;
    }

    @Override
    public void close() {
        one.shutdown();
        two.shutdown();
    }
}
