package rlock.spring;

import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import java.io.IOException;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;

/** A server with the module, with options of its own. */
final class Server implements AutoCloseable {
  final int port;
  private final Process process;

  private Server(int port, Process process) {
    this.port = port;
    this.process = process;
  }

  static Server with(String... options) throws IOException {
    int port = free();
    String module =
        System.getenv().getOrDefault("RLOCK_MODULE", "../../target/release/librlock.so");
    List<String> words = new ArrayList<>(List.of("--port", "" + port, "--save", ""));
    words.addAll(List.of("--loadmodule", Path.of(module).toAbsolutePath().toString()));
    words.addAll(List.of(options));
    return new Server(port, started(words));
  }

  static Server sentinel(int primary, String password) throws IOException {
    int port = free();
    Path file = Files.createTempFile("sentinel", ".conf");
    Files.writeString(
        file,
        "port %d\nrequirepass %s\nsentinel monitor main 127.0.0.1 %d 1\n"
            .formatted(port, password, primary));
    return new Server(port, started(List.of(file.toString(), "--sentinel")));
  }

  /** A port whose bus port is one, too. */
  private static int free() throws IOException {
    try (ServerSocket socket = new ServerSocket(0)) {
      int port = socket.getLocalPort();
      return port < 55_000 ? port : port - 20_000;
    }
  }

  private static Process started(List<String> options) throws IOException {
    List<String> words = new ArrayList<>(options);
    words.add(0, System.getenv().getOrDefault("REDIS_SERVER", "redis-server"));
    Path folder = Files.createTempDirectory("rlock");
    return new ProcessBuilder(words)
        .directory(folder.toFile())
        .redirectErrorStream(true)
        .redirectOutput(folder.resolve("log").toFile())
        .start();
  }

  /** Of a cluster of one. */
  void takeAllSlots() throws InterruptedException {
    RedisClient driver = RedisClient.create(RedisURI.create("127.0.0.1", port));
    try {
      long began = System.nanoTime();
      while (true) {
        try (var connection = driver.connect()) {
          int[] slots = IntStream.range(0, 16_384).toArray();
          connection.sync().clusterAddSlots(slots);
          return;
        } catch (RuntimeException early) {
          if (System.nanoTime() - began > TimeUnit.SECONDS.toNanos(20)) {
            throw early;
          }
          Thread.sleep(20);
        }
      }
    } finally {
      driver.shutdown(0, 2, TimeUnit.SECONDS);
    }
  }

  @Override
  public void close() {
    process.destroyForcibly();
  }
}
