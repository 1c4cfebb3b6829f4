package rlock.client;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;

/**
 * One acquisition, from its first request to its last: decisions only.
 *
 * <p>The machine reads no clock and does no I/O. Its shell feeds it inputs with the time, and
 * carries out what it returns. All times are in nanoseconds.
 */
final class Machine {
  static final long MS = 1_000_000;

  /** No time: a wait without an end, no timer. */
  static final long NEVER = Long.MAX_VALUE;

  // A waiter that has heard nothing asks again after this time, and then as often as the holder's
  // lease lasts.
  private static final long FIRST_LOOK = 1_000 * MS;
  private static final long LONGEST_LOOK = 30_000 * MS;
  // The pause after a request that failed; each next is twice as long.
  private static final long FIRST_PAUSE = 20 * MS;
  private static final long LONGEST_PAUSE = 1_000 * MS;
  private static final long WINDOW = 100 * MS;
  private static final int DOUBLINGS = 6;
  // A request without an answer can be carried out late: a release is repeated after this time.
  private static final long STRAY = 1_000 * MS;

  enum Phase {
    NEW,
    ASKING,
    QUEUED,
    CONFIRMING,
    HELD,
    RELEASING,
    LOST,
    CANCELLING,
    ENDED;

    boolean waits() {
      return compareTo(CONFIRMING) <= 0;
    }
  }

  enum Command {
    ENQUEUE,
    ACQUIRE,
    RENEW,
    CANCEL,
    RELEASE
  }

  enum Notice {
    GRANTED,
    TIMEOUT,
    DROPPED
  }

  /** What a failure means for the next command. */
  enum Failure {
    /** Refused, and the same would be refused again. */
    FINAL,
    /** Refused for now. */
    PASSING,
    /** Refused until another server takes over. */
    DRAINING,
    /** The key holds something else. */
    GONE,
    UNSENT,
    /** The server may have carried it out. */
    UNANSWERED
  }

  /** What the server answered. */
  sealed interface Answer {}

  record Granted(long token) implements Answer {}

  /** A place in the queue. */
  record Waits(long holderLease) implements Answer {}

  /** Of RENEW, CANCEL and RELEASE. */
  record Count(long value) implements Answer {}

  record Null() implements Answer {}

  record Failed(Failure failure, RlockException error) implements Answer {}

  /** What the shell must do. */
  sealed interface Output {}

  /**
   * A command to send.
   *
   * @param waitMs of ENQUEUE; 0 is for ever
   * @param look also ask for the holder's lease
   * @param leaseMs of RENEW, where it is not the whole lease; else 0
   */
  record Send(int number, Command command, long waitMs, boolean look, long leaseMs)
      implements Output {}

  record Timer(long at) implements Output {}

  record Told(What what, RlockException error, long token, Outcome outcome) implements Output {}

  enum What {
    ACQUIRED,
    TIMED_OUT,
    DENIED,
    ERROR,
    RENEWED,
    RENEWAL_FAILED,
    LOST,
    RELEASED,
    /** Nothing is left here nor, as far as it is known, in the server. */
    ENDED
  }

  enum Outcome {
    OK,
    LOST,
    UNKNOWN,
    ERROR
  }

  private Plan plan;
  private Phase phase = Phase.NEW;
  private LostReason why;
  private boolean down;
  private List<Output> out = new ArrayList<>();
  private long now;
  private int number;
  private int pending; // the request whose reply counts
  private long end = NEVER; // of the wait
  private long next = NEVER; // when the next request is due
  private int asks;
  private int looks;
  private long pause = FIRST_PAUSE;
  private long token;
  private long deadline;
  private long renewAt;
  // With a session the hold ends with this connection, which lived at `proven`.
  private boolean tied;
  private long proven;
  private int failures;
  private boolean stray; // a request was not answered
  private boolean repeated; // nor a release
  private boolean queued;
  private long giveUp;
  private long timer = NEVER;
  private RlockException error;
  private boolean answered;

  Machine(Plan plan, boolean up) {
    this.plan = plan;
    this.down = !up;
  }

  /** Renewals that are due so soon go along with those that are due now. */
  static long window(long lease) {
    return Math.max(1, Math.min(WINDOW, lease / 30));
  }

  Plan plan() {
    return plan;
  }

  Phase phase() {
    return phase;
  }

  /** Why the lock was lost; null if it was not. */
  LostReason why() {
    return why;
  }

  boolean down() {
    return down;
  }

  /** The server has answered its release. */
  boolean answered() {
    return answered;
  }

  long timer() {
    return timer;
  }

  /**
   * Of a held lock, by the local clock: by its lease, and with a session by the life of the
   * connection.
   */
  long end() {
    return plan.grace() == 0 ? deadline : Math.min(deadline, plan.endOf(proven, plan.grace()));
  }

  /** One input at this time: what is to be done. */
  List<Output> take(long now, Consumer<Machine> input) {
    this.out = new ArrayList<>();
    this.now = now;
    // Before anything else: a reply that comes too late must not bring a lost lock back.
    if (phase == Phase.HELD && now >= end()) {
      lost(LostReason.EXPIRED);
    }
    input.accept(this);
    long at = wakeAt();
    if (at != timer) {
      timer = at;
      out.add(new Timer(at));
    }
    return out;
  }

  // The inputs.

  void start() {
    if (plan.limit() != NEVER) {
      end = now + (plan.limit() == 0 ? 2 * plan.response() : plan.limit());
    }
    ask();
  }

  void cancel(RlockException error) {
    if (phase.waits()) {
      leave(What.ERROR, error);
    }
  }

  void lose(LostReason why) {
    if (phase == Phase.HELD) {
      lost(why);
    }
  }

  /** The server has confirmed this lease by a command of another kind, sent at this time. */
  void extend(long sentAt, long lease, boolean renew) {
    if (phase != Phase.HELD) {
      return;
    }
    if (lease > plan.lease() || renew) {
      plan = plan.withLease(lease, plan.response()).withRenew(renew);
    }
    extend(sentAt);
  }

  /** A command that was sent on the link at this time was answered. */
  void alive(long sentAt) {
    if (tied) {
      proven = Math.max(proven, sentAt);
    }
  }

  void reply(int number, long sentAt, Answer answer) {
    if (answer instanceof Failed failed && failed.failure == Failure.UNANSWERED) {
      stray = true;
    }
    if (number != pending) {
      return;
    }
    pending = 0;
    switch (phase) {
      case ASKING -> asked(sentAt, answer);
      case CONFIRMING -> confirmed(sentAt, answer);
      case HELD -> renewed(sentAt, answer);
      case RELEASING -> released(answer);
      case CANCELLING -> left(answer);
      default -> {}
    }
  }

  void message(Notice notice, long token) {
    if (phase != Phase.ASKING && phase != Phase.QUEUED) {
      return;
    }
    if (notice == Notice.GRANTED) {
      confirm(token);
    } else {
      // DROPPED or TIMEOUT, maybe of an earlier wait of this owner: only the clock ends this one.
      phase = Phase.ASKING;
      pending = 0;
      rest();
    }
  }

  void linkDown() {
    down = true;
    pending = 0;
    tied = false;
  }

  void linkUp() {
    down = false;
    pause = FIRST_PAUSE;
    switch (phase) {
      case ASKING, QUEUED, CONFIRMING -> ask();
      case HELD -> {
        if (plan.renew() || plan.grace() > 0) {
          renew();
        }
      }
      case RELEASING -> sendRelease();
      case CANCELLING -> depart();
      default -> {}
    }
  }

  void tick() {
    boolean due = now >= next && !down;
    switch (phase) {
      case NEW, ASKING, QUEUED, CONFIRMING -> {
        if (now >= end) {
          leave(plan.limit() == 0 ? What.ERROR : What.TIMED_OUT, error);
        } else if (due) {
          looks += phase == Phase.QUEUED ? 1 : 0;
          ask();
        }
      }
      case HELD -> {
        if (renews() && now >= renewAt - window(plan.lease())) {
          renew();
        }
      }
      case RELEASING -> {
        if (now >= giveUp) {
          settle(Outcome.UNKNOWN, error);
        } else if (due) {
          sendRelease();
        }
      }
      case CANCELLING -> {
        if (now >= giveUp) {
          finish();
        } else if (due) {
          depart();
        }
      }
      default -> {}
    }
  }

  void release() {
    if (phase == Phase.LOST) {
      // The server may have the hold still, and others wait for it.
      phase = Phase.CANCELLING;
      queued = false;
      giveUp = now + plan.lease();
      depart();
    } else if (phase == Phase.HELD) {
      phase = Phase.RELEASING;
      giveUp = deadline;
      next = NEVER;
      if (!down) {
        sendRelease();
      }
    }
  }

  // Asking.

  private void ask() {
    phase = Phase.ASKING;
    next = NEVER;
    pending = 0;
    if (down) {
      return;
    }
    asks++;
    giveUp = now + plan.lease() + STRAY;
    if (plan.limit() == 0) {
      send(Command.ACQUIRE, 0, false, 0);
      return;
    }
    queued = true;
    // Rounded up, since 0 is for ever.
    long left = end == NEVER ? 0 : Math.max(1, (end - now + MS - 1) / MS);
    send(Command.ENQUEUE, left, looks > 0, 0);
  }

  private void asked(long sentAt, Answer answer) {
    if (answer instanceof Granted granted) {
      token = granted.token;
      hold(sentAt);
    } else if (answer instanceof Waits waits) {
      phase = Phase.QUEUED;
      pause = FIRST_PAUSE;
      error = null;
      long look = Math.min(Math.max(waits.holderLease, FIRST_LOOK), LONGEST_LOOK);
      next = now + (looks > 0 ? look : FIRST_LOOK);
    } else if (answer instanceof Failed failed) {
      failed(failed);
    } else {
      refuse(What.DENIED, null);
    }
  }

  private void confirm(long token) {
    phase = Phase.CONFIRMING;
    this.token = token;
    next = NEVER;
    giveUp = now + plan.lease() + STRAY;
    // The token of the message may be one of an earlier grant.
    send(plan.fenced() ? Command.ACQUIRE : Command.RENEW, 0, false, 0);
  }

  private void confirmed(long sentAt, Answer answer) {
    if (answer instanceof Granted granted) {
      token = granted.token;
      hold(sentAt);
    } else if (isOne(answer)) {
      hold(sentAt);
    } else if (answer instanceof Failed failed) {
      failed(failed);
    } else {
      ask();
    }
  }

  private void hold(long sentAt) {
    extend(sentAt);
    proven = sentAt;
    if (end() <= now) {
      // The reply lay in a buffer for longer than the lease: only the server can tell.
      confirm(token);
      return;
    }
    phase = Phase.HELD;
    tied = true;
    pending = 0;
    next = NEVER;
    out.add(new Told(What.ACQUIRED, null, token, null));
  }

  /** A request for the lock failed: it is made again, unless that is pointless. */
  private void failed(Failed answer) {
    error = answer.error;
    boolean pointless =
        switch (answer.failure) {
          case FINAL, GONE -> true;
          case DRAINING -> plan.limit() == 0;
          default -> false;
        };
    if (!pointless) {
      phase = Phase.ASKING;
      rest();
    } else if (asks > 1 || phase == Phase.CONFIRMING) {
      // It was not carried out, but those before it may have been.
      leave(What.ERROR, error);
    } else {
      refuse(What.ERROR, error);
    }
  }

  private void rest() {
    next = now + pause;
    pause = Math.min(pause * 2, LONGEST_PAUSE);
  }

  // Holding.

  private boolean renews() {
    return (plan.renew() || (plan.grace() > 0 && !tied)) && pending == 0 && !down;
  }

  private void renew() {
    long left = deadline - now;
    // A fixed lease is only tied to another connection: it ends when it would have.
    send(Command.RENEW, 0, false, plan.renew() ? 0 : (left + left / 99 + plan.slack()) / MS + 4);
  }

  private void renewed(long sentAt, Answer answer) {
    if (answer instanceof Failed failed && failed.failure != Failure.GONE) {
      // Short pauses first: most failures are over soon.
      renewAt = now + (plan.lease() / 12 >> DOUBLINGS - Math.min(failures, DOUBLINGS));
      failures++;
      out.add(new Told(What.RENEWAL_FAILED, failed.error, 0, null));
    } else if (isOne(answer)) {
      failures = 0;
      tied = true;
      proven = Math.max(proven, sentAt);
      if (plan.renew()) {
        extend(sentAt);
      }
      out.add(new Told(What.RENEWED, null, 0, null));
    } else {
      lost(LostReason.TAKEN);
    }
  }

  private void extend(long sentAt) {
    deadline = Math.max(deadline, plan.endOf(sentAt, plan.lease()));
    renewAt = sentAt + plan.lease() / 3;
  }

  private void lost(LostReason why) {
    phase = Phase.LOST;
    this.why = why;
    pending = 0;
    out.add(new Told(What.LOST, null, 0, null));
    if (why == LostReason.TAKEN) {
      // The server has nothing left to release.
      finish();
    }
  }

  // Releasing.

  private void sendRelease() {
    next = NEVER;
    send(Command.RELEASE, 0, false, 0);
  }

  private void released(Answer answer) {
    if (answer instanceof Failed failed && failed.failure != Failure.GONE) {
      error = failed.error;
      if (failed.failure == Failure.FINAL) {
        settle(Outcome.ERROR, error);
        return;
      }
      repeated |= failed.failure == Failure.UNANSWERED;
      rest();
    } else if (answer instanceof Count) {
      settle(Outcome.OK, null);
    } else {
      settle(repeated ? Outcome.UNKNOWN : Outcome.LOST, error);
    }
  }

  private void settle(Outcome outcome, RlockException error) {
    why = outcome == Outcome.LOST ? LostReason.TAKEN : null;
    out.add(new Told(What.RELEASED, error, 0, outcome));
    done();
  }

  // Leaving without the lock.

  private void leave(What what, RlockException error) {
    if (asks == 0) {
      refuse(what, error);
      return;
    }
    out.add(new Told(what, error == null ? this.error : error, 0, null));
    phase = Phase.CANCELLING;
    pause = FIRST_PAUSE;
    depart();
  }

  private void depart() {
    next = NEVER;
    if (down) {
      return;
    }
    // In this order: a grant between the two is released by the second.
    if (queued) {
      send(Command.CANCEL, 0, false, 0);
    }
    send(Command.RELEASE, 0, false, 0);
  }

  private void left(Answer answer) {
    if (answer instanceof Failed failed
        && failed.failure != Failure.FINAL
        && failed.failure != Failure.GONE) {
      rest();
    } else {
      done();
    }
  }

  /** The server has answered the release; a request that is still under way would come after it. */
  private void done() {
    answered = true;
    if (!stray || down) {
      finish();
      return;
    }
    phase = Phase.CANCELLING;
    stray = false;
    queued = true;
    next = now + STRAY;
    giveUp = now + 3 * STRAY;
  }

  private void refuse(What what, RlockException error) {
    out.add(new Told(what, error == null ? this.error : error, 0, null));
    finish();
  }

  private void finish() {
    phase = Phase.ENDED;
    pending = 0;
    out.add(new Told(What.ENDED, null, 0, null));
  }

  private void send(Command command, long waitMs, boolean look, long leaseMs) {
    number++;
    pending = number;
    out.add(new Send(number, command, waitMs, look, leaseMs));
  }

  private static boolean isOne(Answer answer) {
    return answer instanceof Count count && count.value == 1;
  }

  private long wakeAt() {
    long nextAt = down ? NEVER : next;
    return switch (phase) {
      case NEW, ASKING, QUEUED, CONFIRMING -> Math.min(end, nextAt);
      case HELD -> Math.min(end(), renews() ? renewAt : NEVER);
      case RELEASING, CANCELLING -> Math.min(giveUp, nextAt);
      case LOST, ENDED -> NEVER;
    };
  }
}
