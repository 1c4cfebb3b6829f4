package rlock;

import java.io.IOException;
import java.net.URI;
import java.util.List;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import org.redisson.config.ReadMode;
import org.redisson.config.SubscriptionMode;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.util.JedisClusterCRC16;

/** The server, two Redisson clients as two processes would have them, and as many native clients as are asked for. */
final class World implements AutoCloseable {
    /** Redisson renews each third of it. */
    static final long WATCHDOG_MS = 3_000;

    private final URI url;
    private final boolean cluster;
    /** Where Redisson listens, if there is one. */
    private final URI replica;
    private final Nodes nodes;
    /** What changes the cluster; null: it stays as it is. */
    private final Lines orders;
    private final AtomicInteger names = new AtomicInteger();
    /** Another run may have left something on the same server. */
    private final String run = Long.toString(System.currentTimeMillis(), Character.MAX_RADIX);
    final RedissonClient one;
    final RedissonClient two;

    private World(URI url, boolean cluster, URI replica, Lines orders) {
        this.url = url;
        this.cluster = cluster;
        this.replica = replica;
        this.orders = orders;
        this.nodes = new Nodes(url, cluster);
        this.one = redisson();
        this.two = redisson();
    }

    static World connect() throws IOException {
        URI url = URI.create(System.getenv().getOrDefault("REDIS_URL", "redis://127.0.0.1:6399"));
        String replica = System.getenv("REDIS_REPLICA_URL");
        String orders = System.getenv("CLUSTER_ORDERS");
        World world = new World(url, isOfACluster(), replica == null ? null : URI.create(replica),
            orders == null ? null : new Lines(orders));
        List<HostAndPort> servers = world.nodes.all();
        if (replica != null) {
            servers.add(Nodes.address(world.replica));
        }
        for (HostAndPort server : servers) {
            try (Jedis connection = Native.connect(server)) {
                // Redisson's expired and deleted listeners hear keyspace events.
                connection.configSet("notify-keyspace-events", "Egx");
            }
        }
        return world;
    }

    /** Whether somebody uses the Rust client on order. */
    static boolean hasRust() {
        return System.getenv("RUST_CLIENT") != null;
    }

    static boolean isOfACluster() {
        return "1".equals(System.getenv("REDIS_CLUSTER"));
    }

    /** One more Redisson client, for who shuts it down. */
    RedissonClient redisson() {
        return redisson(WATCHDOG_MS);
    }

    /** One with leases of its own. */
    RedissonClient redisson(long watchdogMs) {
        Config config = new Config();
        config.setLockWatchdogTimeout(watchdogMs);
        if (replica != null) {
            config.useMasterSlaveServers().setMasterAddress(url.toString()).addSlaveAddress(replica.toString())
                .setSubscriptionMode(SubscriptionMode.SLAVE).setReadMode(ReadMode.MASTER);
        } else if (cluster) {
            // It learns of a fail-over when it looks: each second instead of five, not to wait for nothing.
            config.useClusterServers().addNodeAddress(url.toString()).setScanInterval(1_000);
        } else {
            config.useSingleServer().setAddress(url.toString()).setConnectionMinimumIdleSize(4);
        }
        return Redisson.create(config);
    }

    /** Both Redisson clients. */
    List<RedissonClient> clients() {
        return List.of(one, two);
    }

    /** A new native client, for one thread at a time. */
    Native client() {
        return new Native(nodes);
    }

    /** One for the locks of one slot, which goes where the slot is. */
    Native client(String key) {
        return isChanging() ? new Roaming(nodes, key) : client();
    }

    /** A native client waits for a lock; whether it gets it. */
    Future<Boolean> waits(String key, String owner, Kind kind) {
        return Check.start(() -> {
            try (Native client = client()) {
                return client.acquire(key, owner, Check.LONG_LEASE_MS, kind.and("BLOCK", "60000"));
            }
        });
    }

    /** A new user of the Rust client. */
    RustClient rustClient() throws IOException {
        return new RustClient(System.getenv("RUST_CLIENT"));
    }

    Nodes nodes() {
        return nodes;
    }

    boolean isChanging() {
        return orders != null;
    }

    /**
     * Changes the cluster. `move`, a lock and two primaries: the slot of the lock moves from one to the other, key by key. `fail-over` and a
     * primary: it and its replica change places, by agreement. `kill` and a primary: its replica takes over, and it returns as the replica.
     */
    void order(Object... words) throws IOException {
        String order = Stream.of(words).map(Object::toString).collect(Collectors.joining(" "));
        Check.equal("done", orders.ask(order), order);
    }

    /** A hash tag whose slot the primary of this number has, of three that share the slots equally. */
    String placeOn(int primary) {
        while (true) {
            String tag = "{" + key("place") + "}";
            if (JedisClusterCRC16.getSlot(tag) * 3 / 16_384 == primary) {
                return tag;
            }
        }
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

    /** In the slot of the lock. */
    static String prefixed(String prefix, String key) {
        return prefix + ":" + (key.contains("{") ? key : "{" + key + "}");
    }

    /** Where a fair lock keeps those who wait for it. */
    static String fairQueue(String key) {
        return prefixed("redisson_lock_queue", key);
    }

    /** Whether the server publishes these messages only to those who subscribed by SSUBSCRIBE. */
    boolean sharded() {
        return cluster;
    }

    /** How many connections listen on a channel: whoever waits by Redisson's protocol does. */
    long listeners(Native client, String channel) {
        if (replica == null) {
            return subscribers(client.at(channel), channel);
        }
        try (Jedis there = Native.connect(Nodes.address(replica))) {
            return subscribers(there, channel);
        }
    }

    private long subscribers(Jedis connection, String channel) {
        Object answer = Native.send(connection, "PUBSUB", cluster ? "SHARDNUMSUB" : "NUMSUB", channel);
        return (Long) ((List<?>) answer).get(1);
    }

    static String redissonVersion() {
        return Redisson.class.getPackage().getImplementationVersion();
    }

    @Override
    public String toString() {
        return (cluster ? "a cluster at " : "the server at ") + url + (replica == null ? "" : ", listening to the replica at " + replica);
    }

    @Override
    public void close() throws IOException {
        if (orders != null) {
            orders.close();
        }
        one.shutdown();
        two.shutdown();
    }
}
