package rlock.shedlock;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import java.util.Optional;
import net.javacrumbs.shedlock.core.ExtensibleLockProvider;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.test.support.AbstractExtensibleLockProviderIntegrationTest;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import rlock.client.Client;
import rlock.client.RlockException.Unflushed;

/**
 * ShedLock's own contract. Two of its tests have leases of 50 and 2 ms; here these are 200 and 100,
 * the shortest that the client takes.
 */
class ContractTest extends AbstractExtensibleLockProviderIntegrationTest {
  private static Client client;

  @BeforeAll
  static void connect() {
    client = new Client(System.getenv("REDIS_URL"));
  }

  @AfterAll
  static void close() {
    try {
      client.close(Duration.ZERO);
    } catch (Unflushed kept) {
      // Some of its tests leave their locks held.
    }
  }

  @Override
  protected ExtensibleLockProvider getLockProvider() {
    return new RlockLockProvider(client);
  }

  @Override
  protected void assertUnlocked(String name) {
    assertThat(locked(name)).isFalse();
  }

  @Override
  protected void assertLocked(String name) {
    assertThat(locked(name)).isTrue();
  }

  private static boolean locked(String name) {
    return client.lock("job-lock:default:" + name).locked();
  }

  @Override
  @Test
  public void shouldTimeout() throws InterruptedException {
    Duration atMost = Duration.ofMillis(200);
    Optional<SimpleLock> first = getLockProvider().lock(lockConfig(LOCK_NAME1, atMost, atMost));
    assertThat(first).isPresent();
    sleepFor(atMost.multipliedBy(2));
    assertUnlocked(LOCK_NAME1);
    assertThat(getLockProvider().lock(lockConfig(LOCK_NAME1, atMost, Duration.ZERO))).isPresent();
  }

  @Override
  @Test
  public void shouldNotBeAbleToExtendExpiredLock() {
    Duration atMost = Duration.ofMillis(100);
    Optional<SimpleLock> lock =
        getLockProvider().lock(lockConfig(LOCK_NAME1, atMost, Duration.ZERO));
    assertThat(lock).isPresent();
    sleepFor(atMost.multipliedBy(2));
    assertThat(lock.get().extend(Duration.ofSeconds(10), Duration.ZERO)).isEmpty();
    assertUnlocked(LOCK_NAME1);
  }
}
