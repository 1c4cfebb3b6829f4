package rlock;

import java.net.URI;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.util.JedisClusterCRC16;

/** Which server has which key: all of them the same one, or those of a cluster by their slots, which stay where they are. */
final class Nodes {
    /** By the first slot of a range. */
    private final TreeMap<Integer, HostAndPort> ranges = new TreeMap<>();

    Nodes(URI url, boolean cluster) {
        HostAndPort seed = address(url);
        ranges.put(0, seed);
        if (cluster) {
            try (Jedis connection = Native.connect(seed)) {
                ((List<?>) Native.send(connection, "CLUSTER", "SLOTS")).forEach(this::add);
            }
        }
    }

    private void add(Object range) {
        List<?> fields = (List<?>) range;
        List<?> primary = (List<?>) fields.get(2);
        HostAndPort address = new HostAndPort((String) primary.get(0), ((Long) primary.get(1)).intValue());
        ranges.put(((Long) fields.get(0)).intValue(), address);
    }

    static HostAndPort address(URI url) {
        return new HostAndPort(url.getHost(), url.getPort());
    }

    HostAndPort of(String key) {
        return ranges.floorEntry(JedisClusterCRC16.getSlot(key)).getValue();
    }

    List<HostAndPort> all() {
        return new ArrayList<>(ranges.values());
    }
}
