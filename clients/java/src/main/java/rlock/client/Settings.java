package rlock.client;

import io.lettuce.core.AbstractRedisClient;
import java.time.Duration;
import java.util.function.Consumer;
import rlock.client.RlockException.Invalid;

/** Settings of a client, and the defaults of its locks. Each method returns a copy. */
public final class Settings implements Cloneable {
  // The longest time that the server takes, in ms.
  static final long LONGEST = 1L << 43;

  private static final Settings DEFAULTS = new Settings();

  String name;
  Duration lease = Duration.ofSeconds(30);
  Duration wait;
  Duration sessionGrace;
  Duration responseTimeout;
  Consumer<? super Event> onEvent;
  AbstractRedisClient driver;

  private Settings() {}

  private Settings with(Consumer<Settings> change) {
    try {
      Settings copy = (Settings) clone();
      change.accept(copy);
      return copy;
    } catch (CloneNotSupportedException never) {
      throw new IllegalStateException(never);
    }
  }

  /**
   * A lease of 30 seconds, waits without a limit, no sessions.
   *
   * @return the defaults
   */
  public static Settings defaults() {
    return DEFAULTS;
  }

  /**
   * The name in owners and connections; {@code rlock-client} by default.
   *
   * @param name of the program
   * @return a copy
   */
  public Settings withName(String name) {
    return with(copy -> copy.name = name);
  }

  /**
   * How long a lock outlives its process; the client renews it every third of the lease. To survive
   * a fail-over, the lease must be longer than one and a half times the fail-over.
   *
   * @param lease from 100 ms
   * @return a copy
   */
  public Settings withLease(Duration lease) {
    lease(lease);
    return with(copy -> copy.lease = lease);
  }

  /**
   * The limit of {@code acquire}; none by default.
   *
   * @param wait from 0
   * @return a copy
   */
  public Settings withWait(Duration wait) {
    nanos("a wait", wait, 0);
    return with(copy -> copy.wait = wait);
  }

  /**
   * How long a lock outlives the connection of its process; without it, and where the server does
   * not notice the end of the connection, only the lease counts.
   *
   * @param grace from 100 ms
   * @return a copy
   */
  public Settings withSessionGrace(Duration grace) {
    nanos("a session grace", grace, 100);
    return with(copy -> copy.sessionGrace = grace);
  }

  /**
   * The limit of each call that does not wait for a lock, and of one answer of the server: 2 s by
   * default. A connection without an answer to a lock's command is replaced after a sixth of the
   * lease already, if that is shorter.
   *
   * @param timeout from 1 ms
   * @return a copy
   */
  public Settings withResponseTimeout(Duration timeout) {
    nanos("a response timeout", timeout, 1);
    return with(copy -> copy.responseTimeout = timeout);
  }

  /**
   * Receives what happens to locks and connections, one event after the other, in a thread of its
   * own.
   *
   * @param receiver of events
   * @return a copy
   */
  public Settings withOnEvent(Consumer<? super Event> receiver) {
    return with(copy -> copy.onEvent = receiver);
  }

  /**
   * Uses the threads and the options of TLS and sockets of your client of Lettuce. Its connections,
   * time-outs and retries are not used.
   *
   * @param driver a {@code RedisClient} or a {@code RedisClusterClient}, which you shut down after
   *     the client
   * @return a copy
   */
  public Settings withDriver(AbstractRedisClient driver) {
    return with(copy -> copy.driver = driver);
  }

  /** How long the server may take to answer a command of a lock with this lease. */
  long response(long lease) {
    return Math.min(responseTimeout(), Math.max(50 * Machine.MS, lease / 6));
  }

  long responseTimeout() {
    if (responseTimeout != null) {
      return patience();
    }
    return Math.min(patience(), Math.max(50 * Machine.MS, lease.toNanos() / 6));
  }

  /** How long a call takes that does not wait for a lock. */
  long patience() {
    return responseTimeout == null
        ? 2_000 * Machine.MS
        : nanos("a response timeout", responseTimeout, 1);
  }

  /** In whole ms. */
  static long lease(Duration lease) {
    if (lease != null && lease.compareTo(Duration.ofMillis(100)) < 0) {
      throw new Invalid(
          "a lease is at least 100 ms, not " + lease + ": a shorter one ends before it is renewed");
    }
    return nanos("a lease", lease, 100) / Machine.MS * Machine.MS;
  }

  static long nanos(String what, Duration time, long leastMs) {
    if (time == null
        || time.compareTo(Duration.ofMillis(leastMs)) < 0
        || time.compareTo(Duration.ofMillis(LONGEST)) > 0) {
      throw new Invalid(what + " is a duration from " + leastMs + " ms to 2^43 ms, not " + time);
    }
    return time.toNanos();
  }
}
