import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisClientConfig;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.exceptions.JedisException;

/** Locks with one lease. Times are in ms. */
class Locks implements AutoCloseable {
    final long leaseMs;
    private final HostAndPort server;
    private final JedisClientConfig config;
    private final RedisClient commands;

    Locks(HostAndPort server, JedisClientConfig config, long leaseMs) {
        this.server = server;
        this.config = config;
        this.leaseMs = leaseMs;
        commands = RedisClient.builder().hostAndPort(server).clientConfig(within(timeOut())).build();
    }

    /** Waits for up to waitMs. Returns a Held, or null if others hold the lock. `words` may contain FENCED. */
    Held acquire(String key, long waitMs, String... words) {
        String owner = UUID.randomUUID().toString();
        List<String> all = new ArrayList<>(List.of(key, owner, "" + leaseMs, "HOLDS", "1"));
        all.addAll(List.of(words));
        long end = System.nanoTime() + waitMs * 1_000_000;
        try {
            long sent = System.nanoTime();
            Object reply = send("ACQUIRE", all.toArray(String[]::new));
            while (reply == null && left(end) > 0) {
                reply = block(all, end);
                // The reply may be old by now: a renewal dates the start of the lease.
                sent = System.nanoTime();
                if (reply != null && !renew(key, owner)) {
                    reply = null;
                }
            }
            return reply == null ? null : new Held(this, key, owner, (Long) ((List<?>) reply).get(2), sent);
        } catch (JedisException error) {
            // The server may have granted the lock. If this fails too, the lease ends it.
            try {
                send("CANCEL", key, owner);
                send("RELEASE", key, owner, "ALL");
            } catch (JedisException again) {
                error.addSuppressed(again);
            }
            throw error;
        }
    }

    /** Blocks on a separate connection; its time-out is longer than the wait. BLOCK 0 would wait for ever. */
    private Object block(List<String> words, long end) {
        try (Jedis waiting = new Jedis(server, within(Math.max(0, left(end)) + 5_000))) {
            waiting.ping(); // connects: this counts towards the wait
            List<String> all = new ArrayList<>(words);
            all.addAll(List.of("BLOCK", "" + Math.max(1, left(end))));
            return waiting.sendCommand(() -> "RLOCK.ACQUIRE".getBytes(), all.toArray(String[]::new));
        }
    }

    Object send(String command, String... words) {
        return commands.executeCommand(new CommandArguments(() -> ("RLOCK." + command).getBytes()).addObjects(List.of(words)));
    }

    boolean renew(String key, String owner) {
        return send("RENEW", key, owner, "" + leaseMs).equals(1L);
    }

    /** Rounded up. */
    private static long left(long end) {
        return Math.floorDiv(end - System.nanoTime() + 999_999, 1_000_000L);
    }

    private long timeOut() {
        return Math.max(1, Math.min(5_000, leaseMs / 6));
    }

    private JedisClientConfig within(long socketMs) {
        return DefaultJedisClientConfig.builder().from(config)
            .connectionTimeoutMillis((int) timeOut()).socketTimeoutMillis((int) Math.min(socketMs, Integer.MAX_VALUE)).build();
    }

    @Override
    public void close() {
        commands.close();
    }
}

/** A held lock, renewed until it is released. */
class Held implements AutoCloseable {
    final String key;
    final String owner;
    /** 0 without FENCED. */
    final long token;
    /** Completes as soon as others may hold the lock. */
    final CompletableFuture<Void> lost = new CompletableFuture<>();
    private final Locks locks;
    private final CountDownLatch released = new CountDownLatch(1);
    private volatile long until;

    Held(Locks locks, String key, String owner, long token, long sent) {
        this.locks = locks;
        this.key = key;
        this.owner = owner;
        this.token = token;
        until = deadline(sent);
        start(this::keep);
        start(this::watch);
    }

    /** Reads the local clock and sends nothing. */
    boolean check() {
        return !lost.isDone() && until - System.nanoTime() > 0;
    }

    /** False: the lock was lost before. After an error the outcome is unknown: call it again, or let the lease end. */
    boolean release() {
        released.countDown();
        return locks.send("RELEASE", key, owner, "ALL") != null && !lost.isDone();
    }

    @Override
    public void close() {
        if (!release()) {
            throw new IllegalStateException("the lock " + key + " was lost");
        }
    }

    /** The server's lease began after the command was sent, and its clock may run faster. */
    private long deadline(long sent) {
        return sent + locks.leaseMs * 990_000 - 2_000_000;
    }

    /** Renews every third of the lease. A failed renewal is retried soon; a refused one loses the lock. */
    private void keep() throws InterruptedException {
        long pause = locks.leaseMs / 3;
        while (!released.await(pause, TimeUnit.MILLISECONDS) && !lost.isDone()) {
            long sent = System.nanoTime();
            try {
                boolean renewed = locks.renew(key, owner);
                pause = locks.leaseMs / 3;
                extend(renewed, sent);
            } catch (JedisException failed) {
                pause = locks.leaseMs / 30;
            }
        }
    }

    /** A lost lock stays lost: a reply after the deadline extends nothing. */
    private synchronized void extend(boolean renewed, long sent) {
        if (renewed && check()) {
            until = deadline(sent);
        } else {
            lose();
        }
    }

    /** Detects the deadline even while a renewal blocks. */
    private void watch() throws InterruptedException {
        while (!released.await(Math.max(0, until - System.nanoTime()), TimeUnit.NANOSECONDS) && !lost.isDone()) {
            synchronized (this) {
                if (!check()) {
                    lose();
                }
            }
        }
    }

    private void lose() {
        if (released.getCount() > 0) {
            lost.complete(null);
        }
    }

    private interface Loop {
        void run() throws InterruptedException;
    }

    private static void start(Loop loop) {
        Thread thread = new Thread(() -> {
            try {
                loop.run();
            } catch (InterruptedException end) {
                Thread.currentThread().interrupt();
            }
        }, "lock");
        thread.setDaemon(true);
        thread.start();
    }
}
