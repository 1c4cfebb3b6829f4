/* The test of docs/clients/jedis.md: `make interop` compiles it beside the code that the page links to, and its example. */

import java.net.URI;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisClientConfig;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.exceptions.JedisConnectionException;
import redis.clients.jedis.util.KeyValue;

public class Page {
    static final URI URL = URI.create(System.getenv().getOrDefault("REDIS_URL", "redis://localhost:6399"));
    static final HostAndPort SERVER = new HostAndPort(URL.getHost(), URL.getPort());

    public static void main(String[] arguments) throws Exception {
        List<Callable<Void>> runs = new ArrayList<>();
        for (RedisProtocol protocol : List.of(RedisProtocol.RESP2, RedisProtocol.RESP3)) {
            JedisClientConfig config = DefaultJedisClientConfig.builder().protocol(protocol).build();
            runs.add(() -> scenario(config, "page:java:" + protocol));
            runs.add(() -> aWaitOf8Seconds(config, "page:java:wait:" + protocol));
            runs.add(() -> renewals(config, "page:java:renewed:" + protocol));
        }
        for (var run : Executors.newCachedThreadPool().invokeAll(runs)) {
            run.get();
        }
        JedisClientConfig config = DefaultJedisClientConfig.builder().build();
        check(Example.run(SERVER, config).equals("done"), "the example");
        aServerThatStops(config, "page:java:stops");
        System.out.println("Jedis, RESP2 and RESP3: ok");
        System.exit(0);
    }

    static Void scenario(JedisClientConfig config, String key) throws Exception {
        try (Locks locks = new Locks(SERVER, config, 30_000); Jedis client = new Jedis(SERVER, config)) {
            // Another owner is denied; a repeated command adds no hold.
            Held held = locks.acquire(key, 0, "FENCED");
            check(held.check() && held.token > 0 && client.pttl(key) > 0 && client.pttl(key) <= 30_000, "held");
            check(locks.acquire(key, 0) == null, "denied");
            List<?> again = (List<?>) locks.send("ACQUIRE", key, held.owner, "30000", "HOLDS", "1");
            check(again.get(0).equals(1L), "holds: " + again);

            // The release hands the lock to the waiter, with a larger token.
            CompletableFuture<Held> waiting = CompletableFuture.supplyAsync(() -> locks.acquire(key, 20_000, "FENCED"));
            while (waiters(locks, key) == 0) {
                Thread.sleep(5);
            }
            check(held.release(), "released");
            Held other = waiting.get(10, TimeUnit.SECONDS);
            check(other.check() && other.token > held.token && !other.lost.isDone(), "handed over");
            check(!held.release() && !held.lost.isDone(), "released before");
            check(other.release() && !client.exists(key), "free");
        }
        return null;
    }

    /** The driver's default time-out is shorter. */
    static Void aWaitOf8Seconds(JedisClientConfig config, String key) {
        check(config.getSocketTimeoutMillis() == 2_000, "as usual");
        try (Locks locks = new Locks(SERVER, config, 30_000); Held held = locks.acquire(key, 0)) {
            long start = System.nanoTime();
            check(locks.acquire(held.key, 8_000) == null, "waited in vain");
            long waited = (System.nanoTime() - start) / 1_000_000;
            check(waited >= 8_000 && waited < 9_000, "waited " + waited);
            check(waiters(locks, key) == 0, "no waiters left");
        }
        return null;
    }

    /** Renewals keep the lock for several leases; a forced release is noticed within a third of a lease. */
    static Void renewals(JedisClientConfig config, String key) throws Exception {
        try (Locks locks = new Locks(SERVER, config, 2_000)) {
            Held held = locks.acquire(key, 0);
            for (int i = 0; i < 70; i++) {
                Thread.sleep(100);
                check(held.check() && !held.lost.isDone(), "renewed");
            }
            check(locks.send("FORCERELEASE", key).equals(1L), "released by force");
            long start = System.nanoTime();
            held.lost.get(10, TimeUnit.SECONDS);
            check((System.nanoTime() - start) / 1_000_000 < 2_000 / 3 + 1_000, "told in time");
            check(!held.check() && !held.release(), "lost");
            try {
                held.close();
                throw new AssertionError("the end of the block reports the loss");
            } catch (IllegalStateException lost) {
                return null;
            }
        }
    }

    static void aServerThatStops(JedisClientConfig config, String key) throws Exception {
        try (Locks locks = new Locks(SERVER, config, 3_000); Jedis client = new Jedis(SERVER, config)) {
            Held held = locks.acquire(key, 0);
            Runnable pause = () -> client.sendCommand(() -> "CLIENT".getBytes(), "PAUSE", "20000", "WRITE");

            // A pause shorter than the lease: renewals fail, and the lock is kept.
            pause.run();
            Thread.sleep(1_800);
            check(held.check(), "held");
            client.clientUnpause();
            Thread.sleep(2_000);
            check(held.check() && !held.lost.isDone(), "held on");

            // A longer pause: the local deadline reports the loss before the server grants the lock to another owner.
            long start = System.nanoTime();
            pause.run();
            held.lost.get(10, TimeUnit.SECONDS);
            long told = (System.nanoTime() - start) / 1_000_000;
            check(!held.check() && told > 1_800 && told < 3_500, "told after " + told);
            // A call that fails now may still take effect later; at most, its hold lasts one lease.
            for (Runnable call : List.<Runnable>of(() -> locks.acquire(key + ":fails", 1_000), held::release)) {
                try {
                    call.run();
                    throw new AssertionError("it has failed");
                } catch (JedisConnectionException timeOut) {
                    check(timeOut.getMessage().contains("timed out"), timeOut.getMessage());
                }
            }
            client.clientUnpause();
            check(!held.release(), "lost");
            check(locks.acquire(key + ":fails", 10_000).release(), "released");
        }
    }

    /** INFO is a map in RESP3, and a list of names and values in RESP2. */
    static long waiters(Locks locks, String key) {
        List<?> info = (List<?>) locks.send("INFO", key);
        for (int i = 0; i < info.size(); i++) {
            if (info.get(i) instanceof KeyValue<?, ?> field && text(field.getKey()).equals("waiter-count")) {
                return (Long) field.getValue();
            }
            if (text(info.get(i)).equals("waiter-count")) {
                return (Long) info.get(i + 1);
            }
        }
        throw new AssertionError("RLOCK.INFO answers something else");
    }

    static String text(Object reply) {
        return reply instanceof byte[] bytes ? new String(bytes) : "";
    }

    static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }
}
