package rlock;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.exceptions.JedisConnectionException;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.util.SafeEncoder;

/**
 * A native client: one connection to each server, which sends the module's commands through a client library that does not
 * know them.
 */
class Native implements AutoCloseable {
    private final Nodes nodes;
    private final Map<HostAndPort, Jedis> connections = new HashMap<>();

    Native(Nodes nodes) {
        this.nodes = nodes;
    }

    /** The server that has the key. */
    HostAndPort server(String key) {
        return nodes.of(key);
    }

    final Jedis at(String key) {
        return at(server(key));
    }

    final Jedis at(HostAndPort server) {
        return connections.computeIfAbsent(server, Native::connect);
    }

    /** Without a time-out of the socket while a command waits in the server. */
    static Jedis connect(HostAndPort address) {
        return new Jedis(address, DefaultJedisClientConfig.builder().blockingSocketTimeoutMillis(0).build());
    }

    final void drop(HostAndPort server) {
        Jedis connection = connections.remove(server);
        if (connection != null) {
            connection.close();
        }
    }

    /** Sends a command whose first word is the key; lists come as lists, everything else as text, number or null. */
    Object send(String command, String... words) {
        return send(at(words[0]), command, words);
    }

    static Object send(Jedis connection, String command, String... words) {
        byte[] name = command.getBytes(StandardCharsets.UTF_8);
        return SafeEncoder.encodeObject(connection.sendBlockingCommand(() -> name, words));
    }

    /** Takes the lock, and waits for it where the words say so. */
    final boolean acquire(String key, String owner, long leaseMs, String... words) {
        return token(key, owner, leaseMs, words) >= 0;
    }

    /** The fencing token, 0 where none was asked for, or -1: not acquired. */
    final long token(String key, String owner, long leaseMs, String... words) {
        List<?> reply = (List<?>) send("RLOCK.ACQUIRE", behind(words, key, owner, leaseMs));
        return reply == null ? -1 : (Long) reply.get(2);
    }

    /** 1: the last hold is gone; 0: holds are left; null: held nothing. */
    final Long release(String key, String owner, String... words) {
        return (Long) send("RLOCK.RELEASE", behind(words, key, owner));
    }

    final boolean renew(String key, String owner, long leaseMs, String... words) {
        return (Long) send("RLOCK.RENEW", behind(words, key, owner, leaseMs)) == 1;
    }

    private static String[] behind(String[] last, Object... first) {
        return with(Stream.of(first).map(Object::toString).toArray(String[]::new), last);
    }

    static String[] with(String[] first, String... last) {
        return Stream.concat(Stream.of(first), Stream.of(last)).toArray(String[]::new);
    }

    final boolean forceRelease(String key) {
        return (Long) send("RLOCK.FORCERELEASE", key) == 1;
    }

    /**
     * Renews, and waits until the replica has it and all that came before it: what a client does that fears to lose a lock with
     * the primary. False: the replica did not tell in time.
     */
    final boolean isReplicated(String key, String owner, long leaseMs, String... mode) {
        if (!renew(key, owner, leaseMs, mode)) {
            return false;
        }
        try {
            return at(key).waitReplicas(1, 1_000) >= 1;
        } catch (JedisConnectionException lost) {
            drop(server(key));
            return false;
        } catch (JedisDataException demoted) {
            return false;
        }
    }

    final Map<String, Object> info(String key) {
        return map(send("RLOCK.INFO", key));
    }

    final long waiters(String key) {
        return (Long) info(key).get("waiter-count");
    }

    /** Nobody holds the lock, and nobody waits for it. */
    final boolean isFree(String key) {
        Map<String, Object> info = info(key);
        return info.get("kind").equals("none") && info.get("waiter-count").equals(0L);
    }

    /** The only holder's owner and number of holds, as `owner=holds`; nothing where the lock is free. */
    final String holder(String key) {
        List<String> holders = new ArrayList<>();
        for (Object holder : (List<?>) info(key).get("holders")) {
            Map<String, Object> fields = map(holder);
            holders.add(fields.get("owner") + "=" + fields.get("holds"));
        }
        return String.join(",", holders);
    }

    /** A map as RESP2 has it: keys and values in turn. */
    static Map<String, Object> map(Object flat) {
        List<?> list = (List<?>) flat;
        Map<String, Object> fields = new HashMap<>();
        for (int i = 0; i + 1 < list.size(); i += 2) {
            fields.put((String) list.get(i), list.get(i + 1));
        }
        return fields;
    }

    @Override
    public final void close() {
        connections.values().forEach(Jedis::close);
    }
}
