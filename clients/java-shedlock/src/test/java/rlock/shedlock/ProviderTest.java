package rlock.shedlock;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.lettuce.core.RedisClient;
import io.lettuce.core.SetArgs;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import net.javacrumbs.shedlock.core.DefaultLockingTaskExecutor;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockExtender;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.core.SimpleLock;
import org.junit.jupiter.api.Test;
import rlock.client.Client;
import rlock.client.RlockException.Invalid;
import rlock.client.RlockException.NotALock;
import rlock.client.RlockException.Unreachable;

/** What ShedLock's contract does not ask. */
class ProviderTest {
  private static final String URL = System.getenv("REDIS_URL");
  private final String name = UUID.randomUUID().toString();

  private static LockConfiguration config(String name, long atMostMs, long atLeastMs) {
    return new LockConfiguration(
        Instant.now(), name, Duration.ofMillis(atMostMs), Duration.ofMillis(atLeastMs));
  }

  /** A process that takes the lock and dies. */
  static final class Dying {
    public static void main(String[] arguments) {
      Optional<SimpleLock> lock =
          new RlockLockProvider(new Client(URL)).lock(config(arguments[0], 4_000, 1_000));
      Runtime.getRuntime().halt(lock.isPresent() ? 0 : 1);
    }
  }

  @Test
  void theLockOfADeadProcessEndsWithLockAtMostFor() throws Exception {
    Process process =
        new ProcessBuilder(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-XX:TieredStopAtLevel=1",
                "-cp",
                System.getProperty("java.class.path"),
                Dying.class.getName(),
                name)
            .inheritIO()
            .start();
    assertThat(process.waitFor(60, TimeUnit.SECONDS)).isTrue();
    assertThat(process.exitValue()).isZero();
    long dead = System.nanoTime();
    try (Client client = new Client(URL)) {
      LockProvider provider = new RlockLockProvider(client);
      Optional<SimpleLock> next = provider.lock(config(name, 4_000, 0));
      // It is held still, unless this process has slept for as long.
      assertThat(next.isEmpty() || System.nanoTime() - dead > TimeUnit.SECONDS.toNanos(3)).isTrue();
      while (next.isEmpty()) {
        assertThat(System.nanoTime() - dead).isLessThan(TimeUnit.SECONDS.toNanos(20));
        Thread.sleep(20);
        next = provider.lock(config(name, 4_000, 0));
      }
      next.get().unlock();
    }
  }

  @Test
  void lockAtLeastForOutlivesTheClient() {
    try (Client first = new Client(URL)) {
      new RlockLockProvider(first).lock(config(name, 60_000, 30_000)).orElseThrow().unlock();
    }
    try (Client second = new Client(URL)) {
      assertThat(new RlockLockProvider(second).lock(config(name, 60_000, 0))).isEmpty();
      long left = second.lock("job-lock:default:" + name).info().leaseMs();
      assertThat(left).isBetween(1L, 30_001L);
    }
  }

  @Test
  void aTaskExtendsItsLockAndNobodyElseGetsIt() {
    try (Client client = new Client(URL)) {
      LockProvider provider = new RlockLockProvider(client, "jobs:");
      new DefaultLockingTaskExecutor(provider)
          .executeWithLock(
              (Runnable)
                  () -> {
                    String owner = client.lock("jobs:" + name).info().holders().get(0).owner();
                    LockExtender.extendActiveLock(Duration.ofMinutes(10), Duration.ZERO);
                    var info = client.lock("jobs:" + name).info();
                    assertThat(info.holders()).hasSize(1);
                    assertThat(info.holders().get(0).owner()).isEqualTo(owner);
                    assertThat(info.leaseMs()).isGreaterThan(500_000);
                    assertThat(provider.lock(config(name, 1_000, 0))).isEmpty();
                  },
              config(name, 60_000, 0));
      assertThat(client.lock("jobs:" + name).locked()).isFalse();
    }
  }

  @Test
  void aTaskThatRanTooLongReleasesNobodysLock() throws InterruptedException {
    try (Client client = new Client(URL)) {
      LockProvider provider = new RlockLockProvider(client);
      SimpleLock late = provider.lock(config(name, 100, 0)).orElseThrow();
      Thread.sleep(200);
      SimpleLock next = provider.lock(config(name, 60_000, 0)).orElseThrow();
      late.unlock(); // logs
      assertThat(provider.lock(config(name, 60_000, 0))).isEmpty();
      next.unlock();
    }
  }

  /** Two providers during a roll-out: ShedLock's own for Redis has a string under the same key. */
  @Test
  void aLockOfShedLocksRedisProviderIsAnError() {
    String key = "job-lock:default:" + name;
    RedisClient driver = RedisClient.create(URL);
    try (Client client = new Client(URL);
        var connection = driver.connect()) {
      connection.sync().set(key, "ADDED:now@host", SetArgs.Builder.nx().px(60_000));
      LockProvider provider = new RlockLockProvider(client);
      assertThatThrownBy(() -> provider.lock(config(name, 60_000, 0))).isInstanceOf(NotALock.class);
      connection.sync().del(key);
      SimpleLock lock = provider.lock(config(name, 60_000, 0)).orElseThrow();
      assertThat(connection.sync().set(key, "ADDED:now@other", SetArgs.Builder.nx().px(60_000)))
          .isNull();
      lock.unlock();
    } finally {
      driver.shutdown(0, 2, TimeUnit.SECONDS);
    }
  }

  @Test
  void aServerThatDoesNotAnswerIsAnErrorAndNoDenial() {
    try (Client client = new Client("redis://127.0.0.1:1")) {
      LockProvider provider = new RlockLockProvider(client);
      assertThatThrownBy(() -> provider.lock(config(name, 60_000, 0)))
          .isInstanceOf(Unreachable.class);
      assertThatThrownBy(() -> provider.lock(config(name, 50, 0)))
          .isInstanceOf(Invalid.class)
          .hasMessageContaining("at least 100 ms");
    }
  }
}
