package rlock.client;

import io.lettuce.core.RedisChannelHandler;
import io.lettuce.core.RedisConnectionStateListener;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.protocol.AsyncCommand;
import io.lettuce.core.protocol.RedisCommand;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ThreadLocalRandom;
import rlock.client.Endpoint.Address;
import rlock.client.Machine.Failed;
import rlock.client.Machine.Failure;
import rlock.client.RlockException.Unreachable;

/**
 * A connection to one server, and the next one when it is lost. Everything in it happens in the
 * client's thread.
 *
 * <p>Subclasses say where it leads, and what happens when it comes, goes, or cannot be had.
 */
abstract class Link {
  private static final long FIRST_PAUSE = 10 * Machine.MS;
  private static final long LONGEST_PAUSE = 1_000 * Machine.MS;
  // The first one loads the driver's classes.
  static final long FIRST_TO_CONNECT = 10_000 * Machine.MS;
  // A handshake takes several round trips, with TLS some more, in a process that may be busy.
  private static final long LEAST_TO_CONNECT = 1_000 * Machine.MS;
  private static final long STABLE = 1_000 * Machine.MS;
  private static final long GRACE = 20 * Machine.MS;
  // A server that is well answers sooner.
  private static final long USUAL = 100 * Machine.MS;

  /**
   * Takes what became of a command, and when it was sent: the reply, a `Refusal`, or a `Failed`.
   */
  interface Receiver {
    void receive(Object value, long sentAt);
  }

  static final Receiver IGNORE = (value, sentAt) -> {};
  static final List<String> HELLO = List.of("HELLO");

  /** The server's error reply. */
  record Refusal(String text) {
    boolean untied() {
      return text.startsWith("UNTIED ");
    }
  }

  /** A command that waits for its reply. */
  private static final class Sent {
    final AsyncCommand<byte[], byte[], ?> command;
    final Receiver receiver;
    final long at;
    Loop.Timer alarm;

    Sent(AsyncCommand<byte[], byte[], ?> command, Receiver receiver, long at) {
      this.command = command;
      this.receiver = receiver;
      this.at = at;
    }
  }

  final Engine engine;
  final Loop loop;
  final Address address;
  private final Address sentinel;
  RlockException trouble;

  /** Of the last attempt. */
  String server;

  private StatefulRedisConnection<byte[], byte[]> connection;
  private List<Sent> outbox = new ArrayList<>();
  private final Set<Sent> waiting = new LinkedHashSet<>();
  // Also those of attempts that took too long.
  private final Set<CompletionStage<? extends StatefulRedisConnection<byte[], byte[]>>> making =
      new HashSet<>();
  int attempt; // numbers connections: what concerns an older one is ignored
  private long pause = FIRST_PAUSE;
  long beganAt; // when the present connection was made, or the last one
  private long wentAt;
  private final long madeAt;
  private Loop.Timer alarm;
  private Loop.Timer heart;
  private boolean closed;

  /** To this address or, without one, to the primary; or to this Sentinel. */
  Link(Engine engine, Address address, Address sentinel) {
    this.engine = engine;
    this.loop = engine.loop;
    this.address = address;
    this.sentinel = sentinel;
    this.madeAt = engine.now();
    Address known = sentinel == null ? address : sentinel;
    this.server = known == null ? engine.endpoint.toString() : known.toString();
    this.trouble = new Unreachable(server, "no connection yet");
    engine.all.add(this);
  }

  /** A server for locks, not a Sentinel. */
  final boolean serves() {
    return sentinel == null;
  }

  CompletionStage<? extends StatefulRedisConnection<byte[], byte[]>> connect(
      RedisURI to, long within, int mine) {
    return engine.endpoint.connect(to, within);
  }

  /** There is a connection. */
  void came() {}

  /** It has ended. */
  void went() {}

  /** It could not be had. */
  void refused(RlockException error) {}

  /** How often it is asked whether it lives. */
  long pace() {
    return engine.response;
  }

  /** Asks whether it lives; a connection that does not answer within this time is given up. */
  abstract void pulse(long within);

  final boolean up() {
    return connection != null;
  }

  /** It has been down for this time. */
  boolean gone(long time) {
    return !up() && engine.now() - Math.max(madeAt, wentAt) >= time;
  }

  /** Why there is no answer. */
  final RlockException kept() {
    return up() ? new Unreachable(server, "no reply in time") : trouble;
  }

  /** A command has waited for longer than a server takes that is well. */
  final boolean silent() {
    return waiting.stream().findFirst().filter(sent -> engine.now() - sent.at > USUAL).isPresent();
  }

  final void open() {
    int mine = ++attempt;
    int moves = engine.sentinels.moves;
    // Holds that are tied to the last connection must be tied to this one within their grace.
    long within =
        engine.reached
            ? Math.min(
                Math.max(engine.response, LEAST_TO_CONNECT),
                beganAt > 0 ? engine.grace() / 2 : Machine.NEVER)
            : FIRST_TO_CONNECT;
    alarm =
        loop.at(
            engine.now() + within,
            () -> failed(mine, new Unreachable(server, "no connection in time")));
    CompletionStage<? extends StatefulRedisConnection<byte[], byte[]>> opening =
        opening(mine, within);
    making.add(opening);
    opening.whenComplete(
        (made, error) ->
            loop.execute(
                () -> {
                  making.remove(opening);
                  if (error != null) {
                    failed(mine, Wire.connectError(error, server, engine.endpoint.cluster));
                  } else if (mine != attempt || closed) {
                    made.closeAsync();
                  } else if (serves() && engine.sentinels.movedSince(moves, server)) {
                    made.closeAsync();
                    failed(mine, new Unreachable(server, "it is no longer the primary"));
                  } else {
                    opened(mine, made);
                  }
                }));
  }

  private CompletionStage<? extends StatefulRedisConnection<byte[], byte[]>> opening(
      int mine, long within) {
    try {
      CompletionStage<RedisURI> place =
          serves()
              ? engine.place(address, within)
              : CompletableFuture.completedStage(engine.endpoint.sentinel(sentinel));
      return place.thenCompose(
          to -> {
            if (to.getSocket() == null && mine == attempt) {
              server = new Address(to.getHost(), to.getPort()).toString();
            }
            String name = server;
            return connect(to, within, mine).thenCompose(made -> greeted(made, name, within));
          });
    } catch (RuntimeException error) {
      return CompletableFuture.failedStage(error);
    }
  }

  /** HELLO without arguments needs no permission, and says whether the server is a primary. */
  private CompletionStage<StatefulRedisConnection<byte[], byte[]>> greeted(
      StatefulRedisConnection<byte[], byte[]> made, String name, long within) {
    return Wire.ask(made, within, List.of(HELLO))
        .thenApply(
            replies -> {
              Object reply = replies.get(0);
              if (reply instanceof Refusal refusal && !Wire.unknown(refusal.text())) {
                throw Wire.refusal(refusal.text(), "", name, engine.endpoint.cluster).error();
              } else if (!engine.endpoint.cluster && Wire.demoted(reply)) {
                throw Unreachable.replica(name);
              }
              return made;
            })
        .whenComplete(
            (ready, error) -> {
              if (error != null) {
                made.closeAsync();
              }
            });
  }

  private void failed(int mine, RlockException error) {
    if (mine != attempt || closed) {
      return;
    }
    attempt++;
    trouble = error;
    if (serves()) {
      engine.endpoint.rotate();
    }
    refused(error);
    rest();
  }

  /** Clients that lost the same server should not come back in step. */
  private void rest() {
    loop.cancel(alarm);
    double jitter = ThreadLocalRandom.current().nextDouble(0.5, 1);
    alarm = loop.at(engine.now() + (long) (pause * jitter), this::open);
    pause = Math.min(Math.min(pause * 2, LONGEST_PAUSE), engine.grace() / 8);
  }

  private void opened(int mine, StatefulRedisConnection<byte[], byte[]> made) {
    loop.cancel(alarm);
    connection = made;
    engine.reached |= serves();
    beganAt = engine.now();
    made.addListener(
        new RedisConnectionStateListener() {
          @Override
          public void onRedisDisconnected(RedisChannelHandler<?, ?> handler) {
            loop.execute(() -> down(mine, unreachable("it closed the connection")));
          }
        });
    if (!made.isOpen()) {
      down(mine, unreachable("it closed the connection"));
      return;
    }
    if (wentAt > 0 && serves()) {
      Duration outage = Duration.ofNanos(beganAt - wentAt);
      engine.tell(Event.Kind.RECONNECTED, "", outage, null, null);
    }
    // Refused after SUBSCRIBE. A user without this permission leaves the connection without a name.
    send(List.of("CLIENT", "SETNAME", engine.called), IGNORE);
    came();
    beat();
  }

  /** Gives the connection up; another one follows. */
  final void drop(RlockException why) {
    down(attempt, why);
  }

  final Unreachable unreachable(String why) {
    return new Unreachable(server, why);
  }

  private void down(int mine, RlockException why) {
    if (mine != attempt || connection == null) {
      return;
    }
    attempt++;
    connection.closeAsync();
    end(why);
    if (engine.now() - beganAt > STABLE) {
      pause = FIRST_PAUSE;
    }
    wentAt = engine.now();
    if (serves()) {
      engine.tell(Event.Kind.DISCONNECTED, "", Duration.ZERO, null, trouble);
    }
    went();
    rest();
  }

  private void end(RlockException why) {
    connection = null;
    loop.cancel(heart);
    trouble = why;
    List<Sent> unanswered = new ArrayList<>(waiting);
    List<Sent> unsent = outbox;
    outbox = new ArrayList<>();
    unanswered.removeAll(unsent);
    unanswered.forEach(sent -> settle(sent, new Failed(Failure.UNANSWERED, trouble)));
    unsent.forEach(sent -> settle(sent, new Failed(Failure.PASSING, trouble)));
  }

  /** The driver closes the connection, if there is one; those that it is making come after this. */
  final CompletableFuture<?> close() {
    closed = true;
    loop.cancel(alarm);
    if (connection != null) {
      end(new RlockException.Closed());
    }
    return CompletableFuture.allOf(
        making.stream()
            .map(
                opening ->
                    opening.thenCompose(StatefulRedisConnection::closeAsync).toCompletableFuture())
            .toArray(CompletableFuture[]::new));
  }

  /** Asks now whether it lives, and then again and again; not while it is down. */
  final void beat() {
    loop.cancel(heart);
    if (up()) {
      heart = loop.at(engine.now() + pace(), this::beat);
      // Of the grace of a session, half is for an answer.
      pulse(Math.min(engine.response, 2 * pace()));
    }
  }

  final void send(List<String> words, Receiver receiver) {
    send(words, receiver, engine.response);
  }

  /**
   * Sends a command at the end of the turn; a connection that does not answer it within this time
   * is given up.
   */
  final void send(List<String> words, Receiver receiver, long within) {
    long now = engine.now();
    if (!up()) {
      Failed failed = new Failed(Failure.PASSING, trouble);
      loop.execute(() -> receiver.receive(failed, now));
      return;
    }
    Sent sent = new Sent(Wire.command(words), receiver, now);
    int mine = attempt;
    sent.alarm = loop.at(now + within, () -> late(mine, sent));
    waiting.add(sent);
    outbox.add(sent);
  }

  /** The reply may have arrived while this thread stood still. */
  private void late(int mine, Sent sent) {
    sent.alarm = loop.at(engine.now() + GRACE, () -> down(mine, unreachable("no reply in time")));
  }

  /** What was sent in this turn goes in one piece. */
  final void flush() {
    if (outbox.isEmpty()) {
      return;
    }
    List<Sent> batch = outbox;
    outbox = new ArrayList<>();
    List<RedisCommand<byte[], byte[], ?>> commands = new ArrayList<>();
    for (Sent sent : batch) {
      sent.command.whenComplete((value, error) -> loop.execute(() -> answered(sent, value, error)));
      commands.add(sent.command);
    }
    connection.dispatch(commands);
  }

  private void answered(Sent sent, Object value, Throwable error) {
    if (!waiting.contains(sent)) {
      return;
    }
    String text = error == null ? null : Wire.serverError(error);
    if (error != null && text == null) {
      // The connection is at its end, which is noticed now.
      down(attempt, unreachable(String.valueOf(error.getMessage())));
    } else {
      settle(sent, text == null ? value : new Refusal(text));
    }
  }

  private void settle(Sent sent, Object value) {
    waiting.remove(sent);
    loop.cancel(sent.alarm);
    sent.receiver.receive(value, sent.at);
  }
}
