package rlock.client;

import io.lettuce.core.RedisChannelHandler;
import io.lettuce.core.RedisConnectionStateListener;
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
import rlock.client.Machine.Failed;
import rlock.client.Machine.Failure;
import rlock.client.RlockException.Unreachable;

/**
 * A connection to one server, and the next one when it is lost. Everything in it happens in the
 * client's thread.
 *
 * <p>Subclasses say what happens when it comes, goes, or cannot be had, and when it lives.
 */
abstract class Link {
  private static final long FIRST_PAUSE = 10 * Machine.MS;
  private static final long LONGEST_PAUSE = 1_000 * Machine.MS;
  // The first one loads the driver's classes.
  private static final long FIRST_TO_CONNECT = 10_000 * Machine.MS;
  // A handshake takes several round trips, with TLS some more, in a process that may be busy.
  private static final long LEAST_TO_CONNECT = 1_000 * Machine.MS;
  private static final long STABLE = 1_000 * Machine.MS;
  private static final long GRACE = 20 * Machine.MS;

  /**
   * Takes what became of a command, and when it was sent: the reply, a `Refusal`, or a `Failed`.
   */
  interface Receiver {
    void receive(Object value, long sentAt);
  }

  static final Receiver IGNORE = (value, sentAt) -> {};

  /** The server's error reply. */
  record Refusal(String text) {}

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
  RlockException trouble = new Unreachable("no connection yet");

  private StatefulRedisConnection<byte[], byte[]> connection;
  private List<Sent> outbox = new ArrayList<>();
  private final Set<Sent> waiting = new LinkedHashSet<>();
  // Also those of attempts that took too long.
  private final Set<CompletionStage<? extends StatefulRedisConnection<byte[], byte[]>>> making =
      new HashSet<>();
  private int attempt; // numbers connections: what concerns an older one is ignored
  private long pause = FIRST_PAUSE;
  private long beganAt;
  private long wentAt;
  private Loop.Timer alarm;
  private Loop.Timer heart;
  private boolean closed;

  Link(Engine engine) {
    this.engine = engine;
    this.loop = engine.loop;
  }

  abstract CompletionStage<? extends StatefulRedisConnection<byte[], byte[]>> connect(long within);

  /** There is a connection. */
  abstract void came();

  /** It has ended. */
  abstract void went();

  /** It could not be had. */
  abstract void refused(RlockException error);

  /** It was asked whether it lives. */
  void lives(Object value, long sentAt) {}

  /** How often it is asked whether it lives. */
  long pace() {
    return engine.response;
  }

  List<String> pulse() {
    return List.of("PING");
  }

  final boolean up() {
    return connection != null;
  }

  /** For an answer: half the grace of a session. */
  private long patience() {
    return Math.min(engine.response, 2 * pace());
  }

  final void open() {
    int mine = ++attempt;
    // Holds that are tied to the last connection must be tied to this one within their grace.
    long within =
        engine.reached
            ? Math.min(Math.max(engine.response, LEAST_TO_CONNECT), engine.grace() / 2)
            : FIRST_TO_CONNECT;
    alarm =
        loop.at(
            engine.now() + within, () -> failed(mine, new Unreachable("no connection in time")));
    CompletionStage<? extends StatefulRedisConnection<byte[], byte[]>> opening = opening(within);
    making.add(opening);
    opening.whenComplete(
        (made, error) ->
            loop.execute(
                () -> {
                  making.remove(opening);
                  if (error != null) {
                    failed(mine, Wire.connectError(error, engine.endpoint));
                  } else if (mine != attempt || closed) {
                    made.closeAsync();
                  } else {
                    opened(mine, made);
                  }
                }));
  }

  private CompletionStage<? extends StatefulRedisConnection<byte[], byte[]>> opening(long within) {
    try {
      return connect(within);
    } catch (RuntimeException error) {
      return CompletableFuture.failedStage(error);
    }
  }

  private void failed(int mine, RlockException error) {
    if (mine != attempt || closed) {
      return;
    }
    attempt++;
    trouble = error;
    engine.endpoint.rotate();
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
    engine.reached = true;
    beganAt = engine.now();
    made.addListener(
        new RedisConnectionStateListener() {
          @Override
          public void onRedisDisconnected(RedisChannelHandler<?, ?> handler) {
            loop.execute(() -> down(mine, "it was closed"));
          }
        });
    if (!made.isOpen()) {
      down(mine, "it was closed");
      return;
    }
    if (wentAt > 0) {
      Duration outage = Duration.ofNanos(beganAt - wentAt);
      engine.tell(Event.Kind.RECONNECTED, "", outage, null, null);
    }
    // Refused after SUBSCRIBE. A user without this permission leaves the connection without a name.
    send(List.of("CLIENT", "SETNAME", engine.called), IGNORE);
    came();
    beat();
  }

  /** Gives the connection up; another one follows. */
  final void drop(String why) {
    down(attempt, why);
  }

  private void down(int mine, String why) {
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
    engine.tell(Event.Kind.DISCONNECTED, "", Duration.ZERO, null, trouble);
    went();
    rest();
  }

  private void end(String why) {
    connection = null;
    loop.cancel(heart);
    trouble = new Unreachable(why);
    List<Sent> unanswered = new ArrayList<>(waiting);
    List<Sent> unsent = outbox;
    outbox = new ArrayList<>();
    unanswered.removeAll(unsent);
    unanswered.forEach(sent -> settle(sent, new Failed(Failure.UNANSWERED, trouble)));
    unsent.forEach(sent -> settle(sent, new Failed(Failure.UNSENT, trouble)));
  }

  /** The driver closes the connection, if there is one; those that it is making come after this. */
  final CompletableFuture<?> close() {
    closed = true;
    loop.cancel(alarm);
    if (connection != null) {
      end("the client was closed");
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
      send(pulse(), this::lives, patience());
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
      Failed failed = new Failed(Failure.UNSENT, trouble);
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
    sent.alarm = loop.at(engine.now() + GRACE, () -> down(mine, "no reply in time"));
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
      down(attempt, error.getMessage());
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
