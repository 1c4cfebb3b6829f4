package rlock.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lettuce.core.KillArgs;
import io.lettuce.core.cluster.SlotHash;
import java.io.IOException;
import java.net.ServerSocket;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import rlock.client.RlockException.LockLost;
import rlock.client.RlockException.Permission;
import rlock.client.RlockException.Unreachable;

/** What the conformance suite cannot show of slots that move. */
@org.junit.jupiter.api.Timeout(120)
class MovesTest {
  private static final String LOCK = "b";
  private static final String SLOT = "" + SlotHash.getSlot(LOCK);
  private static final long GRACE_MS = 900;
  private static final long LONG_GRACE_MS = 3_000;

  /** A node of a cluster. */
  private static final class Node implements AutoCloseable {
    final String bus = "" + free();
    final Server server = new Server("--cluster-enabled", "yes", "--cluster-port", bus);
    final String id = server.commands.clusterMyId();

    // The usual port of the bus, 10,000 above the server's, may be no port.
    private static int free() {
      try (ServerSocket free = new ServerSocket(0)) {
        return free.getLocalPort();
      } catch (IOException error) {
        throw new IllegalStateException(error);
      }
    }

    private void run(Object wanted, String... words) {
      Object reply = server.ask(words);
      assertEquals(wanted, reply instanceof byte[] ? Wire.text(reply) : reply);
    }

    /** Ends the connection of the client's commands. */
    private void endConnection() {
      Matcher line = Pattern.compile("id=(\\d+) .* name=rlock-client@").matcher("");
      line.reset(server.commands.clientList());
      assertTrue(line.find());
      server.commands.clientKill(KillArgs.Builder.id(Long.parseLong(line.group(1))));
    }

    @Override
    public void close() {
      server.close();
    }
  }

  /** Two nodes; the first one has all slots. */
  private static void join(Node from, Node to) {
    from.run("OK", "CLUSTER", "ADDSLOTSRANGE", "0", "16383");
    from.run("OK", "CLUSTER", "MEET", "127.0.0.1", "" + to.server.port, to.bus);
    for (Node each : List.of(from, to)) {
      Server.until("a cluster", () -> each.server.commands.clusterInfo().contains("state:ok"));
    }
  }

  /** Two nodes; the second one gives this address in place of its own. */
  private static void join(Node from, Node to, Proxy proxy) {
    String port = proxy.address.split(":")[1];
    to.run("OK", "CONFIG", "SET", "cluster-announce-port", port);
    join(from, to);
    Server.until("its port", () -> from.server.commands.clusterNodes().contains(":" + port));
  }

  /** The lock is at the next server, which does not have its slot yet. */
  private static void moveHalfWay(Node from, Node to) {
    to.run("OK", "CLUSTER", "SETSLOT", SLOT, "IMPORTING", from.id);
    from.run("OK", "CLUSTER", "SETSLOT", SLOT, "MIGRATING", to.id);
    from.run("OK", "MIGRATE", "127.0.0.1", "" + to.server.port, LOCK, "0", "10000");
  }

  /** The next server does not get it. */
  private static void moveBack(Node from, Node to) {
    from.run("OK", "CLUSTER", "SETSLOT", SLOT, "STABLE");
    to.run("OK", "MIGRATE", "127.0.0.1", "" + from.server.port, LOCK, "0", "10000");
  }

  /**
   * A re-entry tied the hold to a connection of the next server, whose end went unnoticed: the hold
   * had no session there until its next renewal.
   */
  @Test
  void theEndOfAConnectionToTheNextServerTiesASessionAnew() throws Exception {
    try (Node from = new Node();
        Node to = new Node()) {
      join(from, to);
      String url = "redis+cluster://127.0.0.1:" + from.server.port;
      try (Client client = new Client(url)) {
        NamedLock lock = client.lock(LOCK).withSessionGrace(Duration.ofMillis(GRACE_MS));
        Guard guard = lock.acquire();
        moveHalfWay(from, to);
        Guard inner = guard.reenter();
        for (int i = 0; i < 2; i++) {
          to.endConnection();
          Server.pause(2 * GRACE_MS);
          guard.check();
          assertTrue(to.server.commands.info("everything").contains("rlock_ties:1\r"));
        }
        inner.release();
        guard.release();
        to.run(0L, "EXISTS", LOCK);
      }
    }
  }

  /**
   * No server had named the slot, so that the hold was asked for at the first seed; and that became
   * another one when the next server was out of reach. The hold left the link that proved it, and
   * was lost.
   */
  @Test
  void aNextServerThatIsOutOfReachTakesNoHoldAlong() throws Exception {
    try (Node from = new Node();
        Node to = new Node()) {
      join(from, to);
      String url = "redis+cluster://127.0.0.1:%d,127.0.0.1:%d";
      Settings settings = Settings.defaults().withResponseTimeout(Duration.ofMillis(500));
      try (Client client = new Client(url.formatted(from.server.port, to.server.port), settings)) {
        NamedLock lock = client.lock(LOCK).withSessionGrace(Duration.ofMillis(GRACE_MS));
        Guard guard = lock.acquire();
        moveHalfWay(from, to);
        // Its answers stop, also those to new connections: the first one is given up after 1 s.
        to.server.commands.clientPause(4 * GRACE_MS);
        assertThrows(Unreachable.class, guard::reenter);
        Server.pause(3 * GRACE_MS);
        guard.check();
        Server.until("a connection", () -> to.server.serves("rlock-client"));
        guard.reenter().release();
        guard.release();
        to.run(0L, "EXISTS", LOCK);
      }
    }
  }

  /**
   * The next server refused a re-entry, and the hold went on by its heartbeats: when the old server
   * answered nothing any more, and could end the session, the client still took the lock for held.
   */
  @Test
  void theHeartbeatsOfAServerThatRefusesProveNothing() throws Exception {
    try (Node from = new Node();
        Node to = new Node();
        Proxy proxy = new Proxy(from.server.port)) {
      join(from, to);
      try (Client client = new Client("redis+cluster://" + proxy.address)) {
        NamedLock lock = client.lock(LOCK).withSessionGrace(Duration.ofMillis(LONG_GRACE_MS));
        Guard guard = lock.tryAcquire();
        moveHalfWay(from, to);
        to.run("OK", "ACL", "SETUSER", "default", "-rlock.acquire");
        assertThrows(Permission.class, guard::reenter);
        Server.pause(LONG_GRACE_MS);
        guard.check();
        moveBack(from, to);
        proxy.mute = true;
        CompletableFuture.runAsync(guard::reenter);
        Server.until("a re-entry", () -> holds(from, "2"));
        Server.pause(LONG_GRACE_MS);
        assertThrows(LockLost.class, guard::check);
      }
    }
  }

  /** A re-entry that the next server does not answer may have tied the hold to it. */
  @Test
  void theOldServerProvesNothingAfterAReEntryAtTheNext() throws Exception {
    try (Node from = new Node();
        Node to = new Node();
        Proxy proxy = new Proxy(to.server.port)) {
      join(from, to, proxy);
      try (Client client = new Client("redis+cluster://127.0.0.1:" + from.server.port)) {
        NamedLock lock = client.lock(LOCK).withSessionGrace(Duration.ofMillis(LONG_GRACE_MS));
        Guard guard = lock.tryAcquire();
        moveHalfWay(from, to);
        assertEquals(1, lock.info().holders().size());
        proxy.mute = true;
        CompletableFuture.runAsync(guard::reenter);
        Server.until("a re-entry", () -> holds(to, "2"));
        Server.pause(LONG_GRACE_MS);
        assertThrows(LockLost.class, guard::check);
      }
    }
  }

  /**
   * The client had two connections to one server, by two addresses. The younger one, which had tied
   * the session, ended, and the server did not know it yet: it answered a RENEW by the older one
   * with 1, and moved no tie to it. The session ended with the younger connection then, and the
   * client held the lock by the heartbeats of the older one.
   */
  @Test
  void aSessionMovesToNoOlderConnection() throws Exception {
    try (Node from = new Node();
        Node to = new Node();
        Proxy proxy = new Proxy(to.server.port)) {
      join(from, to, proxy);
      try (Client client = new Client("redis+cluster://127.0.0.1:" + to.server.port)) {
        NamedLock lock = client.lock(LOCK).withSessionGrace(Duration.ofMillis(LONG_GRACE_MS));
        Guard guard = lock.tryAcquire();
        moveHalfWay(from, to);
        to.run("OK", "CLUSTER", "SETSLOT", SLOT, "NODE", to.id);
        from.run("OK", "CLUSTER", "SETSLOT", SLOT, "NODE", to.id);
        Guard inner = guard.reenter();
        proxy.cutClients();
        Server.pause(1_000);
        proxy.cut();
        Server.pause(LONG_GRACE_MS + 1_000);
        guard.check();
        inner.release();
        guard.release();
      }
    }
  }

  private static boolean holds(Node at, String holds) {
    return at.server.ask("HVALS", LOCK) instanceof List<?> all
        && all.stream().map(Wire::text).toList().equals(List.of(holds));
  }
}
