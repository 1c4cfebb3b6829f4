package rlock.spring;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ConcurrentModificationException;
import java.util.UUID;
import org.junit.jupiter.api.Test;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.ImportAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.context.annotation.Configuration;
import org.springframework.dao.CannotAcquireLockException;
import org.springframework.integration.support.locks.DistributedLock;
import org.springframework.integration.support.locks.LockRegistry;
import rlock.client.Client;

/** What Spring Integration 7 adds: times to live. */
class DistributedLockTest {
  private final String key = UUID.randomUUID().toString();

  /** An application. */
  @Configuration(proxyBeanMethods = false)
  @ImportAutoConfiguration(RlockAutoConfiguration.class)
  static class Application {
    final LockRegistry<DistributedLock> locks;

    Application(LockRegistry<DistributedLock> locks) {
      this.locks = locks;
    }
  }

  @Test
  void aTimeToLiveIsNotRenewedUnlessAsked() throws InterruptedException {
    try (var context =
        new SpringApplicationBuilder(Application.class)
            .web(WebApplicationType.NONE)
            .properties("spring.data.redis.url=" + System.getenv("REDIS_URL"))
            .run()) {
      var locks = context.getBean(Application.class).locks;
      var registry = context.getBean(RlockLockRegistry.class);
      var server = context.getBean(Client.class).lock("locks:" + key);

      DistributedLock lock = locks.obtain(key);
      lock.lock(Duration.ofMillis(150));
      Thread.sleep(300);
      assertFalse(server.locked());
      assertThrows(ConcurrentModificationException.class, lock::unlock);

      // Not renewed for ever.
      assertThrows(CannotAcquireLockException.class, () -> lock.lock(Duration.ZERO));

      assertTrue(lock.tryLock(Duration.ofSeconds(1), Duration.ofSeconds(20)));
      registry.renewLock(key, Duration.ofMinutes(10));
      assertTrue(server.info().leaseMs() > 500_000);
      lock.unlock();
      assertFalse(server.locked());
      assertThrows(
          IllegalStateException.class, () -> registry.renewLock(key, Duration.ofMinutes(10)));
    }
  }
}
