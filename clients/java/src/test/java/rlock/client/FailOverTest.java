package rlock.client;

import static java.util.concurrent.TimeUnit.SECONDS;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import rlock.client.Endpoint.Address;
import rlock.client.RlockException.Timeout;
import rlock.client.RlockException.Unreachable;
import rlock.client.Sentinels.Verdict;

/** The client follows the primary, and leaves a server that became a replica. */
@org.junit.jupiter.api.Timeout(120)
class FailOverTest {
  /** A Sentinel that missed the last fail-over named the old primary, which was believed. */
  @Test
  void aStaleSentinelIsOutvoted() {
    Address old = new Address("old", 1);
    Address now = new Address("now", 1);
    Verdict dead = new Verdict(old, null, 0, List.of(), new IllegalStateException("refused"));
    assertEquals(now, believed(0, at(old, 0), at(now, 1), at(old, 0)));
    assertEquals(now, believed(0, at(old, 0), at(now, 0), at(now, 0)));
    assertThrows(Unreachable.class, () -> believed(5, at(old, 4), dead, dead));
    assertEquals(now, believed(5, at(now, 0), at(now, 0), dead));
    assertEquals(now, believed(5, at(old, 4), at(now, 5), dead));
    assertThrows(Unreachable.class, () -> believed(0, dead, dead, dead));
  }

  private static Verdict at(Address primary, long epoch) {
    return new Verdict(new Address("sentinel", 1), primary, epoch, List.of(), null);
  }

  private static Address believed(long before, Verdict... all) {
    return Sentinels.believe("main", List.of(all), 3, before).primary();
  }

  /** The first wait opened the second connection at the new primary, and the first one stayed. */
  @Test
  void bothConnectionsAreAtTheSameServer() throws Exception {
    try (Server old = new Server();
        Server now = new Server();
        Teller teller = new Teller(old.port);
        Client client =
            new Client(
                "redis-sentinel://" + teller.address + "#main",
                Settings.defaults().withName("both"))) {
      client.lock("a").tryAcquire().release();
      teller.primary = now.port;
      teller.epoch = 1;
      Guard held = client.lock("a").acquire(Duration.ofSeconds(5));
      assertTrue(now.exists("a"));
      Server.until("both are there", () -> !old.serves("both"));
      held.release();
    }
  }

  /**
   * It said each second that there is another primary, and was too late when that one was sought.
   */
  @Test
  void aSentinelThatAnswersLateIsHeard() throws Exception {
    try (Server old = new Server();
        Server now = new Server();
        Teller one = new Teller(old.port);
        Teller two = new Teller(old.port);
        Teller three = new Teller(old.port)) {
      String url = String.join(",", one.address, two.address, three.address);
      Settings settings = Settings.defaults().withName("late").withLease(Duration.ofSeconds(6));
      Client client = new Client("redis-sentinel://" + url + "#main", settings);
      Guard held = client.lock("a").acquire();
      three.late = 400;
      three.primary = now.port;
      three.epoch = 1;
      Server.until("it is at the new one", () -> now.serves("late"));
      Server.pause(1_500);
      assertTrue(now.serves("late") && !old.serves("late"));
      assertThrows(RlockException.LockLost.class, held::release);
      client.close();
      for (Teller each : List.of(one, two, three)) {
        Server.until("no connection is left", () -> each.open.get() == 0);
      }
    }
  }

  /** The Sentinel named a replica for a moment, and the first acquisition failed. */
  @Test
  void aClientThatBeginsInAFailOverFindsThePrimary() throws Exception {
    try (Server old = new Server();
        Server now = new Server("--replicaof", "127.0.0.1", "" + old.port);
        Teller teller = new Teller(now.port);
        Client client = new Client("redis-sentinel://" + teller.address + "#main")) {
      var waits = client.lock("a").acquireAsync();
      Server.pause(2_000);
      assertFalse(waits.isDone());
      now.commands.replicaofNoOne();
      waits.get(5, SECONDS).release();
    }
  }

  /**
   * A heartbeat brought the news of a fail-over before any search had ended: the Sentinel that had
   * no news yet was not believed, and the first acquisition failed.
   */
  @Test
  void aClientThatHearsOfAFailOverBeforeItKnowsAPrimaryWaits() throws Exception {
    try (Server now = new Server();
        Teller stale = new Teller(1);
        Teller fresh = new Teller(now.port)) {
      fresh.epoch = 1;
      fresh.slow = 2_000;
      String url = "redis-sentinel://%s,%s#main".formatted(stale.address, fresh.address);
      try (Client client = new Client(url)) {
        var waits = client.lock("a").acquireAsync();
        Server.pause(1_500);
        assertFalse(waits.isDone());
        fresh.slow = 0;
        waits.get(10, SECONDS).release();
      }
    }
  }

  @Test
  void aWaitAtAReplicaSaysSo() throws Exception {
    try (Server server = new Server();
        Client client = new Client(server.url)) {
      client.lock("a").acquire().release();
      server.commands.replicaof("127.0.0.1", 1);
      Timeout error =
          assertThrows(Timeout.class, () -> client.lock("a").acquire(Duration.ofMillis(300)));
      assertInstanceOf(Unreachable.class, error.getCause());
      assertTrue(error.getMessage().contains("127.0.0.1:" + server.port), error.getMessage());
    }
  }
}
