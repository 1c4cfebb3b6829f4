package rlock.client;

import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.TreeSet;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Executor;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** The thread of a client, its inbox and its timers. Other threads only put work into the inbox. */
final class Loop implements Executor, Runnable {
  static final Logger LOG = System.getLogger("rlock.client");

  // Timers stand still in suspend, the clock does not: the deadlines are looked at so often.
  private static final long NAP = 1_000 * Machine.MS;
  private static final int MOST = 1_000;

  /** Work at a time. */
  record Timer(long at, long number, Runnable work) {}

  private final BlockingQueue<Runnable> inbox = new LinkedBlockingQueue<>();
  private final TreeSet<Timer> timers =
      new TreeSet<>(Comparator.comparingLong(Timer::at).thenComparingLong(Timer::number));
  private final Clock clock;
  private final Runnable afterTurn;
  private long numbers;
  private boolean ended;

  /** `afterTurn`: what is done after all that was due at one time, so that it goes together. */
  Loop(Clock clock, Runnable afterTurn) {
    this.clock = clock;
    this.afterTurn = afterTurn;
  }

  /** In any thread. */
  @Override
  public void execute(Runnable work) {
    inbox.add(work);
  }

  Timer at(long time, Runnable work) {
    Timer timer = new Timer(time, numbers++, work);
    timers.add(timer);
    return timer;
  }

  /** `timer`: null for none. */
  void cancel(Timer timer) {
    if (timer != null) {
      timers.remove(timer);
    }
  }

  void end() {
    ended = true;
  }

  @Override
  public void run() {
    List<Runnable> turn = new ArrayList<>();
    // Also what is put there in the last turn: somebody may wait for it.
    while (!ended || !inbox.isEmpty()) {
      long nap = timers.isEmpty() ? NAP : Math.min(NAP, timers.first().at - clock.now());
      Runnable first = next(nap);
      if (first != null) {
        turn.add(first);
        inbox.drainTo(turn, MOST);
      }
      turn.forEach(Loop::guarded);
      turn.clear();
      long now = clock.now();
      while (!timers.isEmpty() && timers.first().at <= now) {
        guarded(timers.pollFirst().work);
      }
      guarded(afterTurn);
    }
  }

  private Runnable next(long nap) {
    try {
      return inbox.poll(Math.max(0, nap), TimeUnit.NANOSECONDS);
    } catch (InterruptedException never) {
      return null;
    }
  }

  /** What fails here must not end the renewals of all locks. */
  private static void guarded(Runnable work) {
    try {
      work.run();
    } catch (Throwable error) {
      LOG.log(Level.ERROR, "an error in rlock-client: report it", error);
    }
  }
}
