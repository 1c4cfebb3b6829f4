package rlock.client;

import java.util.function.Consumer;
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
