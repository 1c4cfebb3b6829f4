package rlock.fleet;

import io.lettuce.core.api.sync.RedisCommands;

/** Counts the holders of each lock in the server, where every process could see them. */
final class GuardValue {
    private final RedisCommands<String, String> server;

    GuardValue(RedisCommands<String, String> server) {
        this.server = server;
    }

    void add(String key, boolean shared, long change) {
        server.hincrby("guard:" + key, field(shared), change);
    }

    long get(String key, boolean shared) {
        String count = server.hget("guard:" + key, field(shared));
        return count == null ? 0 : Long.parseLong(count);
    }

    private static String field(boolean shared) {
        return shared ? "readers" : "writers";
    }
}
