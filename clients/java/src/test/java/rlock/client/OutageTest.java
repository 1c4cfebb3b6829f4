package rlock.client;

import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static java.util.concurrent.TimeUnit.SECONDS;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lettuce.core.ScriptOutputType;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import rlock.client.RlockException.LockLost;
import rlock.client.RlockException.OutcomeUnknown;
import rlock.client.RlockException.Timeout;
import rlock.client.RlockException.Unflushed;
import rlock.client.RlockException.Unreachable;

/** The caller's own limit wins, and an outage is no other holder. */
@org.junit.jupiter.api.Timeout(60)
class OutageTest {
  private static <X extends Throwable> X within(long ms, Class<X> wanted, Executable call) {
    long began = System.nanoTime();
    X error = assertThrows(wanted, call);
    long took = (System.nanoTime() - began) / 1_000_000;
    assertTrue(took < ms + 400, "took " + took + " ms of " + ms + ": " + error);
    return error;
  }

  private static void names(String server, Throwable error) {
    Throwable cause = error instanceof Unreachable ? error : error.getCause();
    assertInstanceOf(Unreachable.class, cause, error.toString());
    assertTrue(error.getMessage().contains(server), error.getMessage());
  }

  /** Unlocking took the rest of the lease, asking once 10 s, and tryLock answered false. */
  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void eachCallEndsInTime(boolean silent) throws Exception {
    try (Server server = new Server();
        Proxy proxy = new Proxy(server.port)) {
      Client client = new Client("redis://" + proxy.address);
      NamedLock lock = client.lock("a");
      List<Guard> held = List.of(client.lock("0").acquire(), client.lock("1").acquire());
      Guard last = client.lock("last").acquire();
      JavaLock java = client.javaLock("java");
      assertTrue(java.tryLock());
      proxy.refusing = !silent;
      proxy.silent = silent;
      if (!silent) {
        proxy.cut();
      }
      names(proxy.address, within(2_000, OutcomeUnknown.class, held.get(0)::release));
      JavaLock other = client.javaLock("a");
      names(proxy.address, within(1_000, Timeout.class, () -> other.tryLock(1, SECONDS)));
      names(proxy.address, within(300, Timeout.class, () -> other.tryLock(300, MILLISECONDS)));
      names(proxy.address, within(2_000, Unreachable.class, other::tryLock));
      Thread.currentThread().interrupt();
      within(0, OutcomeUnknown.class, held.get(1)::close);
      within(0, OutcomeUnknown.class, java::unlock);
      assertInstanceOf(
          InterruptedException.class, within(0, Unreachable.class, lock::info).getCause());
      assertTrue(Thread.interrupted());
      // The releases go on in the background, and the held lock is renewed.
      proxy.refusing = false;
      proxy.silent = false;
      proxy.cut();
      Server.until(
          "released", () -> !server.exists("0") && !server.exists("1") && !server.exists("java"));
      assertTrue(server.exists("last"));
      proxy.refusing = true;
      proxy.cut();
      last.lost().thenRun(last::releaseAsync);
      within(3_000, Unflushed.class, client::close);
    }
  }

  @Test
  void aShortLeaseHasTimeToConnect() throws Exception {
    Settings settings = Settings.defaults().withLease(Duration.ofMillis(300));
    try (Server server = new Server();
        Proxy proxy = new Proxy(server.port);
        Client client = new Client("redis://" + proxy.address, settings)) {
      client.lock("b").acquire().release();
      proxy.refusing = true;
      proxy.cut();
      Thread later =
          new Thread(
              () -> {
                Server.pause(700);
                proxy.refusing = false;
              });
      later.start();
      client.lock("a").tryAcquire().release();
      later.join();
    }
  }

  /** They had the 2 s of an answer, which a first connection may take longer than. */
  @Test
  void questionsWaitForTheFirstConnection() throws Exception {
    List<Consumer<NamedLock>> questions =
        List.of(NamedLock::info, NamedLock::locked, NamedLock::forceRelease);
    try (Server server = new Server()) {
      CompletableFuture<Object> busy =
          CompletableFuture.supplyAsync(
              () ->
                  server.commands.eval(
                      "local function now() local t = redis.call('TIME') return t[1] + t[2] / 1e6 end "
                          + "local over = now() + 2.5 while now() < over do end",
                      ScriptOutputType.VALUE));
      Server.pause(100);
      List<CompletableFuture<Void>> asked = new ArrayList<>();
      for (Consumer<NamedLock> question : questions) {
        asked.add(
            CompletableFuture.runAsync(
                () -> {
                  try (Client client = new Client(server.url)) {
                    question.accept(client.lock("a"));
                  }
                }));
      }
      busy.join();
      asked.forEach(CompletableFuture::join);
    }
  }

  @Test
  void whatALossSays() throws Exception {
    try (Server server = new Server();
        Client client = new Client(server.url)) {
      Guard held = client.lock("a").withLease(Duration.ofMillis(200)).withoutRenewal().acquire();
      held.lost().join();
      String text = assertThrows(LockLost.class, held::release).getMessage();
      assertFalse(text.contains("unreachable"), text);
      Guard other = client.lock("b").acquire();
      other.release();
      LockLost again = assertThrows(LockLost.class, other::release);
      assertEquals(LostReason.RELEASED, again.why());
      assertFalse(again.getMessage().contains("results"), again.getMessage());
    }
  }
}
