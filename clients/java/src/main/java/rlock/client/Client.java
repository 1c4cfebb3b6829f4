package rlock.client;

import io.lettuce.core.RedisURI;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import rlock.client.RlockException.Invalid;
import rlock.client.RlockException.Unflushed;
import rlock.client.RlockException.Unreachable;
import rlock.client.Wire.Mode;

/**
 * Locks on one server, behind Sentinels, or in a cluster. Use one client per process. It has two
 * connections, in a cluster two to each node that it uses: one for commands, and from the first
 * wait on one for messages.
 *
 * <p>All methods may be called in all threads, virtual ones too.
 */
public final class Client implements AutoCloseable {
  private static final Duration FLUSH = Duration.ofSeconds(5);

  final Settings settings;
  final Engine engine;
  final Holds holds = new Holds();

  /**
   * A client of this server. It connects in the background; errors come with the first lock.
   *
   * @param url {@code redis://[user:password@]host[:port][/database]}, {@code rediss://…}, {@code
   *     redis+sentinel://host:port,…/primary[/database]}, {@code redis+cluster://host:port,…} or
   *     {@code unix://path[?db=database]}; {@code valkey} for {@code redis} is the same, and the
   *     URLs of Lettuce are understood
   */
  public Client(String url) {
    this(url, Settings.defaults());
  }

  /**
   * A client of this server.
   *
   * @param url as above
   * @param settings of the client
   */
  public Client(String url, Settings settings) {
    this(Endpoint.uris(url), Endpoint.isCluster(url), settings);
  }

  /**
   * A client of this server, or of the primary that its Sentinels know.
   *
   * @param uri the settings of your own client: address, TLS, user, password and database are used
   * @param settings of the client
   */
  public Client(RedisURI uri, Settings settings) {
    this(List.of(uri), false, settings);
  }

  private Client(List<RedisURI> uris, boolean cluster, Settings settings) {
    this.settings = settings;
    this.engine = new Engine(new Endpoint(uris, cluster, settings), settings);
  }

  /**
   * A client of a cluster.
   *
   * @param nodes some of its servers
   * @param settings of the client
   * @return the client
   */
  public static Client cluster(List<RedisURI> nodes, Settings settings) {
    if (nodes.isEmpty()) {
      throw new Invalid("a cluster has at least one node");
    }
    return new Client(nodes, true, settings);
  }

  /**
   * The identity of this client, with which its owners begin.
   *
   * @return {@code <name>@<host>:<pid>:<random>}
   */
  public String identity() {
    return engine.identity;
  }

  /**
   * The lock with this name.
   *
   * @param name the key in the server
   * @return a handle, which does no I/O until it is acquired
   */
  public NamedLock lock(String name) {
    return new NamedLock(this, plan(name, Mode.LOCK));
  }

  /**
   * The lock with this name, as a {@code java.util.concurrent.locks.Lock}.
   *
   * @param name the key in the server
   * @return a view, which re-enters
   */
  public JavaLock javaLock(String name) {
    return lock(name).javaLock();
  }

  /**
   * The read/write lock with this name.
   *
   * @param name the key in the server
   * @return two handles
   */
  public NamedReadWriteLock readWriteLock(String name) {
    return new NamedReadWriteLock(
        new ReadLock(this, plan(name, Mode.READ)), new WriteLock(this, plan(name, Mode.WRITE)));
  }

  /**
   * The semaphore with this name. The server does not store the number: use the same number
   * everywhere.
   *
   * @param name the key in the server
   * @param permits how many owners may hold it at once
   * @return a handle
   */
  public NamedSemaphore semaphore(String name, int permits) {
    if (permits < 1) {
      throw new Invalid("a semaphore has from 1 to 2147483647 permits, not " + permits);
    }
    return new NamedSemaphore(this, plan(name, Mode.PERMIT).with(plan -> plan.permits = permits));
  }

  /**
   * Several locks as one: they are acquired, held and released together.
   *
   * @param names the keys in the server, in any order and in any slots
   * @return a handle, which does no I/O until it is acquired
   */
  public LockAll lockAll(Collection<String> names) {
    return new LockAll(this, names);
  }

  /**
   * Ends all waits, and marks held locks as lost so that their work ends. Waits at most 5 seconds
   * until they are released, and the response time-out for the server; an interruption ends this
   * wait. Leaves no thread and no connection.
   *
   * @throws Unflushed if not all were released
   */
  @Override
  public void close() {
    close(FLUSH);
  }

  /**
   * Closes the client.
   *
   * @param timeout how long to wait for releases
   * @throws Unflushed if not all locks were released
   */
  public void close(Duration timeout) {
    CompletableFuture<Integer> ended = engine.close(Settings.nanos("a timeout", timeout, 0));
    int left;
    try {
      left = ended.get();
    } catch (InterruptedException interruption) {
      Thread.currentThread().interrupt();
      left = RlockException.join(engine.close(RlockException.MOMENT * Machine.MS));
    } catch (ExecutionException error) {
      throw RlockException.here(error);
    }
    engine.join();
    if (left > 0) {
      throw new Unflushed(left);
    }
  }

  Object ask(List<String> words) {
    return RlockException.join(engine.ask(words, null), Unreachable::new).value();
  }

  private Plan plan(String name, Mode mode) {
    Plan plan = new Plan(Plan.checked("the name of a lock", name, 1024), mode);
    plan.lease = Settings.lease(settings.lease);
    plan.limit = settings.wait == null ? Machine.NEVER : settings.wait.toNanos();
    plan.response = settings.response(plan.lease);
    plan.grace = settings.sessionGrace == null ? 0 : settings.sessionGrace.toNanos();
    plan.slack = Clock.SYSTEM.slack();
    return plan;
  }
}
