package rlock.client;

import static java.util.concurrent.TimeUnit.SECONDS;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import java.time.Duration;
import java.util.List;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import rlock.client.RlockException.Closed;
import rlock.client.RlockException.Denied;
import rlock.client.RlockException.Invalid;
import rlock.client.RlockException.LockLost;
import rlock.client.RlockException.ModuleMissing;
import rlock.client.RlockException.Timeout;
import rlock.client.RlockException.Unflushed;
import rlock.client.RlockException.Unreachable;

/** Guards and futures; the conformance suite has the rest. */
@org.junit.jupiter.api.Timeout(60)
class LocksTest {
  private static Server server;

  @BeforeAll
  static void start() {
    server = new Server();
  }

  @AfterAll
  static void stop() {
    server.close();
  }

  @BeforeEach
  void empty() {
    server.commands.flushall();
  }

  private static Client client() {
    return new Client(server.url, Settings.defaults().withLease(Duration.ofSeconds(2)));
  }

  @Test
  void aBlockWhoseLockWasLostThrows() {
    try (Client client = client()) {
      LockLost lost =
          assertThrows(
              LockLost.class,
              () ->
                  client
                      .lock("a")
                      .run(
                          held -> {
                            server.force("a");
                            assertEquals(LostReason.TAKEN, held.lost().join());
                          }));
      assertEquals(LostReason.TAKEN, lost.why());
      // Unless another exception is on its way.
      IllegalStateException own =
          assertThrows(
              IllegalStateException.class,
              () ->
                  client
                      .lock("a")
                      .run(
                          held -> {
                            server.force("a");
                            held.lost().join();
                            throw new IllegalStateException("own");
                          }));
      assertInstanceOf(LockLost.class, own.getSuppressed()[0]);
    }
  }

  @Test
  void anOwnerNamesItsProcess() throws Exception {
    Settings settings = Settings.defaults().withName("other app/1");
    try (Client client = new Client(server.url, settings);
        Guard held = client.lock("a").acquire()) {
      long process = ProcessHandle.current().pid();
      String form = "other_app_1@[\\w.-]+:" + process + ":[0-9a-f]{32}:\\d+";
      assertTrue(held.owner().matches(form), held.owner());
      assertEquals(held.owner(), client.lock("a").info().holders().get(0).owner());
    }
  }

  @Test
  void aCancelledFutureLeavesNothing() throws Exception {
    try (Client client = client()) {
      Guard held = client.lock("a").acquire();
      // At the same moment as the grant.
      for (int i = 0; i < 50; i++) {
        CompletableFuture<Guard> next = client.lock("a").acquireAsync();
        CompletableFuture<Void> released = held.releaseAsync();
        released.join();
        if (!next.cancel(true)) {
          // The grant was faster.
          next.join().release();
        }
        held = client.lock("a").acquire(Duration.ofSeconds(5));
      }
      held.release();
      assertEquals(0L, server.commands.exists("a"));
    }
  }

  @Test
  void severalLocksAreGivenBackTogether() throws Exception {
    try (Client client = client()) {
      LockAll all = client.lockAll(List.of("c", "a", "b", "a"));
      AllGuard held = all.acquire();
      held.close();
      held.close();
      assertThrows(LockLost.class, held::release);
      assertEquals(0L, server.commands.exists("a", "b", "c"));

      Guard other = client.lock("b").acquire();
      Timeout late = assertThrows(Timeout.class, () -> all.acquire(Duration.ofMillis(200)));
      assertTrue(late.getMessage().startsWith("the lock b was not acquired within 2"));
      FutureTask<AllGuard> waits = new FutureTask<>(all::acquire);
      Thread thread = new Thread(waits);
      thread.start();
      Server.until("it waits with the lock before", () -> server.waiters("b") == 1);
      assertEquals(1L, server.commands.exists("a", "c"));
      thread.interrupt();
      Server.until("it has left", () -> server.waiters("b") == 0);
      Server.until("nothing is kept", () -> server.commands.exists("a", "c") == 0);
      other.release();
    }
  }

  @Test
  void aFutureThatBlocksStopsNoRenewals() throws Exception {
    try (Client client = client()) {
      CompletableFuture<Boolean> kept =
          client
              .lock("a")
              .acquireAsync()
              .thenApply(
                  held -> {
                    Server.pause(5_000);
                    held.check();
                    held.release();
                    return true;
                  });
      assertTrue(kept.get(20, SECONDS));
    }
  }

  @Test
  void aReceiverThatFailsOrBlocksStopsNoRenewals() throws Exception {
    Settings settings =
        Settings.defaults()
            .withLease(Duration.ofSeconds(1))
            .withOnEvent(
                event -> {
                  Server.pause(event.kind() == Event.Kind.RENEWED ? 3_000 : 0);
                  throw new IllegalStateException("a receiver that fails");
                });
    try (Client client = new Client(server.url, settings);
        Guard held = client.lock("a").acquire()) {
      Server.pause(4_000);
      held.check();
    }
  }

  /** The events that a receiver had not received yet were kept without a limit. */
  @Test
  void aReceiverThatBlocksDelaysNoLossAndFillsNoMemory() throws Exception {
    CountDownLatch goOn = new CountDownLatch(1);
    Queue<Event> events = new ConcurrentLinkedQueue<>();
    Settings settings =
        Settings.defaults()
            .withLease(Duration.ofSeconds(1))
            .withOnEvent(
                event -> {
                  try {
                    goOn.await();
                  } catch (InterruptedException end) {
                    Thread.currentThread().interrupt();
                  }
                  events.add(event);
                });
    try (Client client = new Client(server.url, settings)) {
      Guard held = client.lock("a").acquire();
      for (int number = 0; number < 1_500; number++) {
        assertThrows(Denied.class, client.lock("a")::tryAcquire);
      }
      server.force("a");
      assertEquals(LostReason.TAKEN, held.lost().get(20, SECONDS));
      goOn.countDown();
    }
    int dropped = events.stream().mapToInt(Event::dropped).sum();
    // One more was on its way to the receiver, and the loss may be told a little later than it is
    // known.
    assertTrue(
        events.size() <= 1_002 && events.size() + dropped >= 1_502, events.size() + " " + dropped);
    assertEquals(Event.Kind.ACQUIRED, events.peek().kind());
    assertEquals(Event.Kind.LOST, events.stream().reduce((one, next) -> next).get().kind());
  }

  /** The server refused the name after SUBSCRIBE. */
  @Test
  void theSubscriptionHasTheNameToo() throws Exception {
    Settings settings = Settings.defaults().withName("named");
    try (Client client = new Client(server.url, settings);
        Guard held = client.lock("a").acquire()) {
      CompletableFuture<Guard> waits = client.lock("a").acquireAsync();
      Server.until("it waits", () -> server.waiters("a") == 1);
      List<String> named =
          server
              .commands
              .clientList()
              .lines()
              .filter(line -> line.contains(" name=named@"))
              .toList();
      assertEquals(2, named.size(), named.toString());
      assertEquals(1, named.stream().filter(line -> line.contains(" sub=1 ")).count());
      held.release();
      waits.get(20, SECONDS).release();
    }
  }

  @Test
  void aGuardThatWasReleasedIsOver() throws Exception {
    try (Client client = client()) {
      Guard held = client.lock("a").acquire();
      held.release();
      assertEquals(LostReason.RELEASED, assertThrows(LockLost.class, held::check).why());
      assertThrows(LockLost.class, held::release);
      held.close();
      assertFalse(held.lost().isDone());
    }
  }

  @Test
  void aNamedOwnerWaitsForTwoLocks() throws Exception {
    try (Client client = client()) {
      Guard a = client.lock("a").acquire();
      Guard b = client.lock("b").acquire();
      CompletableFuture<Guard> forA = client.lock("a").withOwner("me").acquireAsync();
      CompletableFuture<Guard> forB = client.lock("b").withOwner("me").acquireAsync();
      Server.until("both wait", () -> server.waiters("a") + server.waiters("b") == 2);
      b.release();
      forB.get(900, TimeUnit.MILLISECONDS).release(); // by the message, not by a repeat
      assertFalse(forA.isDone());
      a.release();
      forA.get(900, TimeUnit.MILLISECONDS).release();
    }
  }

  /** The clean-up of a downgrade without an answer ended the hold of the next one. */
  @Test
  void aRepeatedDowngradeOutlivesTheOneBefore() throws Exception {
    try (Proxy proxy = new Proxy(server.port);
        Client client = new Client("redis://" + proxy.address)) {
      WriteGuard writer = client.readWriteLock("a").write().acquire();
      proxy.silent = true;
      assertThrows(Unreachable.class, writer::downgrade);
      proxy.silent = false;
      proxy.cut();
      Guard[] reader = {null};
      Server.until(
          "it reads",
          () -> {
            try {
              reader[0] = writer.downgrade();
            } catch (Denied | Unreachable notYet) {
              return false;
            }
            return true;
          });
      Server.pause(1_500);
      reader[0].check();
      assertEquals(1, server.readers("a"));
      reader[0].release();
    }
  }

  /** The write side was kept for at-least: no other reader came in. */
  @Test
  void aDowngradeLetsOtherReadersIn() throws Exception {
    try (Client client = client()) {
      NamedReadWriteLock both = client.readWriteLock("a");
      Duration least = Duration.ofMillis(1_500);
      WriteGuard writer =
          both.write().withAtLeast(least).withMaxHold(Duration.ofSeconds(60)).acquire();
      long acquired = System.nanoTime();
      Server.pause(300);
      Guard reader = writer.downgrade();
      both.read().tryAcquire().release();
      assertTrue(reader.one.plan().atLeast <= 1_200 * Machine.MS);
      assertTrue(reader.one.plan().maxHold <= SECONDS.toNanos(60) - 300 * Machine.MS);
      // The reader has what is left of both times, and no more.
      reader.release();
      assertThrows(Denied.class, () -> both.write().tryAcquire());
      both.write().acquire().release();
      long took = (System.nanoTime() - acquired) / Machine.MS;
      assertTrue(took >= 1_490, took + " ms");
    }
  }

  private static <T> T inside(Client client, Callable<T> work) {
    FutureTask<T> task = new FutureTask<>(work);
    client.engine.post(task);
    try {
      return task.get(10, SECONDS);
    } catch (Exception error) {
      throw new IllegalStateException(error);
    }
  }

  /** Links to nodes of a cluster that had left it were kept, and tried to connect for ever. */
  @Test
  void aNodeThatHasLeftIsForgotten() throws Exception {
    try (Proxy proxy = new Proxy(server.port);
        Client client = new Client(server.url.replace("redis:", "redis+cluster:"))) {
      client.lock("a").acquire().release();
      Engine engine = client.engine;
      int before = engine.all.size();
      Endpoint.Address node =
          new Endpoint.Address("127.0.0.1", Integer.parseInt(proxy.address.split(":")[1]));
      Commands link =
          inside(
              client,
              () -> {
                engine.endpoint.know(node);
                engine.link(node).hears();
                return engine.link(node);
              });
      LongSupplier left =
          () ->
              inside(
                  client,
                  () -> {
                    engine.forgetGone(0);
                    return engine.all.size() - before;
                  });
      Server.until("it is there", () -> inside(client, () -> link.up() && link.messages.up()));
      assertEquals(2, left.getAsLong());
      proxy.refusing = true;
      proxy.cut();
      Server.until("it is down", () -> inside(client, () -> !link.up() && !link.messages.up()));
      inside(
          client,
          () -> {
            engine.forgetGone(Engine.FORGETS);
            return null;
          });
      assertEquals(2, engine.all.size() - before);
      Server.until("it is forgotten", () -> left.getAsLong() == 0);
      assertFalse(inside(client, () -> engine.endpoint.seeds.contains(node)));
      // It is another link then, if the node is back.
      proxy.refusing = false;
      Server.until("it is back", () -> inside(client, () -> engine.link(node).up()));
      assertFalse(link.up());
      client.lock("a").acquire().release();
    }
  }

  private static void inFourThreads(Callable<Object> work) throws Exception {
    List<FutureTask<Object>> threads =
        Stream.generate(() -> new FutureTask<>(work)).limit(4).toList();
    threads.forEach(each -> new Thread(each).start());
    for (FutureTask<Object> each : threads) {
      each.get(40, SECONDS);
    }
  }

  @Test
  void threadsReEnterByOneGuard() throws Exception {
    try (Client client = client()) {
      Guard held = client.lock("a").acquire();
      inFourThreads(
          () -> {
            for (int turn = 0; turn < 200; turn++) {
              held.reenter().release();
            }
            return held.check();
          });
      held.release();
      assertEquals(0L, server.commands.exists("a"));
    }
  }

  @Test
  void threadsShareANamedOwner() throws Exception {
    try (Client client = client()) {
      NamedLock named = client.lock("a").withOwner("me");
      inFourThreads(
          () -> {
            for (int turn = 0; turn < 100; turn++) {
              Guard outer = named.acquire(Duration.ofSeconds(10));
              Guard inner = outer.reenter();
              outer.release();
              inner.check();
              inner.release();
            }
            return null;
          });
      assertEquals(0L, server.commands.exists("a"));
    }
  }

  @Test
  void closeWaitsForHoldsAndLeavesNoThread() throws Exception {
    Client client = client();
    Guard held = client.lock("a").acquire();
    CompletableFuture<Guard> waits = client.lock("a").acquireAsync();
    held.lost().thenAccept(why -> held.releaseAsync());
    client.close();
    assertEquals(LostReason.CLOSED, held.lost().join());
    ExecutionException error = assertThrows(ExecutionException.class, () -> waits.get(5, SECONDS));
    assertInstanceOf(Closed.class, error.getCause());
    assertThrows(Closed.class, () -> client.lock("a").acquire());
    assertEquals(0L, server.commands.exists("a"));
    Client other = client();
    Guard forgotten = other.lock("b").acquire();
    assertThrows(Unflushed.class, () -> other.close(Duration.ofMillis(100)));
    assertThrows(LockLost.class, forgotten::release);
    Set<String> names =
        Thread.getAllStackTraces().keySet().stream()
            .map(Thread::getName)
            .filter(name -> name.equals("rlock-client"))
            .collect(Collectors.toSet());
    assertEquals(Set.of(), names);
  }

  @Test
  void askingForTheLossAgainAndAgainKeepsNothing() throws Exception {
    try (Client client = client();
        Guard held = client.lock("a").acquire()) {
      for (int i = 0; i < 1_000; i++) {
        assertFalse(held.lost().isDone());
      }
      assertEquals(1, held.one.lost.getNumberOfDependents());
      // One that the caller has completed is not told to others.
      held.lost().complete(LostReason.CLOSED);
      assertFalse(held.lost().isDone());
      server.force("a");
      assertEquals(LostReason.TAKEN, held.lost().get(10, SECONDS));
      assertThrows(LockLost.class, held::release);
    }
  }

  /** A re-entry that is answered in the turn in which the client ends waited for ever. */
  @Test
  void whatComesInTheLastTurnIsDone() {
    CompletableFuture<Long> answered = new CompletableFuture<>();
    Loop loop = new Loop(Clock.SYSTEM, () -> {});
    CompletableFuture<Long> told = answered.thenApplyAsync(token -> token, loop);
    loop.execute(() -> answered.complete(7L));
    loop.execute(loop::end);
    loop.run();
    assertTrue(told.isDone());
  }

  @Test
  void theApplicationsDriverLendsItsThreads() throws Exception {
    RedisClient driver = RedisClient.create(server.url);
    try (Client client =
            new Client(RedisURI.create(server.url), Settings.defaults().withDriver(driver));
        Guard held = client.lock("a").fenced().acquire()) {
      assertTrue(held.token() > 0);
    }
    // Its own connections go on.
    assertEquals("PONG", driver.connect().sync().ping());
    driver.shutdown(0, 2, TimeUnit.SECONDS);
  }

  @Test
  void badSettingsAndServers() throws Exception {
    assertThrows(Invalid.class, () -> new Client("localhost:6399"));
    assertThrows(Invalid.class, () -> Settings.defaults().withLease(Duration.ZERO));
    assertThrows(Invalid.class, () -> Settings.defaults().withSessionGrace(Duration.ofMillis(99)));
    try (Client nowhere = new Client("redis://127.0.0.1:1")) {
      assertThrows(Unreachable.class, () -> nowhere.lock("a").acquire());
      assertThrows(Invalid.class, () -> nowhere.lock(""));
      assertThrows(Invalid.class, () -> nowhere.lock("ü".repeat(513)));
      assertThrows(Invalid.class, () -> nowhere.semaphore("a", 0));
      assertThrows(Invalid.class, () -> nowhere.lock("a").withWait(Duration.ofMillis(-1)));
      assertThrows(Invalid.class, () -> nowhere.lock("a").withOwner(null));
      assertThrows(Invalid.class, () -> nowhere.lock("a").withOwner(""));
      assertThrows(Invalid.class, () -> nowhere.lock("a").withOwner("ü".repeat(257)));
      assertThrows(Invalid.class, () -> nowhere.lock("a").withOwner("me").javaLock());
    }
    try (Server plain = Server.plain();
        Client client = new Client(plain.url)) {
      assertThrows(ModuleMissing.class, () -> client.lock("a").acquire());
    }
  }

  @Test
  void urlsAreUnderstood() {
    for (String[] each :
        new String[][] {
          {"redis://h/4", "redis://h/4"},
          {"valkey://u:p@h:7/1", "redis://u:p@h:7/1"},
          {"valkeys://h", "rediss://h"},
          {"unix:///tmp/x.sock?db=2", "redis-socket:///tmp/x.sock?database=2"},
          {"redis+sentinel://u:p@h1:1,h2/main/3", "redis-sentinel://u:p@h1:1,h2/3#main"},
          {"valkeys+sentinel://h1/main", "rediss-sentinel://h1/#main"},
          {"redis-sentinel://h1:1/3#main", "redis-sentinel://h1:1/3#main"}
        }) {
      assertFalse(Endpoint.isCluster(each[0]));
      assertEquals(List.of(RedisURI.create(each[1])), Endpoint.uris(each[0]), each[0]);
    }
    assertTrue(Endpoint.isCluster("valkeys+cluster://h1"));
    assertEquals(
        List.of(RedisURI.create("rediss://u:p@h1:1"), RedisURI.create("rediss://u:p@h2")),
        Endpoint.uris("valkeys+cluster://u:p@h1:1,h2"));
    for (String wrong : List.of("", "h:1", "http://h", "redis+sentinel://h1", "redis+cluster://")) {
      assertThrows(Invalid.class, () -> Endpoint.uris(wrong), wrong);
    }
  }

  @Test
  void eachThreadHasAnErrorOfItsOwn() throws Exception {
    try (Client client = new Client("redis://127.0.0.1:1")) {
      CompletableFuture<Guard> one = client.lock("a").acquireAsync();
      CompletableFuture<Guard> two = client.lock("a").acquireAsync();
      Throwable first =
          assertThrows(ExecutionException.class, () -> one.get(20, SECONDS)).getCause();
      Throwable second =
          assertThrows(ExecutionException.class, () -> two.get(20, SECONDS)).getCause();
      assertInstanceOf(Unreachable.class, first);
      assertEquals(first.getMessage(), second.getMessage());
      assertTrue(first != second);
      // Nobody waits for a first connection that was refused.
      assertThrows(Unreachable.class, client.lock("a")::info);
    }
  }

  @Test
  void theClockCountsASuspend() {
    long[] precise = {5_000_000_000L};
    long[] coarse = {70_000_000_000L};
    long[] day = {90_000_000_000L};
    int[] reads = {0};
    LongSupplier file =
        () -> {
          reads[0]++;
          return coarse[0];
        };
    Clock clock = new Clock(() -> precise[0], file, () -> day[0]);
    assertEquals(0, clock.now());
    int first = reads[0];
    for (int i = 0; i < 7; i++) {
      precise[0] += 1_000_000;
      day[0] += 1_000_000;
      assertEquals((i + 1) * 1_000_000, clock.now());
    }
    assertEquals(first, reads[0]); // it is not read again and again
    // A step of the coarse one is no suspend.
    coarse[0] += 10_000_000;
    precise[0] += 1_500_000_000;
    coarse[0] += 1_500_000_000;
    day[0] += 1_500_000_000;
    assertEquals(1_507_000_000, clock.now());
    assertEquals(first + 1, reads[0]); // once a second
    // After a suspend the time of day tells it at once.
    coarse[0] += 60_000_000_000L;
    day[0] += 60_000_000_000L;
    assertTrue(clock.now() >= 61_500_000_000L);
    // One that did not change the time of day is noticed within a second.
    coarse[0] += 60_000_000_000L;
    precise[0] += 1_001_000_000;
    coarse[0] += 1_001_000_000;
    day[0] += 1_001_000_000;
    assertTrue(clock.now() >= 122_000_000_000L);
    assertEquals(20 * Machine.MS, clock.slack());
  }
}
