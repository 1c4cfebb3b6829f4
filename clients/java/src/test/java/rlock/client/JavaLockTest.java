package rlock.client;

import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static java.util.concurrent.TimeUnit.SECONDS;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.ReadWriteLock;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import rlock.client.RlockException.Invalid;
import rlock.client.RlockException.LockLost;
import rlock.client.RlockException.OutcomeUnknown;
import rlock.client.RlockException.Refused;
import rlock.client.RlockException.Unreachable;

/** The view as a Java lock, as code that was written for Redisson uses it. */
@Timeout(60)
class JavaLockTest {
  private static Server server;
  private Client client;

  @BeforeAll
  static void start() {
    server = new Server();
  }

  @AfterAll
  static void stop() {
    server.close();
  }

  @BeforeEach
  void connect() {
    server.commands.flushall();
    client = new Client(server.url, Settings.defaults().withLease(Duration.ofSeconds(2)));
  }

  @AfterEach
  void close() {
    client.close();
  }

  /** In another thread, which ends with it. */
  private static <T> T elsewhere(Callable<T> work) {
    CompletableFuture<T> result = new CompletableFuture<>();
    new Thread(
            () -> {
              try {
                result.complete(work.call());
              } catch (Exception error) {
                result.completeExceptionally(error);
              }
            })
        .start();
    return result.join();
  }

  @Test
  void twoHandlesOfOneThreadReEnter() {
    client.javaLock("a").lock();
    assertTrue(client.javaLock("a").tryLock());
    assertEquals(2, client.javaLock("a").getHoldCount());
    assertFalse(elsewhere(() -> client.javaLock("a").tryLock()));
    client.javaLock("a").unlock();
    assertTrue(client.javaLock("a").isHeldByCurrentThread());
    assertTrue(client.javaLock("a").isLocked());
    client.javaLock("a").unlock();
    assertFalse(client.javaLock("a").isHeldByCurrentThread());
    assertEquals(0L, server.commands.exists("a"));
    assertTrue(elsewhere(() -> client.javaLock("a").tryLock()));
  }

  @Test
  void twoThreadsExcludeEachOtherAndTheReleaseHandsOn() throws Exception {
    JavaLock lock = client.javaLock("a");
    lock.lock();
    CompletableFuture<Boolean> other =
        CompletableFuture.supplyAsync(
            () -> {
              lock.lock();
              boolean held = lock.isHeldByCurrentThread();
              lock.unlock();
              return held;
            });
    Server.until("it waits", () -> server.waiters("a") == 1);
    assertFalse(elsewhere(() -> lock.tryLock(50, MILLISECONDS)));
    lock.unlock();
    assertTrue(other.get(10, SECONDS));
  }

  /** Not even a replica that may be written is a server for locks. */
  @Test
  void aReplicaIsNoServerForLocks() {
    try (Server replica = new Server()) {
      replica.commands.configSet("replica-read-only", "no");
      replica.commands.replicaof("127.0.0.1", 1);
      try (Client other = new Client(replica.url)) {
        assertThrows(Unreachable.class, () -> other.javaLock("a").lock());
        assertFalse(other.javaLock("a").isHeldByCurrentThread());
        assertThrows(Unreachable.class, () -> other.javaLock("a").tryLock());
      }
    }
  }

  @Test
  void anOwnerIsNeverUsedAgain() {
    JavaLock lock = client.javaLock("a");
    List<String> owners = new ArrayList<>();
    for (int i = 0; i < 2; i++) {
      lock.lock();
      owners.addAll(server.commands.hkeys("a"));
      lock.unlock();
    }
    assertEquals(2, owners.stream().distinct().count());
  }

  @Test
  void onlyTheHolderUnlocks() {
    JavaLock lock = client.javaLock("a");
    assertThrows(IllegalMonitorStateException.class, lock::unlock);
    lock.lock();
    CompletionException error =
        assertThrows(
            CompletionException.class,
            () ->
                elsewhere(
                    () -> {
                      lock.unlock();
                      return null;
                    }));
    assertInstanceOf(IllegalMonitorStateException.class, error.getCause());
    assertEquals(1L, server.commands.exists("a"));
    lock.unlock();
  }

  @Test
  void unlockOfALostLockSaysSo() {
    JavaLock lock = client.javaLock("a");
    lock.lock();
    lock.lock();
    server.force("a");
    Server.until("it is lost", () -> !alive(lock));
    IllegalMonitorStateException error =
        assertThrows(IllegalMonitorStateException.class, lock::unlock);
    assertEquals(LostReason.TAKEN, assertInstanceOf(LockLost.class, error.getCause()).why());
    assertThrows(IllegalMonitorStateException.class, lock::unlock);
    // The thread was told: it may lock anew.
    lock.lock();
    lock.unlock();
  }

  /** By the guard itself, which tells the thread nothing. */
  private boolean alive(JavaLock lock) {
    Holds.Hold hold =
        client.holds.of(new Holds.Key(Thread.currentThread(), lock.getName(), Wire.Mode.LOCK));
    return !hold.guard.lost().isDone();
  }

  @Test
  void reEntryIntoALostLockThrows() {
    JavaLock lock = client.javaLock("a");
    lock.lock();
    server.force("a");
    Server.until("it is lost", () -> !alive(lock));
    assertThrows(LockLost.class, lock::lock);
    assertFalse(lock.isHeldByCurrentThread());
    assertTrue(lock.tryLock());
    lock.unlock();
  }

  @Test
  void aThreadThatAsksWhetherItHoldsALostLockMayLockAnew() {
    JavaLock lock = client.javaLock("a");
    lock.lock();
    server.force("a");
    Server.until("it is lost", () -> !alive(lock));
    assertFalse(lock.isHeldByCurrentThread());
    lock.lock();
    assertEquals(1, lock.getHoldCount());
    lock.unlock();
  }

  @Test
  void aLeaseThatIsGivenEndsAndMinusOneRenews() throws Exception {
    JavaLock fixed = client.javaLock("fixed");
    JavaLock renewed = client.javaLock("renewed");
    assertTrue(fixed.tryLock(1, 1, SECONDS));
    assertTrue(renewed.tryLock(1, -1, SECONDS));
    assertTrue(fixed.remainTimeToLive() <= 1_000);
    Server.until("its lease ends", () -> !fixed.isHeldByCurrentThread());
    Server.pause(2_500);
    assertTrue(renewed.isHeldByCurrentThread());
    renewed.unlock();
    assertThrows(IllegalMonitorStateException.class, fixed::unlock);
  }

  @Test
  void aReEntryGetsTheLeaseThatItAsksFor() {
    JavaLock lock = client.javaLock("a");
    lock.lock(1, SECONDS);
    lock.lock(500, MILLISECONDS);
    assertTrue(lock.remainTimeToLive() <= 1_000);
    lock.lock(4, SECONDS);
    assertTrue(lock.remainTimeToLive() > 2_000);
    lock.lock();
    Server.pause(5_000);
    assertEquals(4, lock.getHoldCount());
    for (int i = 0; i < 4; i++) {
      lock.unlock();
    }
    assertFalse(lock.isLocked());
  }

  @Test
  void theLockOfADeadThreadIsNotRenewed() throws Exception {
    CountDownLatch locked = new CountDownLatch(1);
    Thread thread =
        new Thread(
            () -> {
              client.javaLock("a").lock();
              locked.countDown();
            });
    thread.start();
    locked.await();
    thread.join();
    long begin = System.nanoTime();
    assertTrue(client.javaLock("a").tryLock(10, SECONDS));
    assertTrue(System.nanoTime() - begin < SECONDS.toNanos(4));
    client.javaLock("a").unlock();
  }

  @Test
  void anInterruptionEndsOneWaitAndNotTheOther() throws Exception {
    JavaLock lock = client.javaLock("a");
    lock.lock();
    CompletableFuture<Object> interruptible = new CompletableFuture<>();
    CompletableFuture<Object> stubborn = new CompletableFuture<>();
    Thread one =
        new Thread(
            () -> {
              try {
                lock.lockInterruptibly();
              } catch (InterruptedException error) {
                interruptible.complete(error);
              }
            });
    Thread two =
        new Thread(
            () -> {
              lock.lock();
              boolean interrupted = Thread.interrupted();
              lock.unlock();
              stubborn.complete(interrupted);
            });
    one.start();
    two.start();
    Server.until("both wait", () -> server.waiters("a") == 2);
    one.interrupt();
    two.interrupt();
    assertInstanceOf(InterruptedException.class, interruptible.get(10, SECONDS));
    Server.until("one has left the queue", () -> server.waiters("a") == 1);
    lock.unlock();
    assertEquals(true, stubborn.get(10, SECONDS));
  }

  @Test
  void forceUnlockTakesIt() {
    JavaLock lock = client.javaLock("a");
    assertFalse(lock.forceUnlock());
    lock.lock();
    assertTrue(elsewhere(lock::forceUnlock));
    assertThrows(IllegalMonitorStateException.class, lock::unlock);
  }

  @Test
  void thereAreNoConditions() {
    assertThrows(UnsupportedOperationException.class, client.javaLock("a")::newCondition);
  }

  /** As in Redisson: a lease that is not positive is renewed. */
  @Test
  void leasesOfEachKind() throws Exception {
    JavaLock lock = client.javaLock("a");
    for (long lease : new long[] {0, -1, -2}) {
      lock.lock(lease, SECONDS);
      assertTrue(lock.tryLock(0, lease, SECONDS));
      assertEquals(2, lock.getHoldCount());
      assertTrue(lock.remainTimeToLive() > 1_000);
      lock.unlock();
      lock.unlock();
    }
    assertThrows(Invalid.class, () -> lock.lock(99, MILLISECONDS));
    JavaLock writer = client.readWriteLock("b").javaLock().writeLock();
    assertTrue(writer.tryLock(0, 5, SECONDS));
    writer.unlock();
    assertThrows(IllegalMonitorStateException.class, writer::getToken);
    JavaLock fenced = client.lock("c").fenced().javaLock();
    fenced.lock();
    long token = fenced.getToken();
    fenced.unlock();
    fenced.lock();
    assertTrue(fenced.getToken() > token && token > 0);
    fenced.unlock();
  }

  /** The deadline counted the longer lease of the outer call from the inner one on. */
  @Test
  void aLeaseIsNotBelievedToBeLongerThanItIs() throws Exception {
    JavaLock lock = client.javaLock("a");
    lock.lock(1_500, MILLISECONDS);
    Server.pause(1_000);
    lock.lock(600, MILLISECONDS);
    assertTrue(lock.remainTimeToLive() <= 600);
    Server.pause(650);
    assertFalse(lock.isHeldByCurrentThread());
    assertTrue(elsewhere(() -> lock.tryLock()));
  }

  @Test
  void aWriterReadsAndAReaderDoesNotWrite() {
    ReadWriteLock lock = client.readWriteLock("a").javaLock();
    lock.writeLock().lock();
    lock.readLock().lock();
    assertEquals(
        1, server.commands.hkeys("a").stream().filter(field -> field.endsWith(":write")).count());
    lock.writeLock().unlock();
    // Another reader may come, no writer.
    assertTrue(elsewhere(() -> client.readWriteLock("a").javaLock().readLock().tryLock()));
    assertFalse(lock.writeLock().tryLock());
    assertThrows(Refused.class, () -> lock.writeLock().tryLock(1, SECONDS));
    lock.readLock().unlock();
  }

  /**
   * A request that was not answered is cleaned up a second after the release: that ended the next
   * read hold of the same owner, while its `check` said that it was held.
   */
  @ParameterizedTest
  @ValueSource(strings = {"RENEW", "RELEASE"})
  void theNextReadHoldOfAWriterOutlivesTheEndOfTheOneBefore(String unanswered) throws Exception {
    // Longer than from one renewal to the next.
    Settings settings =
        Settings.defaults()
            .withLease(Duration.ofSeconds(2))
            .withResponseTimeout(Duration.ofMillis(1_500));
    try (Proxy proxy = new Proxy(server.port);
        Client cut = new Client("redis://" + proxy.address, settings)) {
      ReadWriteLock lock = cut.readWriteLock("a").javaLock();
      lock.writeLock().lock();
      lock.readLock().lock();
      proxy.silent = true;
      boolean release = unanswered.equals("RELEASE");
      if (release) {
        Thread.currentThread().interrupt();
        assertThrows(OutcomeUnknown.class, lock.readLock()::unlock);
        assertTrue(Thread.interrupted());
      }
      Pattern sent = Pattern.compile("RLOCK\\." + unanswered + ".*\nREAD\r", Pattern.DOTALL);
      Server.until("it was sent", () -> sent.matcher(proxy.swallowed).find());
      proxy.silent = false;
      proxy.cut();
      if (release) {
        Server.until("it was sent again", () -> server.readers("a") == 0);
      } else {
        lock.readLock().unlock();
      }
      lock.readLock().lock();
      lock.writeLock().unlock();
      Server.pause(1_200);
      assertEquals(1, ((JavaLock) lock.readLock()).getHoldCount());
      assertFalse(client.readWriteLock("a").javaLock().writeLock().tryLock());
      lock.readLock().unlock();
    }
  }

  @Test
  void manyThreadsCountToTheirNumber() throws Exception {
    count(Thread::new);
  }

  /** With a JDK that has them; check.sh runs the tests with one, where there is one. */
  @Test
  void manyVirtualThreadsCountToTheirNumber() throws Exception {
    ThreadFactory factory;
    try {
      Object builder = Thread.class.getMethod("ofVirtual").invoke(null);
      Class<?> type = Class.forName("java.lang.Thread$Builder");
      factory = (ThreadFactory) type.getMethod("factory").invoke(builder);
    } catch (NoSuchMethodException older) {
      return;
    }
    count(factory);
  }

  private void count(ThreadFactory factory) throws Exception {
    int[] count = {0};
    AtomicInteger inside = new AtomicInteger();
    AtomicInteger most = new AtomicInteger();
    List<Thread> threads = new ArrayList<>();
    for (int i = 0; i < 300; i++) {
      Thread thread =
          factory.newThread(
              () -> {
                JavaLock lock = client.javaLock("a");
                lock.lock();
                try {
                  most.accumulateAndGet(inside.incrementAndGet(), Math::max);
                  count[0]++;
                  inside.decrementAndGet();
                } finally {
                  lock.unlock();
                }
              });
      thread.start();
      threads.add(thread);
    }
    for (Thread thread : threads) {
      thread.join();
    }
    assertEquals(300, count[0]);
    assertEquals(1, most.get());
  }
}
