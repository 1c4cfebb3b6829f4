package rlock.client;

import io.lettuce.core.RedisURI;
import io.lettuce.core.cluster.SlotHash;
import java.lang.System.Logger.Level;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.ThreadPoolExecutor.DiscardOldestPolicy;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;
import java.util.function.Supplier;
import rlock.client.Endpoint.Address;
import rlock.client.Link.Receiver;
import rlock.client.Link.Refusal;
import rlock.client.Machine.Failed;
import rlock.client.Machine.Failure;
import rlock.client.RlockException.Closed;
import rlock.client.RlockException.Permission;
import rlock.client.Wire.Claim;

/** One per client: its identity, its links, its acquisitions, and the thread that they live in. */
final class Engine {
  private static final long LOOK = 1_000 * Machine.MS;
  private static final long AGAIN = 5 * Machine.MS;
  static final long FORGETS = 60_000 * Machine.MS;
  // Of those that the receiver has not received yet, the latest are kept.
  private static final int MOST_EVENTS = 1_000;
  // A message is late by seconds at most.
  private static final int MOST_KEPT = 1_000;

  final Endpoint endpoint;
  final long response;

  private final Settings settings;

  final String called;
  final String identity;
  final Loop loop = new Loop(Clock.SYSTEM, this::flush);

  private final Consumer<? super Event> receiver;
  private final Thread thread;
  private final AtomicLong numbers = new AtomicLong();
  // How long a client that closes waits for connections that the driver is making, in seconds.
  private static final long LAST_CONNECTIONS = 1;

  // What is posted before the close is done before it; nothing is posted after it.
  private final ReentrantLock gate = new ReentrantLock();
  private boolean closed;
  private final CompletableFuture<Integer> ended = new CompletableFuture<>();
  // The application's code, which may block, runs in another thread than the renewals.
  private final ExecutorService events;
  private int told; // events, in the client's thread
  private int received; // in that of the events

  // In the thread.
  private final Map<Claim, Acquisition> acquisitions = new LinkedHashMap<>();

  /** Those that have guards, lost or not, of owners that the caller named. */
  final Map<Claim, Acquisition> named = new HashMap<>();

  private final Map<Address, Commands> links = new HashMap<>();
  private final Map<Integer, Address> slots = new HashMap<>();
  private final Set<Claim> kept = new LinkedHashSet<>();
  private int channels;
  private final TreeMap<Long, Integer> graces = new TreeMap<>();
  private final Set<CompletableFuture<?>> promises = new HashSet<>();
  final List<Link> all = new ArrayList<>();
  // The connections that closed links are making.
  private final Set<CompletableFuture<?>> lastOnes = new HashSet<>();
  final Sentinels sentinels = new Sentinels(this);
  boolean closing;
  private long closeBy = Machine.NEVER;
  private long workEnded;
  // There was a connection, or a Sentinel has named the primary: no wrong address, though it may be
  // a replica for a moment.
  boolean reached;
  // This user may not ask for the lease of a holder.
  boolean unreadable;

  Engine(Endpoint endpoint, Settings settings) {
    this.endpoint = endpoint;
    this.response = settings.responseTimeout();
    this.settings = settings;
    this.receiver = settings.onEvent;
    byte[] random = new byte[16];
    new SecureRandom().nextBytes(random);
    String hex = HexFormat.of().formatHex(random);
    String name = settings.name == null ? Endpoint.LIBRARY : plain(settings.name);
    called = name + "@" + plain(host()) + ":" + ProcessHandle.current().pid();
    identity = called + ":" + hex;
    BlockingQueue<Runnable> queue = new ArrayBlockingQueue<>(MOST_EVENTS);
    ThreadFactory threads = work -> daemon(work, "rlock-client-events");
    DiscardOldestPolicy latest = new DiscardOldestPolicy();
    events = new ThreadPoolExecutor(1, 1, 0, TimeUnit.SECONDS, queue, threads, latest);
    thread = daemon(loop, "rlock-client");
    loop.execute(this::look);
    // The first lock finds a connection.
    loop.execute(
        () -> {
          sentinels.know(endpoint.sentinels);
          link(endpoint.seeds.get(0));
        });
    thread.start();
  }

  private static Thread daemon(Runnable work, String name) {
    Thread thread = new Thread(work, name);
    thread.setDaemon(true);
    return thread;
  }

  /** At most 64 characters that mean nothing to servers and channels. */
  private static String plain(String word) {
    String text = word.strip();
    text = text.substring(0, Math.min(64, text.length())).replaceAll("[^A-Za-z0-9._-]", "_");
    return text.isEmpty() ? Endpoint.LIBRARY : text;
  }

  private static String host() {
    try {
      return InetAddress.getLocalHost().getHostName();
    } catch (UnknownHostException unknown) {
      return "localhost";
    }
  }

  long now() {
    return Clock.SYSTEM.now();
  }

  // In any thread.

  void post(Runnable work) {
    gate.lock();
    try {
      if (closed) {
        throw new Closed();
      }
      loop.execute(work);
    } finally {
      gate.unlock();
    }
  }

  /** How long a call takes that does not wait for a lock. */
  long patience() {
    return settings.patience();
  }

  String owner() {
    return identity + ":" + numbers.incrementAndGet();
  }

  /** The server's reply to a command, and when it was sent. */
  record Answered(Object value, long sentAt) {}

  /** A command of a lock. `held`: the hold whose session it may tie, or null. */
  CompletableFuture<Answered> ask(List<String> words, Acquisition held) {
    CompletableFuture<Answered> promise = new CompletableFuture<>();
    String lock = words.get(1);
    post(
        () -> {
          // A first connection may take longer than an answer.
          boolean first = !reached && settings.responseTimeout == null;
          long within = first ? Link.FIRST_TO_CONNECT : patience();
          limit(promise, within, () -> linkFor(lock).kept());
          ask(promise, linkFor(lock), words, held, now() + within - AGAIN);
        });
    return promise;
  }

  /**
   * Ends all waits and marks held locks as lost; how many were not released after this time.
   * Another call can shorten it.
   */
  CompletableFuture<Integer> close(long within) {
    long by = now() + within;
    gate.lock();
    try {
      closed = true;
      loop.execute(
          () -> {
            closeBy = Math.min(closeBy, by);
            if (!closing) {
              closing();
            }
          });
    } finally {
      gate.unlock();
    }
    return ended;
  }

  /** The thread is at its end. */
  void join() {
    boolean interrupted = false;
    while (thread.isAlive()) {
      try {
        thread.join();
      } catch (InterruptedException later) {
        interrupted = true;
      }
    }
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
  }

  void tell(Event.Kind kind, String lock, Duration duration, LostReason why, RlockException error) {
    String server = lock.isEmpty() ? endpoint.toString() : "";
    if (lock.isEmpty()) {
      Loop.LOG.log(Level.WARNING, "{0}: {1}", server, kind);
    }
    if (receiver == null) {
      return;
    }
    int number = ++told;
    events.execute(
        () -> {
          int dropped = number - received - 1;
          received = number;
          try {
            receiver.accept(new Event(kind, lock, duration, why, error, server, dropped));
          } catch (RuntimeException failure) {
            Loop.LOG.log(
                Level.ERROR, "the receiver of events failed; locks are not affected", failure);
          }
        });
  }

  // In the thread.

  Collection<Acquisition> acquisitions() {
    return List.copyOf(acquisitions.values());
  }

  /** What this owner has begun; of a named one also what it has lost and not released. */
  Acquisition acquisition(Claim claim) {
    return acquisitions.getOrDefault(claim, named.get(claim));
  }

  void enter(Acquisition one) {
    long grace = one.plan().grace;
    if (acquisitions.put(one.claim, one) == null && grace > 0) {
      graces.merge(grace, 1, Integer::sum);
      links.values().forEach(Link::beat);
    }
  }

  void leave(Acquisition one) {
    if (acquisitions.remove(one.claim, one) && one.plan().grace > 0) {
      graces.computeIfPresent(one.plan().grace, (grace, count) -> count == 1 ? null : count - 1);
    }
  }

  /** The shortest grace of the sessions in use. */
  long grace() {
    return graces.isEmpty() ? Machine.NEVER : graces.firstKey();
  }

  Commands link(Address address) {
    return links.computeIfAbsent(address, place -> new Commands(this, place));
  }

  Commands linkFor(String lock) {
    return linkFor(SlotHash.getSlot(lock));
  }

  /** The first seed may change: a slot that no server has named stays with the one that it had. */
  Commands linkFor(int slot) {
    Address seed = endpoint.seeds.get(0);
    return link(endpoint.cluster ? slots.computeIfAbsent(slot, unnamed -> seed) : seed);
  }

  /** In a cluster, the slots of a server that is gone are asked for at another one. */
  void forget(Address address) {
    if (endpoint.cluster) {
      slots.values().removeIf(address::equals);
      acquisitions().forEach(one -> one.follow(0));
    }
  }

  /**
   * Ends the links to nodes that have left the cluster: no slot is known to be there, and they have
   * been down for this time. Not in an outage of all.
   */
  void forgetGone(long time) {
    if (links.values().stream().noneMatch(Link::up)) {
      return;
    }
    for (Commands link : List.copyOf(links.values())) {
      Address address = link.address;
      if (link.gone(time)
          && !slots.containsValue(address)
          && !endpoint.seeds.get(0).equals(address)) {
        links.remove(address);
        endpoint.forget(address);
        close(link);
        if (link.messages != null) {
          close(link.messages);
        }
      }
    }
  }

  private void close(Link link) {
    all.remove(link);
    CompletableFuture<?> last = link.close();
    lastOnes.add(last);
    last.whenComplete((done, error) -> loop.execute(() -> lastOnes.remove(last)));
  }

  /** For the next connection of a subscription. */
  String channel() {
    return "rlock:grants:" + identity.substring(called.length() + 1) + ":" + ++channels;
  }

  /** The hold of this claim outlasts its acquisition. */
  void keep(boolean lasts, Claim claim) {
    if (lasts && kept.add(claim) && kept.size() > MOST_KEPT) {
      kept.remove(kept.iterator().next());
    }
  }

  /** Nothing of this claim should be left: its owner is never used again. */
  boolean ended(Claim claim) {
    return claim.owner().startsWith(identity + ":") && !kept.contains(claim);
  }

  /** Where the next connection leads: to this server, or to the one that the Sentinels name. */
  CompletionStage<RedisURI> place(Address address, long within) {
    return endpoint.follows
        ? sentinels.primary(within).thenApply(endpoint::server)
        : CompletableFuture.completedStage(endpoint.server(address));
  }

  /** Nothing is held or awaited. */
  boolean idle() {
    return acquisitions.isEmpty();
  }

  /** A server is no primary any more. */
  void drop(RlockException why) {
    all.stream().filter(Link::serves).toList().forEach(link -> link.drop(why));
  }

  /** The primary is this server. */
  void dropOthers(String primary) {
    all.stream()
        .filter(link -> link.serves() && !link.server.equals(primary))
        .toList()
        .forEach(link -> link.drop(link.unreachable("the primary is " + primary + " now")));
  }

  /** This ends after this time. */
  void limit(CompletableFuture<?> promise, long within, Supplier<RlockException> late) {
    Loop.Timer timer = loop.at(now() + within, () -> promise.completeExceptionally(late.get()));
    promises.add(promise);
    promise.whenComplete(
        (value, error) ->
            loop.execute(
                () -> {
                  loop.cancel(timer);
                  promises.remove(promise);
                }));
  }

  /**
   * No connection. A wrong password stays wrong, and an address where nothing was ever found may be
   * wrong.
   */
  void unreachable(List<Acquisition> those, RlockException error) {
    if (error instanceof Permission || !(reached || endpoint.cluster)) {
      those.forEach(one -> one.cancel(error));
    }
  }

  /**
   * What a refusal means.
   *
   * @param moved the slot is at another server by now
   * @param asks the server for this command alone, or null
   */
  record Refused(Failed failed, boolean moved, Commands asks) {}

  /** What the refusal of this server means. In a cluster it may say where the slot is. */
  Refused refusal(Refusal refusal, String lock, Commands link) {
    String text = refusal.text();
    String[] words = text.split(" ");
    Failed failed = Wire.refusal(text, lock, link.server, endpoint.cluster);
    if (words[0].equals("READONLY") && !endpoint.cluster) {
      drop(failed.error());
    }
    if (Wire.channelRefused(text) && link.messages != null) {
      link.messages.slotMoved();
    }
    boolean moved = words[0].equals("MOVED");
    if (!endpoint.cluster || words.length < 3 || !(moved || words[0].equals("ASK"))) {
      return new Refused(failed, false, null);
    }
    int colon = words[2].lastIndexOf(':');
    // A server that does not know its own address leaves the host out.
    String host = colon == 0 ? link.address.host() : words[2].substring(0, colon);
    Address address = new Address(host, Integer.parseInt(words[2].substring(colon + 1)));
    if (!moved) {
      return new Refused(failed, false, link(address));
    }
    int slot = Integer.parseInt(words[1]);
    Address before = slots.put(slot, address);
    endpoint.know(address);
    if (before != null && !before.equals(address)) {
      acquisitions().stream().filter(one -> one.slot() == slot).forEach(one -> one.follow(0));
    }
    return new Refused(failed, true, null);
  }

  private void ask(
      CompletableFuture<Answered> done, Commands to, List<String> words, Acquisition one, long by) {
    if (done.isDone()) {
      return;
    }
    String lock = words.get(1);
    Receiver receiver =
        (value, sentAt) -> {
          Refused refused = value instanceof Refusal refusal ? refusal(refusal, lock, to) : null;
          Object answer = refused == null ? value : refused.failed;
          if (!(answer instanceof Failed failed)) {
            done.complete(new Answered(answer, sentAt));
          } else if (closing) {
            done.completeExceptionally(new Closed());
          } else if (refused != null && refused.asks != null && !done.isDone()) {
            refused.asks.send(List.of("ASKING"), Link.IGNORE);
            ask(done, refused.asks, words, one, by);
          } else if (failed.failure() == Failure.PASSING
              && now() < by
              && (reached || endpoint.cluster || to.attempt == 1)) {
            // It was surely not carried out.
            loop.at(now() + AGAIN, () -> ask(done, linkFor(lock), words, one, by));
          } else {
            done.completeExceptionally(failed.error());
          }
        };
    to.send(words, one == null ? receiver : one.tying(to, receiver));
  }

  private void flush() {
    all.forEach(Link::flush);
  }

  /** Timers stand still in suspend, and threads end without a word. */
  private void look() {
    acquisitions().forEach(Acquisition::look);
    forgetGone(FORGETS);
    loop.at(now() + LOOK, this::look);
  }

  private void closing() {
    long now = now();
    if (!closing) {
      closing = true;
      workEnded = now;
      for (Acquisition one : acquisitions()) {
        one.cancel(new Closed());
        one.lose(LostReason.CLOSED);
      }
    }
    // The lock of a thread that has ended is never released.
    List<Acquisition> left = acquisitions.values().stream().filter(one -> !one.orphaned()).toList();
    if (left.stream().anyMatch(Acquisition::works)) {
      workEnded = now;
    }
    if (left.isEmpty() || now >= closeBy || now >= workEnded + patience()) {
      end((int) left.stream().filter(Acquisition::unreleased).count());
    } else {
      loop.at(now + AGAIN, this::closing);
    }
  }

  private void end(int left) {
    lastOnes.addAll(sentinels.asking);
    all.forEach(link -> lastOnes.add(link.close()));
    acquisitions().forEach(Acquisition::end);
    promises.forEach(promise -> promise.completeExceptionally(new Closed()));
    loop.end();
    try {
      // The driver forgets a connection that it is making when it is shut down: it would stay open.
      CompletableFuture.allOf(lastOnes.toArray(CompletableFuture[]::new))
          .exceptionally(error -> null)
          .completeOnTimeout(null, LAST_CONNECTIONS, TimeUnit.SECONDS)
          .join();
      endpoint.close();
      events.shutdown();
      awaitEvents();
    } finally {
      ended.complete(left);
    }
  }

  private void awaitEvents() {
    try {
      if (!events.awaitTermination(1, TimeUnit.SECONDS)) {
        Loop.LOG.log(Level.WARNING, "the receiver of events blocks, and is interrupted");
        events.shutdownNow();
      }
    } catch (InterruptedException never) {
      Thread.currentThread().interrupt();
    }
  }
}
