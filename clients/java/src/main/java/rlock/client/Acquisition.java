package rlock.client;

import io.lettuce.core.cluster.SlotHash;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;
import java.util.function.Supplier;
import rlock.client.Engine.Answered;
import rlock.client.Engine.Refused;
import rlock.client.Event.Kind;
import rlock.client.Link.Receiver;
import rlock.client.Link.Refusal;
import rlock.client.Machine.Answer;
import rlock.client.Machine.Command;
import rlock.client.Machine.Count;
import rlock.client.Machine.Failed;
import rlock.client.Machine.Failure;
import rlock.client.Machine.Granted;
import rlock.client.Machine.Outcome;
import rlock.client.Machine.Output;
import rlock.client.Machine.Phase;
import rlock.client.Machine.Send;
import rlock.client.Machine.Told;
import rlock.client.RlockException.Closed;
import rlock.client.RlockException.Denied;
import rlock.client.RlockException.Invalid;
import rlock.client.RlockException.LockLost;
import rlock.client.RlockException.OutcomeUnknown;
import rlock.client.RlockException.Timeout;
import rlock.client.Wire.Claim;
import rlock.client.Wire.Mode;

/** One owner, from its first request to its last: the shell of a machine. */
final class Acquisition {
  private static final long SETTLES = 100 * Machine.MS;

  final Engine engine;
  final Claim claim;

  /** The token. */
  final CompletableFuture<Long> acquired = new CompletableFuture<>();

  final CompletableFuture<Void> released = new CompletableFuture<>();

  /** Completed in another thread, since the application's code follows it. */
  final CompletableFuture<LostReason> lost = new CompletableFuture<>();

  /** Nothing is left of it in the server, as far as it is known. */
  private final CompletableFuture<Void> gone = new CompletableFuture<>();

  /** What its guard belongs to: of a named owner, maybe an earlier acquisition. */
  Acquisition entered = this;

  /** Of a lock that ends with its thread; else null. */
  volatile Thread thread;

  private final AtomicInteger guards = new AtomicInteger(1);
  // The server has as many, or more: it denies a re-entry that counts on others. So one change at a
  // time.
  private int holds = 1;
  private final AtomicReference<CompletableFuture<Void>> turns =
      new AtomicReference<>(CompletableFuture.completedFuture(null));
  // The machine decides under this lock: `check` never sees a deadline that has passed and is moved
  // later.
  private final ReentrantLock deciding = new ReentrantLock();
  private final Machine machine;
  private final long response;
  private volatile Plan plan;
  private final int slot;
  private final long began;
  private long heldSince;
  private boolean detached;
  private Commands link; // to the server that has the lock, as far as is known
  private Commands tied; // to the server that a session is tied to: another one while a slot moves
  private long tiedAt; // when the youngest connection was made that may have tied it
  // Where commands are under way that may tie it.
  private final List<Commands> tying = new ArrayList<>();
  private long followed; // when a refusal led it to another server
  private int untied; // the last command that was refused as UNTIED
  private boolean heard; // the server has answered a command
  private RlockException last; // why the last command failed, if it did
  private Loop.Timer timer;
  private Object holderLease;

  /** `owner`: null for a new one. */
  Acquisition(Engine engine, Plan asked, String owner) {
    this.engine = engine;
    this.plan =
        asked.with(
            one -> {
              one.owner = owner;
              // A message may be about an earlier grant of an owner that was used before.
              one.confirmFirst = owner != null;
            });
    this.slot = SlotHash.getSlot(plan.lock);
    this.claim = new Claim(plan.lock, owner == null ? engine.owner() : owner, plan.mode);
    // Asking once ends after two of its times.
    this.machine = new Machine(plan.with(one -> one.response = engine.patience() / 2), false);
    this.response = plan.response;
    this.began = engine.now();
  }

  // In any thread.

  Plan plan() {
    return plan;
  }

  String lock() {
    return plan.lock;
  }

  int slot() {
    return slot;
  }

  /** What is left by the local clock; throws LockLost if nothing is. */
  long check() {
    deciding.lock();
    try {
      boolean held = machine.phase == Phase.HELD;
      long now = engine.now();
      long left = held ? machine.end() - now : 0;
      if (left > 0) {
        return left;
      }
      LostReason otherwise = held ? machine.whyAtEnd(now) : LostReason.RELEASED;
      throw new LockLost(plan, machine.why == null ? otherwise : machine.why);
    } finally {
      deciding.unlock();
    }
  }

  /** Why it was lost, or null. */
  LostReason why() {
    deciding.lock();
    try {
      return machine.why;
    } finally {
      deciding.unlock();
    }
  }

  /** The application works under it. */
  boolean works() {
    return machine.phase == Phase.HELD || machine.phase == Phase.LOST;
  }

  /** It was held, and the server has not answered a release. */
  boolean unreleased() {
    return heldSince > 0 && !machine.answered;
  }

  /** How long its guards have had it. */
  long held() {
    return engine.now() - heldSince;
  }

  boolean orphaned() {
    Thread holder = thread;
    return holder != null && !holder.isAlive();
  }

  /** `adopt`: with the hold that another process has detached. */
  void begin(boolean adopt) {
    engine.post(() -> start(adopt));
  }

  /**
   * A guard has ended: completes with its release, within the time for a call. The release goes on.
   */
  CompletableFuture<Void> drop() {
    return drop(Machine::release);
  }

  /** No caller waits for a guard any more. */
  void abandon() {
    drop(Machine::cancel);
  }

  /** By `Machine.cancel` nothing is kept for at-least. */
  CompletableFuture<Void> drop(Consumer<Machine> ending) {
    if (guards.decrementAndGet() == 0) {
      return ended(ending);
    }
    return inTurn(
            () -> {
              CompletableFuture<Void> answered = new CompletableFuture<>();
              engine.post(() -> releaseOthers(answered));
              return answered;
            })
        .exceptionally(closed -> null);
  }

  private CompletableFuture<Void> ended(Consumer<Machine> ending) {
    CompletableFuture<Void> answer = released.copy();
    engine.loop.execute(
        () -> {
          engine.limit(answer, engine.patience(), () -> new OutcomeUnknown(lock(), trouble()));
          dropped(ending);
        });
    return answer;
  }

  /** Leaves the lock to another process; null if there are other guards. */
  CompletableFuture<Long> detach() {
    if (!guards.compareAndSet(1, 0)) {
      return null;
    }
    return ended(
            machine -> {
              detached = true;
              machine.detach();
            })
        .thenApply(done -> machine.deadline - engine.now());
  }

  /** Ends the wait, if it is not over. */
  void cancel() {
    engine.loop.execute(() -> cancel(null));
  }

  /** Adds a guard, unless the last one has ended. */
  boolean share() {
    return guards.getAndUpdate(count -> count == 0 ? 0 : count + 1) > 0;
  }

  /** A hold for a guard that was added: its token. */
  CompletableFuture<Long> reenter() {
    if (plan.mode == Mode.PERMIT) {
      // The server counts one permit, however many guards there are here.
      return CompletableFuture.completedFuture(0L);
    }
    return inTurn(
            () -> {
              List<String> words = Wire.acquire(plan, claim.owner(), holds + 1);
              return extend(words, plan.lease, plan.renew).thenApply(this::counted);
            })
        .whenComplete(
            (token, error) -> {
              if (error != null) {
                // It may be the last: others can end meanwhile.
                drop();
              }
            });
  }

  private long counted(long token) {
    holds++;
    return token;
  }

  /** Changes the number of holds, after all earlier changes. */
  private <T> CompletableFuture<T> inTurn(Supplier<CompletableFuture<T>> change) {
    CompletableFuture<Void> done = new CompletableFuture<>();
    return turns
        .getAndSet(done)
        .thenCompose(turn -> change.get())
        .whenComplete((result, error) -> done.complete(null));
  }

  /** Another lease from now on. */
  CompletableFuture<Long> prolong(long lease, boolean renew) {
    return extend(Wire.renew(plan, claim.owner(), lease), lease, renew);
  }

  private CompletableFuture<Long> extend(List<String> words, long lease, boolean renew) {
    return engine
        .ask(words, this)
        .thenApplyAsync(answered -> extend(answered, lease, renew), engine.loop);
  }

  // In the engine's thread.

  Phase phase() {
    return machine.phase;
  }

  Commands link() {
    return link;
  }

  boolean waits() {
    return plan.limit != 0 && machine.phase.waits();
  }

  /** The caller waits no longer, for this reason. */
  void cancel(RlockException error) {
    if (machine.phase.waits()) {
      last = error == null ? last : error;
      give(Machine::cancel);
    }
  }

  void lose(LostReason why) {
    give(machine -> machine.lose(why));
  }

  /** An input for the machine, and what is to be done then. */
  private void give(Consumer<Machine> input) {
    List<Output> outputs;
    deciding.lock();
    try {
      outputs = machine.take(engine.now(), input);
    } finally {
      deciding.unlock();
    }
    for (Output output : outputs) {
      if (output instanceof Send send) {
        send(send, link, false);
      } else if (output instanceof Told told) {
        tell(told);
      }
    }
    setTimer();
    advance();
  }

  /** Goes on, if there are the links that it needs. */
  void advance() {
    if (machine.down && ready() && !orphaned()) {
      give(Machine::linkUp);
    }
  }

  private boolean ready() {
    return link != null && link.up() && (!waits() || link.hears());
  }

  /** A link has ended: one to its server, or that of its session, which a RENEW then ties anew. */
  void lostLink() {
    boolean untied = phase() == Phase.HELD && plan.grace > 0 && !tied.up();
    if (!machine.down && (untied || !ready())) {
      untie(link, Machine.NEVER);
    }
    follow(0);
  }

  /**
   * Goes to the server that has the lock by now: for the machine that is another connection. Only
   * if this command is under way, which that server has not carried out, or none and the server is
   * another one.
   */
  void follow(int underWay) {
    Commands there = engine.linkFor(slot);
    if (link != null && machine.pending == underWay && (underWay > 0 || there != link)) {
      link = there;
      long youngest = tying.stream().mapToLong(to -> to.beganAt).reduce(tiedAt, Math::max);
      if (plan.grace > 0 && there.beganAt < youngest) {
        // Two addresses may lead to one server, which moves no tie to an older connection.
        there.drop(there.unreachable("a session needs a younger connection"));
      }
      untie(link, Machine.NEVER);
    }
  }

  /** The connection of this link lived at this time. */
  void alive(Commands by, long sentAt) {
    if (plan.grace > 0 && tied == by && tying.stream().allMatch(by::equals)) {
      give(machine -> machine.alive(sentAt));
    }
  }

  /**
   * A command goes to this server, which may tie the session; the result takes what becomes of the
   * command. From a success or a missing answer on, the session counts as tied to this server.
   */
  Receiver tying(Commands to, Receiver receiver) {
    tying.add(to);
    return (value, sentAt) -> {
      tying.remove(to);
      receiver.receive(value, sentAt);
      if (!(value instanceof Failed)) {
        alive(to, sentAt);
      }
      boolean unsent = value instanceof Failed failed && failed.failure() == Failure.PASSING;
      boolean ties = plan.grace > 0 && !unsent && !(value instanceof Refusal);
      tiedAt = ties ? Math.max(tiedAt, to.beganAt) : tiedAt;
      if (ties && tied != to && phase() == Phase.HELD) {
        untie(to, sentAt);
      }
    };
  }

  /** The session is tied to this server, if at all: nothing later proves it before a RENEW does. */
  private void untie(Commands to, long lived) {
    tied = to;
    give(machine -> machine.linkDown(lived));
  }

  /** `by`: the server of the present subscription by which the message came, else null. */
  void heard(Wire.Message message, Commands by) {
    give(
        machine ->
            machine.message(
                message.notice(), message.token(), message.lease(), by != null && by == link));
  }

  void look() {
    if (machine.phase == Phase.HELD && engine.now() >= machine.end()) {
      give(Machine::tick);
    }
  }

  /** The client is closed: no answer will come any more. */
  void end() {
    engine.loop.cancel(timer);
    acquired.completeExceptionally(new Closed());
    released.completeExceptionally(new OutcomeUnknown(lock(), new Closed()));
    gone.complete(null);
  }

  private void start(boolean adopt) {
    give(machine -> machine.start(adopt)); // its wait has begun, with or without a link
    enter(adopt);
  }

  /**
   * An owner that is not new has one acquisition of a lock and mode at a time: the next one
   * re-enters it, or waits for its end. While it is lost and has guards, there is no next: their
   * release would end its hold.
   */
  private void enter(boolean adopt) {
    Acquisition other = plan.owner == null ? null : engine.acquisition(claim);
    if (other != null) {
      other.look();
    }
    if (engine.closing || acquired.isDone()) {
      cancel(new Closed()); // nothing, if its wait is over
    } else if (other == null) {
      engine.enter(this);
      link = tied = engine.linkFor(slot);
      advance();
    } else if (adopt) {
      cancel(new Invalid("this client has a guard of the owner " + claim.owner() + " already"));
    } else if (engine.named.get(claim) == other && other.why() != null) {
      cancel(new LockLost(plan, other.why()));
    } else if (other.phase() == Phase.HELD && other.share()) {
      other.reenter().whenComplete((token, error) -> reentered(other, token, error));
    } else if (plan.limit == 0) {
      cancel(new Denied(lock()));
    } else {
      // Not for longer than its own wait: the other one may last, and would keep all that asked.
      CompletableFuture.anyOf(acquired, other.acquired.isDone() ? other.gone : other.acquired)
          .whenComplete((done, error) -> enter(false));
    }
  }

  private void reentered(Acquisition other, Long token, Throwable error) {
    if (error != null) {
      acquired.completeExceptionally(error.getCause());
    } else if (acquired.isDone()) {
      // The caller waits no more.
      other.drop();
    } else {
      entered = other;
      acquired.complete(token);
    }
    cancel(null); // this machine has nothing to do
  }

  /** A courtesy, whatever comes of it: the last guard releases them all. */
  private void releaseOthers(CompletableFuture<Void> answered) {
    holds = Math.min(holds, guards.get());
    if (holds > 0 && plan.mode != Mode.PERMIT && phase() == Phase.HELD && link.up()) {
      link.send(Wire.release(claim, holds), (value, sentAt) -> answered.complete(null));
    } else {
      answered.complete(null);
    }
  }

  private void dropped(Consumer<Machine> ending) {
    if (entered != this) {
      entered.drop(); // the caller did not receive the guard
    } else {
      engine.named.remove(claim, this);
      look(); // a deadline that has passed unseen is a loss
      if (machine.phase == Phase.LOST) {
        engine.enter(this);
        follow(0); // its server may have left the cluster meanwhile
      }
      cancel(null);
      give(ending);
    }
  }

  /** The answer to a command that renews the hold; returns the token. */
  private long extend(Answered answered, long lease, boolean renew) {
    Object value = answered.value();
    Answer answer = value instanceof Long count ? new Count(count) : Wire.acquired(value, null);
    if (answer instanceof Failed failed) {
      throw failed.error();
    }
    if (answer instanceof Granted || answer.equals(new Count(1))) {
      if (lease > plan.lease || renew) {
        plan =
            plan.with(
                next -> {
                  next.lease = lease;
                  next.renew = renew;
                });
      }
      give(
          machine -> {
            machine.plan = plan;
            machine.prolong(answered.sentAt(), lease);
          });
    } else {
      lose(LostReason.TAKEN);
    }
    check();
    return answer instanceof Granted granted ? granted.token() : 0;
  }

  /** `asking`: to a server that gets the slot, once. It sends no grants before it has the slot. */
  private void send(Send send, Commands to, boolean asking) {
    boolean queues = send.command() == Command.ENQUEUE && !asking;
    if (asking) {
      to.send(List.of("ASKING"), Link.IGNORE);
    }
    if (queues && send.look() && !engine.unreadable) {
      to.send(
          List.of("PTTL", lock()),
          (value, sentAt) -> {
            holderLease = value;
            engine.unreadable |= Wire.denied(value);
          });
    }
    Receiver receiver =
        (value, sentAt) -> {
          if (value instanceof Refusal refusal && refusal.untied() && mayTie(send, to)) {
            untied = send.number();
            tie(send, to);
          } else if (value instanceof Refusal refusal) {
            refused(send, sentAt, engine.refusal(refusal, lock(), to));
          } else if (value instanceof Failed failed) {
            reply(send, sentAt, failed);
          } else if (value == null && asking && send.command() == Command.ENQUEUE) {
            reply(send, sentAt, new Failed(Failure.PASSING, new Denied(lock())));
          } else {
            boolean none = value == null || value.equals(0L); // it has nothing to tie
            tied = machine.pending == send.number() && !none ? to : tied;
            reply(send, sentAt, Wire.answer(send.command(), value, holderLease));
          }
        };
    String channel = queues ? to.messages.channel : null;
    to.send(Wire.words(send, plan, claim, channel), tying(to, receiver), response);
  }

  private boolean mayTie(Send send, Commands to) {
    return machine.pending == send.number() && to == link && untied != send.number();
  }

  /**
   * RENEW without a session, and once that is answered the command again: a closed connection,
   * against which the server protects the hold, receives no answer.
   */
  private void tie(Send send, Commands to) {
    long lease = send.command() == Command.RENEW ? send.ms() : 0;
    Send plain = new Send(send.number(), Command.KEEP, lease, false);
    Receiver answered =
        (value, sentAt) -> {
          if (value instanceof Failed failed) {
            reply(send, sentAt, failed);
          } else if (machine.pending == send.number() && to == link) {
            send(send, to, false);
          }
        };
    to.send(Wire.words(plain, plan, claim, null), answered, response);
  }

  private void refused(Send send, long sentAt, Refused refused) {
    boolean waited = machine.pending == send.number();
    if (waited && refused.asks() != null && refused.asks().up()) {
      send(send, refused.asks(), true);
    } else if (waited && refused.moved() && engine.now() - followed > SETTLES) {
      // Servers that disagree need a moment.
      followed = engine.now();
      follow(send.number());
    } else {
      reply(send, sentAt, refused.failed());
    }
  }

  private void reply(Send send, long sentAt, Answer answer) {
    heard |= !(answer instanceof Failed);
    if (machine.pending == send.number()) {
      last = answer instanceof Failed failed ? failed.error() : null;
    }
    give(machine -> machine.reply(send.number(), sentAt, answer));
  }

  private void tell(Told told) {
    long now = engine.now();
    Duration waited = Duration.ofNanos(now - began);
    Duration held = Duration.ofNanos(now - heldSince);
    switch (told.what()) {
      case ACQUIRED -> {
        heldSince = now;
        if (plan.owner != null) {
          engine.named.put(claim, this);
        }
        acquired.complete(told.token());
        tell(Kind.ACQUIRED, waited, null, null);
      }
      case TIMED_OUT -> {
        acquired.completeExceptionally(new Timeout(lock(), waited.toMillis(), kept()));
        tell(Kind.TIMED_OUT, waited, null, null);
      }
      case DENIED -> {
        acquired.completeExceptionally(new Denied(lock()));
        tell(Kind.DENIED, Duration.ZERO, null, null);
      }
      case ERROR -> acquired.completeExceptionally(failure());
      case NOT_HELD -> acquired.completeExceptionally(new LockLost(plan, LostReason.TAKEN));
      case RENEWED -> tell(Kind.RENEWED, Duration.ZERO, null, null);
      case RENEWAL_FAILED -> tell(Kind.RENEWAL_FAILED, Duration.ZERO, null, failure());
      case LOST -> {
        if (machine.why == LostReason.EXPIRED || machine.why == LostReason.OVERDUE) {
          // It needs no release; one that is released all the same enters again.
          engine.leave(this);
          engine.keep(plan.atLeast > 0, claim);
        }
        lose(machine.why, held);
      }
      case RELEASED -> {
        if (told.outcome() == Outcome.OK) {
          released.complete(null);
          if (!detached) {
            tell(Kind.RELEASED, held, null, null);
          }
        } else if (told.outcome() == Outcome.LOST) {
          lose(LostReason.TAKEN, held);
        } else {
          RlockException error = failure();
          released.completeExceptionally(
              told.outcome() == Outcome.UNKNOWN ? new OutcomeUnknown(lock(), error) : error);
        }
      }
      case ENDED -> {
        engine.leave(this);
        engine.keep(machine.kept(), claim);
        gone.complete(null);
      }
    }
  }

  private RlockException failure() {
    return last == null ? trouble() : last;
  }

  private RlockException trouble() {
    return (link == null ? engine.linkFor(slot) : link).kept();
  }

  /** What has kept the server from answering, or null if it has answered. */
  private RlockException kept() {
    if (link == null) {
      return engine.linkFor(slot).up() ? null : trouble(); // it waited for another acquisition
    } else if (!link.up() || (last == null && (!heard || link.silent()))) {
      RlockException deaf = link.up() && machine.down ? link.deaf() : null;
      return deaf == null ? trouble() : deaf;
    }
    return last;
  }

  private void lose(LostReason why, Duration held) {
    LockLost error = new LockLost(plan, why);
    lost.completeAsync(() -> why);
    released.completeExceptionally(error);
    if (why != LostReason.CLOSED) {
      Loop.LOG.log(Level.WARNING, error.getMessage());
    }
    tell(Kind.LOST, held, why, null);
  }

  private void tell(Kind kind, Duration duration, LostReason why, RlockException error) {
    engine.tell(kind, lock(), duration, why, error);
  }

  private void setTimer() {
    engine.loop.cancel(timer);
    timer = null;
    long at = orphaned() && machine.phase == Phase.HELD ? machine.end() : machine.timer;
    if (at == Machine.NEVER) {
      return;
    }
    if (machine.phase == Phase.HELD && at < machine.end()) {
      // Renewals that are due at nearly the same time go in one piece.
      long early = at - at % Machine.window(plan.lease);
      at = early > engine.now() ? early : at;
    }
    timer = engine.loop.at(at, this::tick);
  }

  private void tick() {
    if (orphaned() && machine.phase == Phase.HELD && engine.now() < machine.end()) {
      setTimer();
    } else {
      give(Machine::tick);
    }
  }
}
