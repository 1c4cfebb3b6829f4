package rlock;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Deque;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedDeque;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.redisson.Redisson;
import org.redisson.api.RFencedLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Redisson in the clients' mixed run: a driver program (clients/conformance/PROTOCOL.md) for what that run asks for, with fenced
 * locks.
 *
 * <p>Redisson knows no deadline: a check asks the server whether the thread holds the lock, and the hold reached the moment at which
 * it asked.
 */
public final class Participant {
    private static final int TIMEOUT_MS = 1_000;
    /** How long a thread tries to give back what an error left it with. */
    private static final long PATIENCE_MS = 60_000;
    private static final long PAUSE_NANOS = 10_000_000;

    private final Map<String, Guard> guards = new ConcurrentHashMap<>();
    /** The owner of a lock is a thread: each guard has one for itself, of those that are free. */
    private final Deque<ExecutorService> threads = new ConcurrentLinkedDeque<>();
    private RedissonClient redisson;

    private record Guard(RFencedLock lock, ExecutorService thread) {
    }

    private record Request(JsonObject fields, long from) {
        String text(String name) {
            return fields.get(name).getAsString();
        }
    }

    private Participant() {
    }

    public static void main(String[] arguments) throws IOException {
        Participant mine = new Participant();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            long from = System.nanoTime();
            mine.serve(new Request(JsonParser.parseString(line).getAsJsonObject(), from));
        }
        Runtime.getRuntime().halt(0);
    }

    private void serve(Request request) {
        switch (request.text("do")) {
            case "hello" -> hello(request);
            case "connect" -> connect(request);
            case "acquire" -> {
                ExecutorService free = threads.poll();
                ExecutorService thread = free == null ? Executors.newSingleThreadExecutor() : free;
                RFencedLock lock = redisson.getFencedLock(request.text("lock"));
                thread.execute(() -> acquire(request, new Guard(lock, thread)));
            }
            case "check" -> {
                Guard guard = guards.get(request.text("guard"));
                guard.thread.execute(() -> check(request, guard.lock));
            }
            case "release" -> {
                Guard guard = guards.remove(request.text("guard"));
                guard.thread.execute(() -> release(request, guard));
            }
            default -> throw new IllegalArgumentException("not asked for in the mixed run: " + request.fields);
        }
    }

    private static void hello(Request request) {
        JsonObject answer = new JsonObject();
        answer.addProperty("protocol", 1);
        answer.addProperty("client", "redisson");
        answer.addProperty("version", World.redissonVersion());
        say(request, answer);
    }

    private void connect(Request request) {
        Config config = new Config();
        config.setLockWatchdogTimeout(request.fields.get("lease_ms").getAsLong());
        // It notices within some seconds that a connection is open and silent.
        config.useSingleServer().setAddress(request.text("url")).setConnectionMinimumIdleSize(4).setConnectionPoolSize(8)
            .setTimeout(TIMEOUT_MS).setConnectTimeout(TIMEOUT_MS).setPingConnectionInterval(TIMEOUT_MS);
        redisson = Redisson.create(config);
        say(request, new JsonObject());
    }

    private void acquire(Request request, Guard guard) {
        try {
            Long token = guard.lock.tryLockAndGetToken(request.fields.get("timeout_ms").getAsLong(), TimeUnit.MILLISECONDS);
            if (token != null) {
                guards.put(request.text("guard"), guard);
                JsonObject answer = new JsonObject();
                answer.addProperty("token", token);
                say(request, answer);
                return;
            }
            fail(request, "Timeout", "not acquired in time");
        } catch (Exception error) {
            fail(request, "Unreachable", error.toString());
        }
        letGo(guard);
    }

    private static void check(Request request, RFencedLock lock) {
        try {
            if (lock.isHeldByCurrentThread()) {
                say(request, new JsonObject());
            } else {
                fail(request, "LockLost", "the server says so");
            }
        } catch (RuntimeException error) {
            fail(request, "Unreachable", error.toString());
        }
    }

    private void release(Request request, Guard guard) {
        try {
            guard.lock.unlock();
            say(request, new JsonObject());
        } catch (IllegalMonitorStateException lost) {
            fail(request, "LockLost", lost.toString());
        } catch (RuntimeException error) {
            fail(request, "OutcomeUnknown", error.toString());
        }
        letGo(guard);
    }

    /** After an error it is unknown whether the thread holds the lock: it gives back what it holds before it is used again. */
    private void letGo(Guard guard) {
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(PATIENCE_MS);
        while (System.nanoTime() < deadline) {
            try {
                while (guard.lock.isHeldByCurrentThread()) {
                    guard.lock.unlock();
                }
                threads.push(guard.thread);
                return;
            } catch (RuntimeException again) {
                LockSupport.parkNanos(PAUSE_NANOS);
            }
        }
    }

    private static void fail(Request request, String name, String message) {
        JsonObject answer = new JsonObject();
        answer.addProperty("error", name);
        answer.addProperty("message", message);
        say(request, answer);
    }

    private static void say(Request request, JsonObject answer) {
        answer.add("id", request.fields.get("id"));
        answer.addProperty("ok", !answer.has("error"));
        answer.addProperty("from", request.from);
        answer.addProperty("at", System.nanoTime());
        synchronized (System.out) {
            System.out.println(answer);
            System.out.flush();
        }
    }
}
