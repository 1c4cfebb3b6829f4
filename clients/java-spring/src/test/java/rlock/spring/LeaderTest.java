package rlock.spring;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.Test;
import org.springframework.integration.leader.Context;
import org.springframework.integration.leader.DefaultCandidate;
import org.springframework.integration.support.leader.LockRegistryLeaderInitiator;
import rlock.client.Client;
import rlock.client.Settings;

/** Spring's own leader election. */
class LeaderTest {
  private final String role = UUID.randomUUID().toString();
  private final AtomicInteger revoked = new AtomicInteger();

  private LockRegistryLeaderInitiator candidate(Client client) {
    var initiator =
        new LockRegistryLeaderInitiator(
            new RlockLockRegistry(client, "test"),
            new DefaultCandidate(null, role) {
              @Override
              public void onRevoked(Context context) {
                revoked.incrementAndGet();
              }
            });
    initiator.setHeartBeatMillis(50);
    initiator.setBusyWaitMillis(10);
    initiator.setApplicationEventPublisher(event -> {});
    initiator.start();
    return initiator;
  }

  private static void until(String what, BooleanSupplier holds) throws InterruptedException {
    long began = System.nanoTime();
    while (!holds.getAsBoolean()) {
      assertTrue(System.nanoTime() - began < 20_000_000_000L, "not within 20 s: " + what);
      Thread.sleep(5);
    }
  }

  @Test
  void oneLeadsAndTheNextFollows() throws InterruptedException {
    String url = System.getenv("REDIS_URL");
    try (Client one = new Client(url);
        Client two = new Client(url)) {
      var first = candidate(one);
      until("the first leads", () -> first.getContext().isLeader());
      var second = candidate(two);
      Thread.sleep(200);
      assertFalse(second.getContext().isLeader());

      first.stop();
      until("the second leads", () -> second.getContext().isLeader());
      assertFalse(first.getContext().isLeader());
      second.stop();
      until("both are revoked", () -> revoked.get() == 2);
      until("the lock is free", () -> !one.lock("test:" + role).locked());
    }
  }

  /**
   * Spring asks at each heartbeat; a leader that has lost its lock is revoked, not leader again.
   */
  @Test
  void aLeaderWithoutItsLockIsRevoked() throws InterruptedException {
    try (Client client =
        new Client(
            System.getenv("REDIS_URL"), Settings.defaults().withLease(Duration.ofMillis(600)))) {
      var initiator = candidate(client);
      until("it leads", () -> initiator.getContext().isLeader());
      client.lock("test:" + role).forceRelease();
      until("it is revoked", () -> revoked.get() > 0);
      until("it leads again", () -> initiator.getContext().isLeader());
      initiator.stop();
    }
  }
}
