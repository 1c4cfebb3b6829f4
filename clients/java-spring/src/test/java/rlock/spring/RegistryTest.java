package rlock.spring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lettuce.core.RedisClient;
import java.lang.ref.WeakReference;
import java.time.Duration;
import java.util.ConcurrentModificationException;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Lock;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.springframework.dao.CannotAcquireLockException;
import rlock.client.Client;
import rlock.client.Guard;
import rlock.client.RlockException.LockLost;
import rlock.client.RlockException.NotALock;
import rlock.client.RlockException.Unreachable;
import rlock.client.Settings;

/** The registry in Spring Integration 6 and 7. */
class RegistryTest {
  private static final String URL = System.getenv("REDIS_URL");
  private static Client client;
  private static Client another;
  private static RlockLockRegistry registry;
  private static RlockLockRegistry other;
  private final String key = UUID.randomUUID().toString();

  @BeforeAll
  static void connect() {
    client = new Client(URL);
    another = new Client(URL);
    registry = new RlockLockRegistry(client, "test");
    other = new RlockLockRegistry(another, "test");
  }

  @AfterAll
  static void close() {
    client.close();
    another.close();
  }

  private static <T> T inAnotherThread(Callable<T> work) throws Exception {
    CompletableFuture<T> result = new CompletableFuture<>();
    Thread thread =
        new Thread(
            () -> {
              try {
                result.complete(work.call());
              } catch (Exception | AssertionError error) {
                result.completeExceptionally(error);
              }
            });
    thread.start();
    return result.get(20, TimeUnit.SECONDS);
  }

  private static boolean locked(String key) {
    return client.lock("test:" + key).locked();
  }

  @Test
  void aLockExcludesOtherThreadsAndOtherProcesses() throws Exception {
    Lock lock = registry.obtain(key);
    lock.lock();
    assertFalse(other.obtain(key).tryLock());
    assertFalse(other.obtain(key).tryLock(20, TimeUnit.MILLISECONDS));
    assertFalse(inAnotherThread(() -> lock.tryLock()));
    lock.unlock();
    assertTrue(other.obtain(key).tryLock(5, TimeUnit.SECONDS));
    other.obtain(key).unlock();
    assertFalse(locked(key));
    assertThrows(UnsupportedOperationException.class, lock::newCondition);
    assertThrows(IllegalArgumentException.class, () -> registry.obtain(7));
  }

  @Test
  void aThreadLocksAgainByAnyView() {
    registry.obtain(key).lock();
    assertTrue(registry.obtain(key).tryLock());
    registry.obtain(key).unlock();
    assertTrue(locked(key));
    registry.obtain(key).unlock();
    assertFalse(locked(key));
    assertThrows(IllegalStateException.class, () -> registry.obtain(key).unlock());
  }

  @Test
  void aThreadUnlocksNoLockOfAnother() throws Exception {
    Lock lock = registry.obtain(key);
    lock.lock();
    Exception error =
        inAnotherThread(() -> assertThrows(IllegalStateException.class, lock::unlock));
    assertTrue(error.getMessage().contains(key), error.getMessage());
    assertTrue(locked(key));
    lock.unlock();
  }

  @Test
  void aLostLockIsAConcurrentModification() throws Exception {
    Lock lock = registry.obtain(key);
    lock.lock();
    assertTrue(client.lock("test:" + key).forceRelease());
    Guard next = another.lock("test:" + key).acquire();
    // The release finds out.
    assertThrows(ConcurrentModificationException.class, lock::unlock);
    assertTrue(locked(key));
    next.release();
    assertTrue(lock.tryLock());
    lock.unlock();
  }

  @Test
  void aLockIsRenewedUntilItsUnlock() throws Exception {
    try (Client brief = new Client(URL, Settings.defaults().withLease(Duration.ofMillis(400)))) {
      RlockLockRegistry briefly = new RlockLockRegistry(brief, "test");
      Lock lock = briefly.obtain(key);
      assertThrows(IllegalStateException.class, () -> briefly.renewLock(key));
      lock.lockInterruptibly();
      Thread.sleep(1_200);
      briefly.renewLock(key);
      assertFalse(other.obtain(key).tryLock());
      lock.unlock();
      assertThrows(IllegalStateException.class, () -> briefly.renewLock(key));
    }
  }

  /**
   * spring-integration#11146: the locks of two keys shared a local lock by the hashes of the keys;
   * a thread that held both released only the last one. #11180: two threads excluded each other.
   */
  @Test
  void locksOfKeysWithOneHashAreIndependent() throws Exception {
    String first = "Aa" + key;
    String second = "BB" + key;
    assertEquals(first.hashCode(), second.hashCode());
    registry.obtain(first).lock();
    registry.obtain(second).lock();
    registry.obtain(second).unlock();
    assertFalse(locked(second));
    assertTrue(
        inAnotherThread(
            () -> {
              boolean acquired = registry.obtain(second).tryLock();
              registry.obtain(second).unlock();
              return acquired;
            }));
    assertTrue(locked(first));
    registry.obtain(first).unlock();
    assertFalse(locked(first));
  }

  /**
   * spring-integration#10446: an unlock failed if its lock was renewed at that moment, and a
   * renewal could outlive the lock.
   */
  @Test
  void aRenewalDoesNotDisturbTheUnlock() throws Exception {
    try (Client brief = new Client(URL, Settings.defaults().withLease(Duration.ofMillis(300)))) {
      Lock lock = new RlockLockRegistry(brief, "test").obtain(key);
      for (int i = 0; i < 10; i++) {
        if (!lock.tryLock()) {
          throw new AssertionError("held after the unlock");
        }
        Thread.sleep(96 + i); // it is renewed after a third of the lease
        try {
          lock.unlock();
        } catch (ConcurrentModificationException late) {
          // Only if this process has not run for a lease.
          assertInstanceOf(LockLost.class, late.getCause());
        }
      }
      Thread.sleep(200);
      assertFalse(locked(key));
    }
  }

  /** spring-integration#11049: an interrupted thread, as one that stops, left its lock behind. */
  @Test
  void anInterruptedThreadUnlocks() {
    Lock lock = registry.obtain(key);
    lock.lock();
    Thread.currentThread().interrupt();
    lock.unlock();
    assertTrue(Thread.interrupted());
    assertFalse(locked(key));
  }

  /** spring-integration#11044: a registry grew with its keys, or forgot locks that were held. */
  @Test
  void theRegistryStoresNothing() throws InterruptedException {
    WeakReference<Lock> last = null;
    for (int i = 0; i < 20; i++) {
      Lock lock = registry.obtain(key + i);
      lock.lock();
      lock.unlock();
      last = new WeakReference<>(lock);
    }
    registry.expireUnusedOlderThan(0);
    for (int i = 0; i < 200 && last.get() != null; i++) {
      System.gc();
      Thread.sleep(20);
    }
    assertNull(last.get());
  }

  @Test
  void whatIsNoDenialIsAnException() {
    try (Client nowhere = new Client("redis://127.0.0.1:1")) {
      Lock lock = new RlockLockRegistry(nowhere, "test").obtain(key);
      Exception error = assertThrows(CannotAcquireLockException.class, lock::tryLock);
      assertInstanceOf(Unreachable.class, error.getCause());
    }
  }

  /** A RedisLockRegistry under the same registry key has a string there. */
  @Test
  void aLockOfARedisLockRegistryIsAnException() {
    var driver = RedisClient.create(URL);
    try (var connection = driver.connect()) {
      connection.sync().set("test:" + key, "its client id");
      Exception error =
          assertThrows(CannotAcquireLockException.class, () -> registry.obtain(key).tryLock());
      assertInstanceOf(NotALock.class, error.getCause());
    } finally {
      driver.shutdown(0, 2, TimeUnit.SECONDS);
    }
  }
}
