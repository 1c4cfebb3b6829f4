package rlock.client;

import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;
import java.util.function.Supplier;
import rlock.client.Engine.Answered;
import rlock.client.Event.Kind;
import rlock.client.Link.Refusal;
import rlock.client.Machine.Answer;
import rlock.client.Machine.Count;
import rlock.client.Machine.Failed;
import rlock.client.Machine.Granted;
import rlock.client.Machine.Outcome;
import rlock.client.Machine.Output;
import rlock.client.Machine.Phase;
import rlock.client.Machine.Send;
import rlock.client.Machine.Told;
import rlock.client.RlockException.Closed;
import rlock.client.RlockException.Denied;
import rlock.client.RlockException.LockLost;
import rlock.client.RlockException.OutcomeUnknown;
import rlock.client.RlockException.Timeout;
import rlock.client.Wire.Claim;
import rlock.client.Wire.Mode;
import rlock.client.Wire.Spec;

/** One owner, from its first request to its last: the shell of a machine. */
final class Acquisition {
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
  private volatile Spec spec;
  private final long began;
  private long heldSince;
  private Commands link; // of the last command
  private Commands tied; // of the last one that the server confirmed
  private boolean heard; // the server has answered a command
  private Commands asking; // where the next command goes, in a cluster whose slot moves
  private Loop.Timer timer;
  private Object holderLease;

  Acquisition(Engine engine, Spec spec, String owner) {
    this.engine = engine;
    this.spec = spec;
    this.claim = new Claim(spec.lock(), owner, spec.mode());
    // Asking once ends after two of its times.
    this.machine = new Machine(spec.plan().withResponse(engine.patience / 2), false);
    this.response = spec.plan().response();
    this.began = engine.now();
  }

  // In any thread.

  Spec spec() {
    return spec;
  }

  String lock() {
    return spec.lock();
  }

  long grace() {
    return spec.plan().grace();
  }

  /** What is left by the local clock; throws LockLost if nothing is. */
  long check() {
    deciding.lock();
    try {
      boolean held = machine.phase() == Phase.HELD;
      long left = held ? machine.end() - engine.now() : 0;
      if (left > 0) {
        return left;
      }
      LostReason otherwise = held ? LostReason.EXPIRED : LostReason.RELEASED;
      throw new LockLost(spec, machine.why() == null ? otherwise : machine.why());
    } finally {
      deciding.unlock();
    }
  }

  /** Why it was lost, or null. */
  LostReason why() {
    deciding.lock();
    try {
      return machine.why();
    } finally {
      deciding.unlock();
    }
  }

  /** The application works under it. */
  boolean works() {
    return machine.phase() == Phase.HELD || machine.phase() == Phase.LOST;
  }

  /** It was held, and the server has not answered a release. */
  boolean unreleased() {
    return heldSince > 0 && !machine.answered();
  }

  boolean orphaned() {
    Thread holder = thread;
    return holder != null && !holder.isAlive();
  }

  void begin() {
    engine.post(this::start);
  }

  /**
   * A guard has ended, or no caller waits for one any more: completes with its release, within the
   * time for a call. The release goes on.
   */
  CompletableFuture<Void> drop() {
    if (guards.decrementAndGet() == 0) {
      CompletableFuture<Void> answer = released.copy();
      engine.loop.execute(
          () -> {
            engine.limit(answer, () -> new OutcomeUnknown(lock(), trouble()));
            dropped();
          });
      return answer;
    }
    return inTurn(
            () -> {
              CompletableFuture<Void> answered = new CompletableFuture<>();
              engine.post(() -> releaseOthers(answered));
              return answered;
            })
        .exceptionally(closed -> null);
  }

  /** Ends the wait, if it is not over. */
  void cancel() {
    engine.loop.execute(() -> give(machine -> machine.cancel(null)));
  }

  /** Adds a guard, unless the last one has ended. */
  boolean share() {
    return guards.getAndUpdate(count -> count == 0 ? 0 : count + 1) > 0;
  }

  /** A hold for a guard that was added: its token. */
  CompletableFuture<Long> reenter() {
    if (spec.mode() == Mode.PERMIT) {
      // The server counts one permit, however many guards there are here.
      return CompletableFuture.completedFuture(0L);
    }
    Plan plan = spec.plan();
    return inTurn(
            () -> {
              List<String> words = Wire.acquire(spec, claim.owner(), holds + 1, plan.lease());
              return extend(words, plan.lease(), plan.renew()).thenApply(this::counted);
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
    return extend(Wire.renew(spec, claim.owner(), lease), lease, renew);
  }

  private CompletableFuture<Long> extend(List<String> words, long lease, boolean renew) {
    return engine
        .ask(lock(), words)
        .thenApplyAsync(answered -> extend(answered, lease, renew), engine.loop);
  }

  // In the engine's thread.

  Phase phase() {
    return machine.phase();
  }

  Commands link() {
    return link;
  }

  boolean waits() {
    return spec.plan().limit() != 0 && machine.phase().waits();
  }

  /** An input for the machine, and what is to be done then. */
  void give(Consumer<Machine> input) {
    List<Output> outputs;
    deciding.lock();
    try {
      outputs = machine.take(engine.now(), input);
    } finally {
      deciding.unlock();
    }
    for (Output output : outputs) {
      if (output instanceof Send send) {
        send(send);
      } else if (output instanceof Told told) {
        tell(told);
      }
    }
    setTimer();
    if (machine.down() && !waits() && link != null && link.up() && !orphaned()) {
      // It only lacked the subscription, which it needs no more.
      give(Machine::linkUp);
    }
  }

  void alive(Commands by, long sentAt) {
    if (tied == by && grace() > 0) {
      give(machine -> machine.alive(sentAt));
    }
  }

  void look() {
    if (machine.phase() == Phase.HELD && engine.now() >= machine.end()) {
      give(Machine::tick);
    }
  }

  /** The client is closed: no answer will come any more. */
  void abandon() {
    engine.loop.cancel(timer);
    acquired.completeExceptionally(new Closed());
    released.completeExceptionally(new OutcomeUnknown(lock(), new Closed()));
    gone.complete(null);
  }

  private void start() {
    give(Machine::start); // its wait has begun, with or without a link
    enter();
  }

  /**
   * A named owner has one acquisition of a lock at a time: the next one re-enters it, or waits for
   * its end. While it is lost and has guards, there is no next: their release would end its hold.
   */
  private void enter() {
    Acquisition other = spec.owner() == null ? null : engine.acquisition(claim);
    if (other != null) {
      other.look();
    }
    if (engine.closing || acquired.isDone()) {
      refuse(new Closed()); // nothing, if its wait is over
    } else if (other == null) {
      engine.enter(this);
      link = engine.linkFor(lock());
      if ((spec.plan().limit() == 0 || engine.hears()) && link.up()) {
        give(Machine::linkUp);
      }
    } else if (engine.named.get(claim) == other && other.why() != null) {
      refuse(new LockLost(spec, other.why()));
    } else if (other.phase() == Phase.HELD && other.share()) {
      other.reenter().whenComplete((token, error) -> reentered(other, token, error));
    } else if (spec.plan().limit() == 0) {
      refuse(new Denied(lock()));
    } else {
      // Not for longer than its own wait: the other one may last, and would keep all that asked.
      CompletableFuture.anyOf(acquired, other.acquired.isDone() ? other.gone : other.acquired)
          .whenComplete((done, error) -> enter());
    }
  }

  private void refuse(RlockException error) {
    give(machine -> machine.cancel(error));
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
    refuse(null); // this machine has nothing to do
  }

  /** A courtesy, whatever comes of it: the last guard releases them all. */
  private void releaseOthers(CompletableFuture<Void> answered) {
    holds = Math.min(holds, guards.get());
    if (holds > 0 && spec.mode() != Mode.PERMIT && phase() == Phase.HELD && link.up()) {
      List<String> words = Wire.release(spec, claim.owner(), holds);
      link.send(words, (value, sentAt) -> answered.complete(null));
    } else {
      answered.complete(null);
    }
  }

  private void dropped() {
    if (entered != this) {
      entered.drop(); // the caller did not receive the guard
    } else {
      engine.named.remove(claim, this);
      if (machine.phase() == Phase.LOST) {
        engine.enter(this);
      }
      give(machine -> machine.cancel(null));
      give(Machine::release);
    }
  }

  /** The answer to a command that renews the hold; returns the token. */
  private long extend(Answered answered, long lease, boolean renew) {
    Object value = answered.value();
    Answer answer = value instanceof Long count ? new Count(count) : Wire.acquired(value, null);
    if (answer instanceof Failed failed) {
      throw failed.error();
    }
    boolean confirmed = answer instanceof Granted || answer.equals(new Count(1));
    if (confirmed) {
      give(machine -> machine.extend(answered.sentAt(), lease, renew));
      spec = spec.with(machine.plan());
    } else {
      give(machine -> machine.lose(LostReason.TAKEN));
    }
    check();
    return answer instanceof Granted granted ? granted.token() : 0;
  }

  private void send(Send send) {
    Commands to = asking != null ? asking : engine.linkFor(lock());
    link = to;
    if (asking != null) {
      asking = null;
      to.send(List.of("ASKING"), Link.IGNORE);
    }
    if (send.look() && !engine.unreadable) {
      to.send(
          List.of("PTTL", lock()),
          (value, sentAt) -> {
            holderLease = value;
            engine.unreadable |= Wire.denied(value);
          });
    }
    to.send(
        Wire.words(send, spec, claim.owner(), engine.channel),
        (value, sentAt) -> {
          Answer answer;
          if (value instanceof Refusal refusal) {
            answer = engine.refusal(refusal, lock(), to, next -> asking = next);
          } else if (value instanceof Failed failed) {
            answer = failed;
          } else {
            answer = Wire.answer(send.command(), value, holderLease);
          }
          heard |= !(answer instanceof Failed);
          if (answer instanceof Granted || answer.equals(new Count(1))) {
            tied = to;
          }
          give(machine -> machine.reply(send.number(), sentAt, answer));
        },
        response);
  }

  private void tell(Told told) {
    long now = engine.now();
    Duration waited = Duration.ofNanos(now - began);
    Duration held = Duration.ofNanos(now - heldSince);
    switch (told.what()) {
      case ACQUIRED -> {
        heldSince = now;
        if (spec.owner() != null) {
          engine.named.put(claim, this);
        }
        acquired.complete(told.token());
        tell(Kind.ACQUIRED, waited, null, null);
      }
      case TIMED_OUT -> {
        acquired.completeExceptionally(new Timeout(lock(), waited.toMillis(), kept(told.error())));
        tell(Kind.TIMED_OUT, waited, null, null);
      }
      case DENIED -> {
        acquired.completeExceptionally(new Denied(lock()));
        tell(Kind.DENIED, Duration.ZERO, null, null);
      }
      case ERROR -> acquired.completeExceptionally(told.error() == null ? trouble() : told.error());
      case RENEWED -> tell(Kind.RENEWED, Duration.ZERO, null, null);
      case RENEWAL_FAILED -> tell(Kind.RENEWAL_FAILED, Duration.ZERO, null, told.error());
      case LOST -> {
        if (machine.why() == LostReason.EXPIRED) {
          // It needs no release; one that is released all the same enters again.
          engine.leave(this);
        }
        lose(machine.why(), held);
      }
      case RELEASED -> {
        if (told.outcome() == Outcome.OK) {
          released.complete(null);
          tell(Kind.RELEASED, held, null, null);
        } else if (told.outcome() == Outcome.LOST) {
          lose(LostReason.TAKEN, held);
        } else {
          RlockException error =
              told.outcome() == Outcome.UNKNOWN
                  ? new OutcomeUnknown(lock(), told.error() == null ? trouble() : told.error())
                  : told.error();
          released.completeExceptionally(error);
        }
      }
      case ENDED -> {
        engine.leave(this);
        gone.complete(null);
      }
    }
  }

  private RlockException trouble() {
    return (link == null ? engine.linkFor(lock()) : link).kept();
  }

  /** What has kept the server from answering, or null if it has answered. */
  private RlockException kept(RlockException last) {
    if (link == null) {
      return engine.linkFor(lock()).up() ? null : trouble(); // it waited for another acquisition
    } else if (!link.up() || (last == null && (!heard || link.silent()))) {
      RlockException deaf = link.up() && machine.down() ? engine.deaf() : null;
      return deaf == null ? trouble() : deaf;
    }
    return last;
  }

  private void lose(LostReason why, Duration held) {
    LockLost error = new LockLost(spec, why);
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
    long at = orphaned() && machine.phase() == Phase.HELD ? machine.end() : machine.timer();
    if (at == Machine.NEVER) {
      return;
    }
    if (machine.phase() == Phase.HELD && at < machine.end()) {
      // Renewals that are due at nearly the same time go in one piece.
      long early = at - at % Machine.window(spec.plan().lease());
      at = early > engine.now() ? early : at;
    }
    timer = engine.loop.at(at, this::tick);
  }

  private void tick() {
    if (orphaned() && machine.phase() == Phase.HELD && engine.now() < machine.end()) {
      setTimer();
    } else {
      give(Machine::tick);
    }
  }
}
