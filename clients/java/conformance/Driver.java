import io.lettuce.core.LettuceVersion;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;
import java.util.concurrent.Executors;
import java.util.function.Supplier;
import rlock.client.AllGuard;
import rlock.client.Client;
import rlock.client.Event;
import rlock.client.Guard;
import rlock.client.Handle;
import rlock.client.Info;
import rlock.client.Json;
import rlock.client.LockAll;
import rlock.client.LostReason;
import rlock.client.NamedLock;
import rlock.client.RlockException;
import rlock.client.RlockException.LockLost;
import rlock.client.RlockException.Timeout;
import rlock.client.RlockException.Unreachable;
import rlock.client.Settings;
import rlock.client.WriteGuard;
import rlock.client.WriteLock;

/**
 * The driver program of the conformance suite: JSON lines in, JSON lines out
 * (clients/conformance/PROTOCOL.md).
 */
public final class Driver {
  private static final List<String> CAPABILITIES =
      List.of(
          ("read_write downgrade fair fenced reenter owner cancel info force_release hook busy sentinel cluster"
                  + " session semaphore session_moves one_trip cluster_waits at_least max_hold detach lock_all")
              .split(" "));

  /** The fields of each request and their types; `?`: optional. */
  private static final Map<String, String> FIELDS =
      Map.ofEntries(
          Map.entry("hello", "protocol:n"),
          Map.entry("connect", "client:s url:s name:s? lease_ms:n? response_ms:n?"),
          Map.entry(
              "acquire",
              "client:s guard:s lock:s kind:s? try:b? timeout_ms:n? lease_ms:n? fair:b? fenced:b? permits:n?"
                  + " session_ms:n? owner:s? at_least_ms:n? max_hold_ms:n?"),
          Map.entry("acquire_all", "client:s guard:s locks:l try:b? timeout_ms:n?"),
          Map.entry("cancel", "acquire:n"),
          Map.entry("check", "guard:s"),
          Map.entry("reenter", "guard:s as:s"),
          Map.entry("release", "guard:s"),
          Map.entry("downgrade", "guard:s as:s"),
          Map.entry("detach", "guard:s"),
          Map.entry("adopt", "client:s guard:s lock:s owner:s kind:s? session_ms:n?"),
          Map.entry("locked", "client:s lock:s kind:s?"),
          Map.entry("info", "client:s lock:s kind:s?"),
          Map.entry("force_release", "client:s lock:s kind:s?"),
          Map.entry("busy", "ms:n"),
          Map.entry("close", "client:s within_ms:n?"),
          Map.entry("exit", ""));

  private static final Map<String, Class<?>> TYPES =
      Map.of("s", String.class, "n", Long.class, "b", Boolean.class, "l", List.class);

  private static final class Invalid extends RuntimeException {
    private static final long serialVersionUID = 1;

    Invalid(String text) {
      super(text);
    }
  }

  /** A request. */
  private record Request(Map<String, Object> fields) {
    String text(String name) {
      return (String) fields.get(name);
    }

    boolean has(String name) {
      return fields.containsKey(name);
    }

    boolean is(String name) {
      return Boolean.TRUE.equals(fields.get(name));
    }

    long number(String name) {
      return (Long) fields.get(name);
    }

    Duration ms(String name) {
      return Duration.ofMillis(number(name));
    }

    void check() {
      String known = FIELDS.get(text("do"));
      if (known == null) {
        throw new Invalid("unknown request " + fields.get("do"));
      }
      Map<String, String> types = new LinkedHashMap<>();
      Arrays.stream(known.split(" "))
          .filter(each -> !each.isEmpty())
          .forEach(each -> types.put(each.split(":")[0], each.split(":")[1]));
      for (String name : fields.keySet()) {
        if (!name.equals("id") && !name.equals("do") && !types.containsKey(name)) {
          throw new Invalid("unknown field " + name);
        }
      }
      types.forEach(
          (name, type) -> {
            Object value = fields.get(name);
            boolean missing = !fields.containsKey(name);
            if (missing
                ? !type.endsWith("?")
                : !TYPES.get(type.substring(0, 1)).isInstance(value)) {
              throw new Invalid(name + " is " + type);
            }
          });
    }
  }

  private final PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
  private final Map<String, Client> clients = new ConcurrentHashMap<>();
  private final Map<String, Guard> guards = new ConcurrentHashMap<>();
  private final Map<String, AllGuard> several = new ConcurrentHashMap<>();
  private final Map<Long, CompletableFuture<? extends Guard>> acquiring = new ConcurrentHashMap<>();
  private final Set<String> used = ConcurrentHashMap.newKeySet();
  private final Executor workers =
      Executors.newCachedThreadPool(
          work -> {
            Thread thread = new Thread(work, "driver");
            thread.setDaemon(true);
            return thread;
          });

  public static void main(String[] arguments) throws IOException {
    new Driver().serve();
  }

  private void serve() throws IOException {
    BufferedReader lines =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      long from = stamp();
      Object request;
      try {
        request = Json.read(line);
      } catch (IllegalArgumentException error) {
        request = null;
      }
      if (!(request instanceof Map<?, ?> map)) {
        System.exit(2);
        return;
      }
      Map<String, Object> fields = new LinkedHashMap<>();
      map.forEach((name, value) -> fields.put((String) name, value));
      answer(new Request(fields), from);
    }
    Runtime.getRuntime().halt(0);
  }

  /**
   * What blocks runs in a thread of its own; what is asynchronous begins here, in the order of the
   * requests.
   */
  private void answer(Request request, long from) {
    try {
      request.check();
      switch (request.text("do")) {
        case "acquire" -> acquire(request, from);
        case "cancel" -> {
          CompletableFuture<? extends Guard> future = acquiring.get(request.number("acquire"));
          if (future != null) {
            future.cancel(true);
          }
          say(request, from, Map.of());
        }
        case "check" -> {
          AllGuard all = several.get(request.text("guard"));
          Duration left = all == null ? guard(request.text("guard")).check() : all.check();
          say(request, from, Map.of("left_ms", left.toMillis()));
        }
        case "release" -> {
          AllGuard all = several.remove(request.text("guard"));
          if (all == null) {
            release(request, from);
          } else {
            workers.execute(() -> answerLater(request, from, () -> releaseAll(all)));
          }
        }
        case "exit" -> {
          say(request, from, Map.of());
          Runtime.getRuntime().halt(0);
        }
        default -> workers.execute(() -> answerLater(request, from, () -> done(request)));
      }
    } catch (RuntimeException error) {
      fail(request, from, error);
    }
  }

  private void answerLater(Request request, long from, Supplier<Map<String, Object>> work) {
    try {
      say(request, from, work.get());
    } catch (RuntimeException error) {
      fail(request, from, error);
    }
  }

  private Map<String, Object> done(Request request) {
    switch (request.text("do")) {
      case "hello" -> {
        return Map.of(
            "protocol",
            1L,
            "client",
            "java",
            "version",
            "0.1.0",
            "capabilities",
            CAPABILITIES,
            "driver",
            "lettuce " + LettuceVersion.getVersion());
      }
      case "connect" -> {
        return connect(request);
      }
      case "acquire_all" -> {
        return acquireAll(request);
      }
      case "reenter" -> {
        Guard outer = guard(request.text("guard"));
        fresh(request.text("as"));
        Guard held = outer.reenter();
        keep(request.text("as"), held);
        return Map.of("token", held.token());
      }
      case "downgrade" -> {
        if (!(guard(request.text("guard")) instanceof WriteGuard writer)) {
          throw new Invalid(request.text("guard") + " is not the guard of a write lock");
        }
        fresh(request.text("as"));
        guards.remove(request.text("guard"));
        keep(request.text("as"), writer.downgrade());
        return Map.of();
      }
      case "detach" -> {
        Guard held = guard(request.text("guard"));
        guards.remove(request.text("guard"));
        Guard.Detached detached = held.detach();
        return Map.of("owner", detached.owner(), "left_ms", detached.left().toMillis());
      }
      case "adopt" -> {
        fresh(request.text("guard"));
        try {
          keep(request.text("guard"), handle(request).adopt(request.text("owner")));
        } catch (InterruptedException never) {
          throw new IllegalStateException(never);
        }
        return Map.of();
      }
      case "locked" -> {
        return Map.of("value", handle(request).locked());
      }
      case "info" -> {
        Info info = handle(request).info();
        return Map.of("holders", info.holderCount(), "waiters", info.waiterCount());
      }
      case "force_release" -> {
        return Map.of("value", handle(request).forceRelease());
      }
      case "busy" -> {
        busy(request.number("ms"));
        return Map.of();
      }
      case "close" -> {
        Client client = client(request.text("client"));
        if (request.has("within_ms")) {
          client.close(request.ms("within_ms"));
        } else {
          client.close();
        }
        return Map.of();
      }
      default -> throw new Invalid("unknown request");
    }
  }

  private Map<String, Object> acquireAll(Request request) {
    if (request.is("try") && request.has("timeout_ms")) {
      throw new Invalid("try and timeout_ms exclude each other");
    }
    List<String> names = new ArrayList<>();
    ((List<?>) request.fields.get("locks")).forEach(name -> names.add((String) name));
    LockAll locks = client(request.text("client")).lockAll(names);
    String name = request.text("guard");
    fresh(name);
    try {
      AllGuard held =
          request.is("try")
              ? locks.tryAcquire()
              : request.has("timeout_ms")
                  ? locks.acquire(request.ms("timeout_ms"))
                  : locks.acquire();
      several.put(name, held);
      held.lost().thenAccept(why -> lost(name, why, several.get(name) == held, held::close));
      return Map.of();
    } catch (InterruptedException never) {
      throw new IllegalStateException(never);
    }
  }

  private static Map<String, Object> releaseAll(AllGuard held) {
    held.release();
    return Map.of();
  }

  private Map<String, Object> connect(Request request) {
    String name = request.text("client");
    fresh(name);
    Settings settings =
        Settings.defaults()
            .withOnEvent(
                event -> {
                  Map<String, Object> line = new LinkedHashMap<>();
                  line.put("event", "hook");
                  line.put("client", name);
                  line.put("name", event.kind().name().toLowerCase(Locale.ROOT));
                  if (event.kind() != Event.Kind.DISCONNECTED
                      && event.kind() != Event.Kind.RECONNECTED) {
                    line.put("lock", event.lock());
                  }
                  line.put("at", stamp());
                  write(line);
                });
    if (request.has("name")) {
      settings = settings.withName(request.text("name"));
    }
    if (request.has("lease_ms")) {
      settings = settings.withLease(request.ms("lease_ms"));
    }
    if (request.has("response_ms")) {
      settings = settings.withResponseTimeout(request.ms("response_ms"));
    }
    Client client = new Client(request.text("url"), settings);
    clients.put(name, client);
    return Map.of("identity", client.identity());
  }

  private void acquire(Request request, long from) {
    if (request.is("try") && request.has("timeout_ms")) {
      throw new Invalid("try and timeout_ms exclude each other");
    }
    Handle<?, ?> handle = handle(request);
    if (request.has("lease_ms")) {
      handle = handle.withLease(request.ms("lease_ms")).withoutRenewal();
    }
    if (request.has("at_least_ms")) {
      handle = handle.withAtLeast(request.ms("at_least_ms"));
    }
    if (request.has("max_hold_ms")) {
      handle = handle.withMaxHold(request.ms("max_hold_ms"));
    }
    if (request.has("owner")) {
      handle = handle.withOwner(request.text("owner"));
    }
    String name = request.text("guard");
    fresh(name);
    long id = request.number("id");
    CompletableFuture<? extends Guard> future =
        request.is("try")
            ? handle.tryAcquireAsync()
            : request.has("timeout_ms")
                ? handle.acquireAsync(request.ms("timeout_ms"))
                : handle.acquireAsync();
    acquiring.put(id, future);
    future.whenComplete(
        (held, error) -> {
          acquiring.remove(id);
          if (error != null) {
            fail(request, from, error);
          } else {
            keep(name, held);
            say(request, from, Map.of("token", held.token(), "owner", held.owner()));
          }
        });
  }

  private void release(Request request, long from) {
    Guard held = guard(request.text("guard"));
    guards.remove(request.text("guard"));
    held.releaseAsync()
        .whenComplete(
            (done, error) -> {
              if (error != null) {
                fail(request, from, error);
              } else {
                say(request, from, Map.of());
              }
            });
  }

  private Handle<?, ?> handle(Request request) {
    Handle<?, ?> handle = plain(request);
    return request.has("session_ms") ? handle.withSessionGrace(request.ms("session_ms")) : handle;
  }

  private Handle<?, ?> plain(Request request) {
    Client client = client(request.text("client"));
    String name = request.text("lock");
    switch (request.has("kind") ? request.text("kind") : "lock") {
      case "lock" -> {
        NamedLock lock = client.lock(name);
        lock = request.is("fair") ? lock.fair() : lock;
        return request.is("fenced") ? lock.fenced() : lock;
      }
      case "read" -> {
        return client.readWriteLock(name).read();
      }
      case "write" -> {
        WriteLock write = client.readWriteLock(name).write();
        return request.is("fenced") ? write.fenced() : write;
      }
      case "permit" -> {
        return client.semaphore(
            name, request.has("permits") ? Math.toIntExact(request.number("permits")) : 1);
      }
      default -> throw new Invalid("unknown kind " + request.text("kind"));
    }
  }

  private void keep(String name, Guard held) {
    guards.put(name, held);
    held.lost()
        .thenAccept(why -> lost(name, why, guards.get(name) == held, () -> held.releaseAsync()));
  }

  private void lost(String name, LostReason why, boolean kept, Runnable release) {
    if (kept) {
      write(line("event", "lost", "guard", name, "why", word(why), "at", stamp()));
    }
    // A closing client waits until the work under its guards has ended: here, with the client.
    if (why == LostReason.CLOSED) {
      release.run();
    }
  }

  private Client client(String name) {
    Client client = clients.get(name);
    if (client == null) {
      throw new Invalid("no client " + name);
    }
    return client;
  }

  private Guard guard(String name) {
    Guard guard = guards.get(name);
    if (guard == null) {
      throw new Invalid("no guard " + name);
    }
    return guard;
  }

  private void fresh(String name) {
    if (!used.add(name)) {
      throw new Invalid("the handle " + name + " was used before");
    }
  }

  /** Keeps all processors' share of one thread, as an application that computes does. */
  private static void busy(long ms) {
    long until = System.nanoTime() + ms * 1_000_000;
    Runnable spin =
        () -> {
          while (System.nanoTime() < until) {
            Thread.onSpinWait();
          }
        };
    for (int i = 1; i < java.util.concurrent.ForkJoinPool.commonPool().getParallelism(); i++) {
      java.util.concurrent.ForkJoinPool.commonPool().execute(spin);
    }
    spin.run();
  }

  private static String word(LostReason why) {
    return why.name().toLowerCase(Locale.ROOT);
  }

  /** ns of a clock that is the same for all processes of the machine. */
  private static long stamp() {
    return System.nanoTime();
  }

  private void say(Request request, long from, Map<String, Object> fields) {
    Map<String, Object> line =
        line("id", request.fields.get("id"), "ok", true, "from", from, "at", stamp());
    line.putAll(fields);
    write(line);
  }

  private void fail(Request request, long from, Throwable error) {
    long at = stamp();
    Throwable cause =
        error instanceof CompletionException && error.getCause() != null ? error.getCause() : error;
    String name = cause.getClass().getSimpleName();
    if (cause instanceof CancellationException) {
      name = "Cancelled";
    } else if (!(cause instanceof RlockException || cause instanceof Invalid)) {
      cause.printStackTrace();
    }
    Map<String, Object> line =
        line("id", request.fields.get("id"), "ok", false, "from", from, "at", at, "error", name);
    if (cause instanceof LockLost lost) {
      line.put("why", word(lost.why()));
    }
    if (cause instanceof Timeout && cause.getCause() instanceof Unreachable) {
      line.put("cause", "unreachable");
    }
    line.put("message", String.valueOf(cause.getMessage()));
    write(line);
  }

  private static Map<String, Object> line(Object... fields) {
    Map<String, Object> line = new LinkedHashMap<>();
    for (int i = 0; i < fields.length; i += 2) {
      line.put((String) fields[i], fields[i + 1]);
    }
    return line;
  }

  private void write(Map<String, Object> line) {
    String text = Json.write(line);
    synchronized (out) {
      out.println(text);
      out.flush();
    }
  }
}
