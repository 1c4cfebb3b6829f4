package rlock;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.exceptions.JedisAskDataException;
import redis.clients.jedis.exceptions.JedisConnectionException;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.exceptions.JedisMovedDataException;
import redis.clients.jedis.util.SafeEncoder;

/** A native client on a cluster that changes: it goes where it is sent, and asks again where docs/COMMANDS.md says so. */
final class Roaming implements AutoCloseable {
    /** Errors that pass. */
    private static final List<String> PASSING = List.of("UNBLOCKED", "TRYAGAIN", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "READONLY");

    /** For how long it asks again: longer than any scenario takes. */
    private static final long LIMIT_MS = 90_000;

    private final List<HostAndPort> servers;
    private final Map<HostAndPort, Jedis> connections = new HashMap<>();
    private HostAndPort address;
    private int losses;
    private volatile long sentAway;

    Roaming(Nodes nodes, String key) {
        servers = nodes.all();
        address = nodes.of(key);
    }

    /** Sends it until there is an answer; so it has to be a command that may be sent twice. */
    Object send(String command, String... words) throws InterruptedException {
        long deadline = System.nanoTime() + LIMIT_MS * 1_000_000;
        HostAndPort asked = null;
        while (true) {
            try {
                Jedis connection = at(asked == null ? address : asked);
                if (asked != null) {
                    connection.sendCommand(() -> SafeEncoder.encode("ASKING"));
                }
                return Native.send(connection, command, words);
            } catch (JedisMovedDataException moved) {
                address = moved.getTargetNode();
                asked = null;
            } catch (JedisAskDataException ask) {
                asked = ask.getTargetNode();
                continue;
            } catch (JedisConnectionException lost) {
                sentAway++;
                drop(asked == null ? address : asked);
                // Any of them knows who has the slot.
                address = servers.get(losses++ % servers.size());
                asked = null;
            } catch (JedisDataException refused) {
                String code = refused.getMessage().split(" ")[0];
                if (!PASSING.contains(code)) {
                    throw refused;
                }
                if (code.equals("UNBLOCKED")) {
                    sentAway++;
                }
                asked = null;
            }
            Check.that(System.nanoTime() < deadline, "no answer to " + command);
            Thread.sleep(5);
        }
    }

    /** Takes the lock, and waits for as long as it takes; the fencing token, or 0. */
    long acquire(String key, String owner, long leaseMs, String... words) throws InterruptedException {
        Object reply = send("RLOCK.ACQUIRE", with(words, key, owner, Long.toString(leaseMs), "HOLDS", "1", "BLOCK", "0"));
        return (Long) ((List<?>) reply).get(2);
    }

    /** The words that other commands take too. */
    static String[] mode(String... words) {
        return Stream.of(words).filter(word -> word.equals("READ") || word.equals("WRITE")).toArray(String[]::new);
    }

    /**
     * Renews, and waits until the replica has it and all that came before it: what a client does that fears to lose a lock with
     * the primary. False: the replica did not tell in time.
     */
    boolean isReplicated(String key, String owner, long leaseMs, String... mode) throws InterruptedException {
        if (!send("RLOCK.RENEW", with(mode, key, owner, Long.toString(leaseMs))).equals(1L)) {
            return false;
        }
        try {
            return at(address).waitReplicas(1, 1_000) >= 1;
        } catch (JedisConnectionException lost) {
            drop(address);
            return false;
        } catch (JedisDataException demoted) {
            return false;
        }
    }

    void release(String key, String owner, String... mode) throws InterruptedException {
        send("RLOCK.RELEASE", with(mode, key, owner, "HOLDS", "0"));
    }

    Map<String, Object> info(String key) throws InterruptedException {
        return Native.map(send("RLOCK.INFO", key));
    }

    long waiters(String key) throws InterruptedException {
        return (Long) info(key).get("waiter-count");
    }

    /** How often it was told that its wait is over, or lost the connection by which it waited. */
    long sentAway() {
        return sentAway;
    }

    /** Whether nobody holds the lock, and nobody waits for it. */
    boolean isFree(String key) throws InterruptedException {
        Map<String, Object> info = info(key);
        return info.get("kind").equals("none") && info.get("waiter-count").equals(0L);
    }

    static String[] with(String[] last, String... first) {
        return Stream.concat(Stream.of(first), Stream.of(last)).toArray(String[]::new);
    }

    private Jedis at(HostAndPort server) {
        return connections.computeIfAbsent(server, Native::connect);
    }

    private void drop(HostAndPort server) {
        Jedis connection = connections.remove(server);
        if (connection != null) {
            connection.close();
        }
    }

    @Override
    public void close() {
        connections.values().forEach(Jedis::close);
    }
}
