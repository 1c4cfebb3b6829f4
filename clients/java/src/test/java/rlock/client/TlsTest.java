package rlock.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.SslOptions;
import java.io.File;
import java.io.IOException;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import rlock.client.RlockException.Unreachable;

/**
 * Servers that ask clients for certificates, which is what they do by default, and for passwords.
 */
class TlsTest {
  @TempDir Path folder;

  /** A client with this certificate and this authority, or with one of them. */
  private static Client client(int port, SslOptions ssl, RedisClient driver) {
    driver.setOptions(ClientOptions.builder().sslOptions(ssl).build());
    RedisURI uri =
        RedisURI.builder()
            .withHost("localhost")
            .withPort(port)
            .withSsl(true)
            .withAuthentication("app", "se@cret".toCharArray())
            .build();
    // On a busy machine, the first handshake of a process takes longer than it should.
    Settings patient = Settings.defaults().withResponseTimeout(Duration.ofSeconds(20));
    return new Client(uri, patient.withDriver(driver));
  }

  private File file(String name) {
    return folder.resolve(name).toFile();
  }

  @Test
  void aClientCertificate() throws Exception {
    Process made =
        new ProcessBuilder("sh", "../../scripts/certificates.sh", folder.toString())
            .inheritIO()
            .start();
    assertTrue(made.waitFor(60, TimeUnit.SECONDS));
    assertEquals(0, made.exitValue());
    int port = freePort();
    SslOptions both =
        SslOptions.builder()
            .trustManager(file("ca.crt"))
            .keyManager(file("client.crt"), file("client.key"), null)
            .build();
    SslOptions anonymous = SslOptions.builder().trustManager(file("ca.crt")).build();
    SslOptions untrusting =
        SslOptions.builder().keyManager(file("client.crt"), file("client.key"), null).build();
    RedisClient driver = RedisClient.create();
    try (Server server = new Server(options(port))) {
      try (Client client = client(port, both, driver)) {
        Guard held = client.lock("a").acquire();
        assertTrue(server.exists("a"));
        var waiting = client.lock("a").withWait(Duration.ofSeconds(20)).acquireAsync();
        Server.until("a waiter", () -> server.waiters("a") == 1);
        held.release();
        waiting.get(20, TimeUnit.SECONDS).release();
      }
      for (SslOptions some : List.of(anonymous, untrusting)) {
        try (Client client = client(port, some, driver)) {
          assertThrows(Unreachable.class, () -> client.lock("b").tryAcquire());
        }
      }
    } finally {
      driver.shutdown(0, 2, TimeUnit.SECONDS);
    }
  }

  private String[] options(int port) {
    String words =
        "--tls-port %d --tls-auth-clients yes --tls-ca-cert-file %s --tls-cert-file %s --tls-key-file %s --user app on >se@cret ~* &* +@all";
    return words.formatted(port, file("ca.crt"), file("server.crt"), file("server.key")).split(" ");
  }

  private static int freePort() throws IOException {
    try (ServerSocket free = new ServerSocket(0)) {
      return free.getLocalPort();
    }
  }

  /** The README shows the statements of this method. */
  static Client shown() {
    // begin
    SslOptions ssl =
        SslOptions.builder()
            .trustManager(new File("ca.crt")) // the authority of the server's certificate
            .keyManager(new File("client.crt"), new File("client.key"), null)
            .build();
    RedisClient driver = RedisClient.create(); // or yours
    driver.setOptions(ClientOptions.builder().sslOptions(ssl).build());
    RedisURI uri =
        RedisURI.builder()
            .withHost("redis.example")
            .withPort(6380)
            .withSsl(true)
            .withAuthentication("app", System.getenv("REDIS_PASSWORD"))
            .build();
    Client client = new Client(uri, Settings.defaults().withDriver(driver));
    // end
    return client;
  }

  @Test
  void theReadmeShowsIt() throws IOException {
    String source = Files.readString(Path.of("src/test/java/rlock/client/TlsTest.java"));
    String statements = source.substring(source.indexOf("// begin"), source.indexOf("// end"));
    String readme = Files.readString(Path.of("README.md"));
    assertTrue(readme.contains("```java tls\n"));
    String shown = readme.substring(readme.indexOf("```java tls\n") + 12);
    shown = shown.substring(0, shown.indexOf("```"));
    assertEquals(
        statements.substring(8).strip().replaceAll("\\s+", " "),
        shown.strip().replaceAll("\\s+", " "));
  }
}
