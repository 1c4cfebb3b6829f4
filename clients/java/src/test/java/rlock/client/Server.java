package rlock.client;

import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisException;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.codec.ByteArrayCodec;
import java.io.IOException;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;

/** A server with the module, in a folder of its own. */
final class Server implements AutoCloseable {
  final int port;
  final String url;
  private final Process process;
  private final RedisClient driver;
  final RedisCommands<String, String> commands;

  /** With the module. */
  Server(String... options) {
    this(true, List.of(options));
  }

  /** Without the module. */
  static Server plain() {
    return new Server(false, List.of());
  }

  /** Below those of outgoing connections: one of these can take it before a server begins. */
  private static int freePort() {
    while (true) {
      int port = ThreadLocalRandom.current().nextInt(10_000, 22_700);
      try (ServerSocket free = new ServerSocket(port)) {
        return free.getLocalPort();
      } catch (IOException taken) {
        // The next one may be free.
      }
    }
  }

  private Server(boolean withModule, List<String> options) {
    port = freePort();
    url = "redis://127.0.0.1:" + port;
    process = started(withModule, options);
    driver = RedisClient.create(url);
    commands = connected();
  }

  private Process started(boolean withModule, List<String> options) {
    Map<String, String> env = System.getenv();
    String module = env.getOrDefault("RLOCK_MODULE", "../../target/release/librlock.so");
    List<String> words = new ArrayList<>();
    words.add(env.getOrDefault("REDIS_SERVER", "redis-server"));
    try {
      Path folder = Files.createTempDirectory("rlock");
      words.addAll(List.of("--port", "" + port, "--save", ""));
      words.addAll(options);
      if (withModule) {
        words.addAll(List.of("--loadmodule", Path.of(module).toAbsolutePath().toString()));
      }
      return new ProcessBuilder(words)
          .directory(folder.toFile())
          .redirectErrorStream(true)
          .redirectOutput(folder.resolve("log").toFile())
          .start();
    } catch (IOException error) {
      throw new IllegalStateException(error);
    }
  }

  private RedisCommands<String, String> connected() {
    long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(10);
    while (true) {
      try {
        StatefulRedisConnection<String, String> connection = driver.connect();
        return connection.sync();
      } catch (RuntimeException error) {
        if (System.nanoTime() > until || !process.isAlive()) {
          throw error;
        }
        pause(20);
      }
    }
  }

  /** What RLOCK.INFO says of it. */
  long waiters(String lock) {
    List<?> info =
        commands.eval(
            "return redis.call('RLOCK.INFO', KEYS[1])",
            io.lettuce.core.ScriptOutputType.MULTI,
            lock);
    return (Long) info.get(info.indexOf("waiter-count") + 1);
  }

  /** Of a read/write lock. */
  long readers(String lock) {
    return commands.hkeys(lock).stream()
        .filter(field -> !field.equals("mode") && !field.endsWith(":write"))
        .count();
  }

  void force(String lock) {
    commands.eval(
        "return redis.call('RLOCK.FORCERELEASE', KEYS[1])",
        io.lettuce.core.ScriptOutputType.INTEGER,
        lock);
  }

  /** Any command; its reply, or a `Refusal`. Sent after ASKING, which others than nodes refuse. */
  Object ask(String... words) {
    List<List<String>> commands = List.of(List.of("ASKING"), List.of(words));
    try (StatefulRedisConnection<byte[], byte[]> by = driver.connect(ByteArrayCodec.INSTANCE)) {
      return Wire.ask(by, TimeUnit.SECONDS.toNanos(10), commands).join().get(1);
    }
  }

  boolean exists(String lock) {
    return commands.exists(lock) == 1;
  }

  boolean serves(String name) {
    return commands.clientList().contains("name=" + name + "@");
  }

  static void pause(long ms) {
    try {
      Thread.sleep(ms);
    } catch (InterruptedException error) {
      throw new IllegalStateException(error);
    }
  }

  /** A server that is promoted or demoted may end the connections of a test. */
  private static boolean holds(BooleanSupplier holds) {
    try {
      return holds.getAsBoolean();
    } catch (RedisException ended) {
      return false;
    }
  }

  static void until(String what, BooleanSupplier holds) {
    long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
    while (!holds(holds)) {
      if (System.nanoTime() > until) {
        throw new AssertionError("not within 20 s: " + what);
      }
      pause(5);
    }
  }

  @Override
  public void close() {
    driver.shutdown(0, 2, TimeUnit.SECONDS);
    process.destroyForcibly();
  }
}
