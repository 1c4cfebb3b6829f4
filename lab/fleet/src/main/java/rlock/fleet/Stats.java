package rlock.fleet;

import io.lettuce.core.api.sync.RedisCommands;
import java.util.Set;

/** What the server counts. */
final class Stats {
    /** What Redisson's locks and the native client send; scripts call other commands. A DEL may be either. */
    private static final Set<String> SENT =
        Set.of("evalsha", "eval", "script|load", "subscribe", "unsubscribe", "ping", "pubsub|numsub", "client|setname", "client|setinfo", "hello");
    private static final Set<String> OF_THE_MEASUREMENT = Set.of("info", "config|resetstat");

    private Stats() {}

    /**
     * Calls since the last reset.
     *
     * @param sent those that clients sent, but for DEL
     * @param all those of scripts too
     */
    record Calls(double sent, double all) {}

    static Calls calls(RedisCommands<String, String> server) {
        double sent = 0;
        double all = 0;
        for (String line : server.info("commandstats").split("\r\n")) {
            if (!line.startsWith("cmdstat_")) {
                continue;
            }
            String name = line.substring("cmdstat_".length(), line.indexOf(':'));
            double calls = Double.parseDouble(line.substring(line.indexOf("calls=") + "calls=".length(), line.indexOf(',')));
            all += OF_THE_MEASUREMENT.contains(name) ? 0 : calls;
            sent += SENT.contains(name) || name.startsWith("rlock.") ? calls : 0;
        }
        return new Calls(sent, all);
    }

    /** All threads of the server, in user and kernel mode. */
    static double cpuSeconds(RedisCommands<String, String> server) {
        double seconds = 0;
        for (String line : server.info("cpu").split("\r\n")) {
            if (line.startsWith("used_cpu_sys:") || line.startsWith("used_cpu_user:")) {
                seconds += Double.parseDouble(line.substring(line.indexOf(':') + 1));
            }
        }
        return seconds;
    }
}
