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
  private static final Answer ONE = new Count(1);
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
    /** RENEW without a session: the hold then ends by itself. */
    KEEP,
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
    /** Refused for now, or not sent. */
    PASSING,
    /** Refused until another server takes over. */
    DRAINING,
    /** The key holds something else. */
    GONE,
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
   * @param ms the wait of ENQUEUE, where 0 is for ever; the lease of RENEW, where 0 is the plan's
   * @param look also ask for the holder's lease
   */
  record Send(int number, Command command, long ms, boolean look) implements Output {}

  record Timer(long at) implements Output {}

  record Told(What what, long token, Outcome outcome) implements Output {}

  enum What {
    ACQUIRED,
    TIMED_OUT,
    DENIED,
    ERROR,
    /** There is nothing to adopt. */
    NOT_HELD,
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

  Plan plan;
  Phase phase = Phase.NEW;

  /** Why the lock was lost; null if it was not. */
  LostReason why;

  boolean down;

  /** The request whose reply counts, or 0. */
  int pending;

  /** When to tick. */
  long timer = NEVER;

  /** When the lease ends by the local clock. */
  long deadline;

  /** The server has answered the release. */
  boolean answered;

  private List<Output> out = new ArrayList<>();
  private long now;
  private int number;
  private long end = NEVER; // of the wait
  private long next = NEVER; // when the next request is due
  private int asks;
  private int looks;
  private long pause = FIRST_PAUSE;
  private long token;
  private long firstSent; // no grant of this owner is older
  private long renewAt;
  private long unconfirmed; // the lease of a grant that no RENEW has confirmed, else 0
  // All requests went by this connection, or it confirmed the hold. It lived at `proven`.
  private boolean tied;
  private long proven;
  private int failures;
  private boolean stray; // a request was not answered, and may be carried out late
  private boolean overtaken; // nor was one when a message ended the wait
  private boolean repeated; // a release was not answered
  private boolean queued;
  private long heldAt;
  private long keptUntil; // after the release: 0 no longer, NEVER in another process
  private boolean adopts;
  private long giveUp;

  Machine(Plan plan, boolean up) {
    this.plan = plan;
    this.down = !up;
  }

  /** Renewals that are due so soon go along with those that are due now. */
  static long window(long lease) {
    return Math.max(1, Math.min(WINDOW, lease / 30));
  }

  /** The hold outlasts its release: nothing may end it. */
  boolean kept() {
    return keptUntil > 0;
  }

  /** When the hold ends by the local clock: with a session also by the life of the connection. */
  long end() {
    return plan.grace == 0 ? deadline : Math.min(deadline, plan.endOf(proven, plan.grace));
  }

  /** Why a hold is lost whose end has come. */
  LostReason whyAtEnd(long now) {
    return overdue(now) ? LostReason.OVERDUE : LostReason.EXPIRED;
  }

  /** One input at this time: what is to be done. */
  List<Output> take(long now, Consumer<Machine> input) {
    this.out = new ArrayList<>();
    this.now = now;
    // Before anything else: a reply that comes too late must not bring a lost lock back.
    if (phase == Phase.HELD && now >= end()) {
      lost(whyAtEnd(now));
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

  /** `adopt`: begins with the hold of an owner that another process has detached. */
  void start(boolean adopt) {
    adopts = adopt;
    if (plan.limit != NEVER) {
      end = now + (plan.limit == 0 ? 2 * plan.response : plan.limit);
    }
    ask();
  }

  /** Of a lock that is held: the caller is gone, and has not received it. */
  void cancel() {
    if (phase.waits()) {
      leave(What.ERROR);
    } else {
      end(0);
    }
  }

  void lose(LostReason why) {
    if (phase == Phase.HELD) {
      lost(why);
    }
  }

  /** A command that was sent on the link at this time was answered. */
  void alive(long sentAt) {
    if (tied) {
      proven = Math.max(proven, sentAt);
    }
  }

  void reply(int number, long sentAt, Answer answer) {
    stray |= answer instanceof Failed failed && failed.failure == Failure.UNANSWERED;
    if (number != pending) {
      return;
    }
    pending = 0;
    switch (phase) {
      case ASKING, CONFIRMING -> asked(sentAt, answer);
      case HELD -> renewed(sentAt, answer);
      case RELEASING -> released(sentAt, answer);
      case CANCELLING -> {
        if (passes(answer)) {
          rest();
        } else {
          done();
        }
      }
      default -> {}
    }
  }

  /**
   * A message to the waiter.
   *
   * @param lease in the message; 0 if it is not to be relied on
   * @param current it came by the subscription at the server to which the last ENQUEUE went, while
   *     the command link to that server was up
   */
  void message(Notice notice, long token, long lease, boolean current) {
    if (phase != Phase.ASKING && phase != Phase.QUEUED) {
      return;
    }
    if (notice != Notice.GRANTED) {
      // Maybe of an earlier wait of this owner: only the clock ends this one.
      phase = Phase.ASKING;
      overtaken |= pending != 0;
      pending = 0;
      rest();
      return;
    }
    // After a broken link the message may be older than a restart that lost the lock, and of an
    // owner that was used before it may be one of an earlier grant.
    boolean proved = current && !plan.confirmFirst && tied && (!plan.fenced || asks == 1);
    deadline = proved ? plan.endOf(firstSent, lease) : 0;
    if (!proved || deadline - now < lease / 2 || end() <= now) {
      confirm(token);
      return;
    }
    // A repeat without an answer may be carried out after this grant has ended.
    stray |= asks > 1 && (pending != 0 || overtaken);
    this.token = token;
    unconfirmed = lease;
    renewAt = now + lease / 10;
    held();
  }

  /** `lived`: the connection is not known to have lived later. */
  void linkDown(long lived) {
    down = true;
    proven = Math.min(proven, lived);
    pending = 0;
    tied = false;
  }

  void linkUp() {
    down = false;
    pause = FIRST_PAUSE;
    switch (phase) {
      case ASKING, QUEUED, CONFIRMING -> ask();
      case HELD -> {
        if (wantsWholeLease() || plan.grace > 0) {
          renew();
        }
      }
      case RELEASING, CANCELLING -> depart();
      default -> {}
    }
  }

  void tick() {
    boolean due = now >= next && !down;
    switch (phase) {
      case NEW, ASKING, QUEUED, CONFIRMING -> {
        if (now >= end) {
          leave(plan.limit == 0 ? What.ERROR : What.TIMED_OUT);
        } else if (due) {
          looks += phase == Phase.QUEUED ? 1 : 0;
          ask();
        }
      }
      case HELD -> {
        if (renews() && now >= renewAt - window(plan.lease)) {
          renew();
        }
      }
      case RELEASING, CANCELLING -> {
        if (now >= giveUp && phase == Phase.RELEASING) {
          settle(Outcome.UNKNOWN);
        } else if (now >= giveUp) {
          finish();
        } else if (due) {
          depart();
        }
      }
      default -> {}
    }
  }

  void release() {
    long until = heldAt + plan.atLeast;
    end(now < until ? until : 0);
  }

  /** The caller leaves the lock to another process. */
  void detach() {
    end(NEVER);
  }

  // Asking.

  private void ask() {
    phase = adopts ? Phase.CONFIRMING : Phase.ASKING;
    next = NEVER;
    pending = 0;
    if (down) {
      return;
    }
    if (!adopts && asks++ == 0) {
      firstSent = now;
      proven = now;
      tied = true;
    }
    giveUp = now + plan.lease + STRAY;
    if (adopts || plan.limit == 0) {
      send(adopts ? Command.RENEW : Command.ACQUIRE, 0, false);
    } else {
      queued = true;
      // Rounded up, since 0 is for ever.
      long left = end == NEVER ? 0 : Math.max(1, (end - now + MS - 1) / MS);
      send(Command.ENQUEUE, left, looks > 0);
    }
  }

  /** The answer to a request for the lock, or to one that confirms a grant. */
  private void asked(long sentAt, Answer answer) {
    boolean confirming = phase == Phase.CONFIRMING;
    if (answer instanceof Granted granted) {
      token = granted.token;
      hold(sentAt);
    } else if (confirming && answer.equals(ONE)) {
      hold(sentAt);
    } else if (answer instanceof Failed failed) {
      failed(failed);
    } else if (confirming && !adopts) {
      ask();
    } else if (answer instanceof Waits waits) {
      phase = Phase.QUEUED;
      pause = FIRST_PAUSE;
      long look = Math.min(Math.max(waits.holderLease, FIRST_LOOK), LONGEST_LOOK);
      next = now + (looks > 0 ? look : FIRST_LOOK);
      alive(sentAt);
    } else {
      refuse(adopts ? What.NOT_HELD : What.DENIED);
    }
  }

  private void confirm(long token) {
    phase = Phase.CONFIRMING;
    this.token = token;
    next = NEVER;
    giveUp = now + plan.lease + STRAY;
    // The token of the message may be one of an earlier grant.
    send(plan.fenced ? Command.ACQUIRE : Command.RENEW, 0, false);
  }

  private void hold(long sentAt) {
    deadline = plan.endOf(sentAt, plan.lease);
    confirmed(sentAt, plan.lease);
    if (end() <= now) {
      // The reply lay in a buffer for longer than the lease: only the server can tell.
      confirm(token);
      return;
    }
    held();
  }

  private void held() {
    phase = Phase.HELD;
    heldAt = now;
    // A RENEW of the process that detached the hold may be carried out late, with another lease.
    renewAt = adopts ? Math.min(renewAt, now + STRAY) : renewAt;
    pending = 0;
    next = NEVER;
    out.add(new Told(What.ACQUIRED, token, null));
  }

  /** A request for the lock failed: it is made again, unless that is pointless. */
  private void failed(Failed answer) {
    if (passes(answer) && (answer.failure != Failure.DRAINING || plan.limit != 0)) {
      phase = adopts ? phase : Phase.ASKING;
      rest();
    } else if (asks > 1 || phase == Phase.CONFIRMING) {
      // It was not carried out, but those before it may have been.
      leave(What.ERROR);
    } else {
      refuse(What.ERROR);
    }
  }

  private void rest() {
    next = now + pause;
    pause = Math.min(pause * 2, LONGEST_PAUSE);
  }

  // Holding.

  private boolean overdue(long now) {
    return plan.maxHold != NEVER && now >= heldAt + plan.maxHold;
  }

  /** Whether a RENEW asks for the whole lease. */
  private boolean wantsWholeLease() {
    return plan.renew && !overdue(now) || unconfirmed > 0;
  }

  private boolean renews() {
    boolean wanted = wantsWholeLease() || adopts || plan.grace > 0 && !tied;
    return wanted && pending == 0 && !down;
  }

  private void renew() {
    long left = deadline - now;
    // A fixed lease is only tied to another connection: it ends when it would have.
    send(Command.RENEW, wantsWholeLease() ? 0 : (left + left / 99 + plan.slack) / MS + 4, false);
  }

  private void renewed(long sentAt, Answer answer) {
    if (passes(answer) || answer instanceof Failed failed && failed.failure == Failure.FINAL) {
      // Short pauses first: most failures are over soon.
      long lease = unconfirmed > 0 ? unconfirmed : plan.lease;
      renewAt = now + (lease / 12 >> DOUBLINGS - Math.min(failures, DOUBLINGS));
      failures++;
      out.add(new Told(What.RENEWAL_FAILED, 0, null));
    } else if (answer.equals(ONE)) {
      adopts = false;
      confirmed(sentAt, wantsWholeLease() ? plan.lease : 0);
      out.add(new Told(What.RENEWED, 0, null));
    } else {
      lost(LostReason.TAKEN);
    }
  }

  /** The server has confirmed the hold; `lease` counts from the sending, unless it is 0. */
  private void confirmed(long sentAt, long lease) {
    failures = 0;
    tied = true;
    proven = Math.max(proven, sentAt);
    prolong(sentAt, lease);
  }

  /** The server has confirmed this lease, by a command that was sent at this time. */
  void prolong(long sentAt, long lease) {
    deadline = Math.max(deadline, lease == 0 ? 0 : plan.endOf(sentAt, lease));
    unconfirmed = 0;
    renewAt = sentAt + plan.lease / 3;
  }

  private void lost(LostReason why) {
    phase = Phase.LOST;
    this.why = why;
    pending = 0;
    out.add(new Told(What.LOST, 0, null));
    if (why == LostReason.TAKEN) {
      // The server has nothing left to release.
      done();
    }
  }

  // Releasing.

  /** The caller has the lock no longer; `keep`: how long it stays held. */
  private void end(long keep) {
    if (phase == Phase.LOST && keep > 0) {
      // Its lease will end, and that is not too soon.
      keptUntil = keep;
      finish();
    } else if (phase == Phase.LOST) {
      // The server may have the hold still, and others wait for it.
      phase = Phase.CANCELLING;
      queued = false;
      giveUp = now + plan.lease;
      depart();
    } else if (phase == Phase.HELD) {
      phase = Phase.RELEASING;
      keptUntil = keep;
      giveUp = deadline;
      depart();
    }
  }

  /** Sends what ends the hold, or keeps it for its time. */
  private void depart() {
    next = NEVER;
    if (down) {
      return;
    }
    if (now < keptUntil) {
      long lease = keptUntil == NEVER ? plan.lease : keptUntil - now;
      send(Command.KEEP, (lease + MS - 1) / MS, false);
      return;
    }
    // In this order: a grant between the two is released by the second.
    if (phase == Phase.CANCELLING && queued) {
      send(Command.CANCEL, 0, false);
    }
    send(Command.RELEASE, 0, false);
  }

  private void released(long sentAt, Answer answer) {
    if (passes(answer)) {
      repeated |= ((Failed) answer).failure == Failure.UNANSWERED;
      rest();
    } else if (answer instanceof Failed failed && failed.failure == Failure.FINAL) {
      settle(Outcome.ERROR);
    } else if (answer instanceof Count count && (count.value > 0 || !kept())) {
      deadline = keptUntil == NEVER ? plan.endOf(sentAt, plan.lease) : deadline;
      settle(Outcome.OK);
    } else {
      // What is kept is asked for by RENEW only: 0 is certain, whatever came before.
      settle(repeated && !(answer instanceof Count) ? Outcome.UNKNOWN : Outcome.LOST);
    }
  }

  private void settle(Outcome outcome) {
    why = outcome == Outcome.LOST ? LostReason.TAKEN : null;
    out.add(new Told(What.RELEASED, 0, outcome));
    keptUntil = outcome == Outcome.LOST ? 0 : keptUntil;
    // The process that adopts the hold sets its lease. If it is unknown what became of the hold,
    // its lease ends it.
    stray &= !kept() || outcome == Outcome.OK && keptUntil != NEVER;
    done();
  }

  // Leaving without the lock.

  private void leave(What what) {
    if (asks == 0 || adopts) {
      refuse(what);
      return;
    }
    out.add(new Told(what, 0, null));
    phase = Phase.CANCELLING;
    pause = FIRST_PAUSE;
    depart();
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

  private void refuse(What what) {
    out.add(new Told(what, 0, null));
    finish();
  }

  private void finish() {
    phase = Phase.ENDED;
    pending = 0;
    out.add(new Told(What.ENDED, 0, null));
  }

  private void send(Command command, long ms, boolean look) {
    number++;
    pending = number;
    out.add(new Send(number, command, ms, look));
  }

  /** A failure after which the same command may succeed. */
  private static boolean passes(Answer answer) {
    return answer instanceof Failed failed
        && failed.failure != Failure.FINAL
        && failed.failure != Failure.GONE;
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
