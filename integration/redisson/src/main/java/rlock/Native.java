package rlock;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.util.SafeEncoder;

/**
 * A native client: one connection to each server, which sends the module's commands through a client library that does not
 * know them.
 */
final class Native implements AutoCloseable {
    private final Nodes nodes;
    private final Map<HostAndPort, Jedis> connections = new HashMap<>();

    Native(Nodes nodes) {
        this.nodes = nodes;
    }

    /** The connection to the server that has the key. */
    Jedis at(String key) {
        return connections.computeIfAbsent(nodes.of(key), Native::connect);
    }

    /** Without a time-out of the socket while a command waits in the server. */
    static Jedis connect(HostAndPort address) {
        return new Jedis(address, DefaultJedisClientConfig.builder().blockingSocketTimeoutMillis(0).build());
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
    boolean acquire(String key, String owner, long leaseMs, String... words) {
        return acquisition(key, owner, leaseMs, words) != null;
    }

    /** The fencing token of an acquisition that waits as long as it takes. */
    long acquireFenced(String key, String owner, long leaseMs) {
        return token(key, owner, leaseMs, "FENCED", "BLOCK", "0");
    }

    /** The fencing token, 0 where none was asked for, or -1: not acquired. */
    long token(String key, String owner, long leaseMs, String... words) {
        List<?> acquisition = acquisition(key, owner, leaseMs, words);
        return acquisition == null ? -1 : (Long) acquisition.get(2);
    }

    private List<?> acquisition(String key, String owner, long leaseMs, String... words) {
        return (List<?>) send("RLOCK.ACQUIRE", with(List.of(key, owner, Long.toString(leaseMs)), words));
    }

    /** 1: the last hold is gone; 0: holds are left; null: held nothing. */
    Long release(String key, String owner, String... words) {
        return (Long) send("RLOCK.RELEASE", with(List.of(key, owner), words));
    }

    boolean renew(String key, String owner, long leaseMs, String... words) {
        return (Long) send("RLOCK.RENEW", with(List.of(key, owner, Long.toString(leaseMs)), words)) == 1;
    }

    private static String[] with(List<String> first, String... words) {
        List<String> all = new ArrayList<>(first);
        all.addAll(List.of(words));
        return all.toArray(String[]::new);
    }

    boolean forceRelease(String key) {
        return (Long) send("RLOCK.FORCERELEASE", key) == 1;
    }

    Map<String, Object> info(String key) {
        return map(send("RLOCK.INFO", key));
    }

    long waiters(String key) {
        return (Long) info(key).get("waiter-count");
    }

    /** The only holder's owner and number of holds, as `owner=holds`; nothing where the lock is free. */
    String holder(String key) {
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
    public void close() {
        connections.values().forEach(Jedis::close);
    }
}
