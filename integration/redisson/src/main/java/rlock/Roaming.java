package rlock;

import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.exceptions.JedisAskDataException;
import redis.clients.jedis.exceptions.JedisConnectionException;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.exceptions.JedisMovedDataException;
import redis.clients.jedis.util.SafeEncoder;

/**
 * A native client for the locks of one slot on a cluster that changes: it goes where it is sent, and asks again where docs/COMMANDS.md
 * says so. So it has to send what may be sent twice.
 */
final class Roaming extends Native {
    /** Errors that pass. */
    private static final List<String> PASSING = List.of("UNBLOCKED", "TRYAGAIN", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "READONLY");

    /** For how long it asks again: longer than any scenario takes. */
    private static final long LIMIT_MS = 90_000;

    private final List<HostAndPort> servers;
    private HostAndPort address;
    private int losses;
    private volatile long sentAway;

    Roaming(Nodes nodes, String key) {
        super(nodes);
        servers = nodes.all();
        address = nodes.of(key);
    }

    @Override
    HostAndPort server(String key) {
        return address;
    }

    /** Sends it until there is an answer. */
    @Override
    Object send(String command, String... words) {
        long deadline = System.nanoTime() + LIMIT_MS * 1_000_000;
        HostAndPort asked = null;
        while (true) {
            HostAndPort server = asked == null ? address : asked;
            try {
                Jedis connection = at(server);
                if (asked != null) {
                    connection.sendCommand(() -> SafeEncoder.encode("ASKING"));
                    asked = null;
                }
                return send(connection, command, words);
            } catch (JedisMovedDataException moved) {
                address = moved.getTargetNode();
            } catch (JedisAskDataException ask) {
                asked = ask.getTargetNode();
                continue;
            } catch (JedisConnectionException lost) {
                sentAway++;
                drop(server);
                // Any of them knows who has the slot.
                address = servers.get(losses++ % servers.size());
                asked = null;
            } catch (JedisDataException refused) {
                String code = refused.getMessage().split(" ")[0];
                if (!PASSING.contains(code)) {
                    throw refused;
                }
                sentAway += code.equals("UNBLOCKED") ? 1 : 0;
            }
            Check.that(System.nanoTime() < deadline, "no answer to " + command);
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(5));
        }
    }

    /** How often it was told that its wait is over, or lost the connection by which it waited. */
    long sentAway() {
        return sentAway;
    }
}
