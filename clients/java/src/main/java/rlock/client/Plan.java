package rlock.client;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.util.function.Consumer;
import rlock.client.RlockException.Invalid;
import rlock.client.Wire.Mode;

/** What is asked for. Times are in nanoseconds. Nothing changes a plan that is in use. */
final class Plan implements Cloneable {
  final String lock;
  Mode mode;

  /** Null for a new one, which is never used again, but for the other mode of a writer's lock. */
  String owner;

  /** Of a semaphore, else 0. */
  int permits;

  boolean fair;
  boolean fenced;

  /** Confirm a grant by message before the caller has the lock, whatever can be proved. */
  boolean confirmFirst;

  long lease;
  boolean renew = true;

  /** Of the wait: NEVER waits without end, 0 asks once. */
  long limit = Machine.NEVER;

  /** How long the server may take to answer a command. */
  long response;

  /** Of a session; 0 without one. */
  long grace;

  /** How long the lock stays held from the guard on, also if it is released sooner. */
  long atLeast;

  /** How long the lock is renewed from the guard on. */
  long maxHold = Machine.NEVER;

  /** What the clock may miss. */
  long slack;

  Plan(String lock, Mode mode) {
    this.lock = lock;
    this.mode = mode;
  }

  /** A text that the server takes. */
  static String checked(String what, String text, int most) {
    int bytes = text == null ? 0 : text.getBytes(UTF_8).length;
    if (bytes < 1 || bytes > most) {
      throw new Invalid("%s has 1 to %d bytes, not %d".formatted(what, most, bytes));
    }
    return text;
  }

  /** A changed copy. */
  Plan with(Consumer<Plan> change) {
    try {
      Plan copy = (Plan) clone();
      change.accept(copy);
      return copy;
    } catch (CloneNotSupportedException never) {
      throw new IllegalStateException(never);
    }
  }

  /**
   * When a lease or a grace ends by the local clock: before the server's, whose clock may run
   * faster.
   */
  long endOf(long sentAt, long time) {
    return sentAt + time - time / 100 - 2 * Machine.MS - slack;
  }
}
