package rlock.client;

import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import rlock.client.Holds.Hold;
import rlock.client.Holds.Key;
import rlock.client.RlockException.Denied;
import rlock.client.RlockException.Invalid;
import rlock.client.RlockException.LockLost;
import rlock.client.RlockException.Timeout;
import rlock.client.Wire.Mode;

/**
 * A lock as Java's own, for code that expects one, with the overloads of {@code RLock} in Redisson.
 *
 * <p>A thread that holds the lock locks it again without asking the server, by any view of the same
 * client. A thread that has lost the lock learns it once, from its first call here after the loss.
 * After that it may lock anew. The lock of a thread that has ended is not renewed any more.
 */
public final class JavaLock implements java.util.concurrent.locks.Lock {
  private final Client client;
  private final Handle<?, ?> handle;

  JavaLock(Client client, Handle<?, ?> handle) {
    if (handle.plan.owner != null) {
      throw new Invalid("a JavaLock makes its own owners; leave withOwner out");
    }
    this.client = client;
    this.handle = handle;
  }

  /** Waits for the lock, without a limit. An interruption does not end the wait. */
  @Override
  public void lock() {
    lock(-1, TimeUnit.MILLISECONDS);
  }

  /**
   * Waits for the lock, without a limit.
   *
   * @param lease how long the lock lasts, from 100 ms; 0 or less renews it
   * @param unit of the lease
   */
  public void lock(long lease, TimeUnit unit) {
    acquire(Machine.NEVER, lease, unit);
  }

  @Override
  public void lockInterruptibly() throws InterruptedException {
    lockInterruptibly(-1, TimeUnit.MILLISECONDS);
  }

  /**
   * Waits for the lock, without a limit.
   *
   * @param lease how long the lock lasts, from 100 ms; 0 or less renews it
   * @param unit of the lease
   * @throws InterruptedException after it has left the queue
   */
  public void lockInterruptibly(long lease, TimeUnit unit) throws InterruptedException {
    acquire(Machine.NEVER, lease, unit, true);
  }

  @Override
  public boolean tryLock() {
    return acquire(0, -1, TimeUnit.MILLISECONDS);
  }

  @Override
  public boolean tryLock(long wait, TimeUnit unit) throws InterruptedException {
    return tryLock(wait, -1, unit);
  }

  /**
   * Waits for the lock.
   *
   * @param wait for how long; not positive: asks once
   * @param lease how long the lock lasts, from 100 ms; 0 or less renews it
   * @param unit of both
   * @return false: another thread or process holds it
   * @throws RlockException.Timeout if the wait ended while no server answered
   * @throws InterruptedException after it has left the queue
   */
  public boolean tryLock(long wait, long lease, TimeUnit unit) throws InterruptedException {
    long nanos = Math.max(0, unit.toNanos(wait));
    return acquire(
        nanos > Settings.LONGEST * Machine.MS ? Machine.NEVER : nanos, lease, unit, true);
  }

  /**
   * Releases one of the thread's holds. The last one waits for the server's answer: at most for the
   * response time-out, and no longer than until the thread is interrupted.
   *
   * @throws RlockException.OutcomeUnknown if no answer came; the release continues in the
   *     background
   * @throws IllegalMonitorStateException if this thread does not hold the lock, or has lost it
   */
  @Override
  public void unlock() {
    Hold hold = client.holds.of(key());
    if (hold == null) {
      throw notHeld();
    }
    try {
      hold.guard.check();
      if (hold.count > 1) {
        hold.count--;
        return;
      }
      client.holds.remove(key());
      hold.guard.release();
    } catch (LockLost lost) {
      forget(hold);
      IllegalMonitorStateException error = new IllegalMonitorStateException(lost.getMessage());
      error.initCause(lost);
      throw error;
    }
  }

  /**
   * Takes the lock from its holders.
   *
   * @return false: it was free
   */
  public boolean forceUnlock() {
    return handle.forceRelease();
  }

  /**
   * Whether the lock is held.
   *
   * @return what the server says
   */
  public boolean isLocked() {
    return handle.locked();
  }

  /**
   * Whether this thread holds the lock, by the local deadline.
   *
   * @return false after a loss, too
   */
  public boolean isHeldByCurrentThread() {
    return getHoldCount() > 0;
  }

  /**
   * How often this thread has locked it.
   *
   * @return 0 after a loss, too
   */
  public int getHoldCount() {
    Hold hold = client.holds.of(key());
    if (hold == null) {
      return 0;
    }
    try {
      hold.guard.check();
      return hold.count;
    } catch (LockLost lost) {
      forget(hold);
      return 0;
    }
  }

  /**
   * The fencing token of this thread's hold, larger than those of all earlier holders.
   *
   * @return the token; 0 unless the lock is {@code fenced()}
   * @throws IllegalMonitorStateException if this thread does not hold the lock
   */
  public long getToken() {
    if (getHoldCount() == 0) {
      throw notHeld();
    }
    return client.holds.of(key()).guard.token();
  }

  /**
   * What is left of the lease.
   *
   * @return milliseconds; -2: the lock is free
   */
  public long remainTimeToLive() {
    return handle.info().leaseMs();
  }

  /**
   * The lock's name.
   *
   * @return the key in the server
   */
  public String getName() {
    return handle.name();
  }

  /**
   * Not supported.
   *
   * @return never
   */
  @Override
  public Condition newCondition() {
    throw new UnsupportedOperationException(
        "a lock on a server has no conditions; use a queue or a topic of your own");
  }

  private IllegalMonitorStateException notHeld() {
    return new IllegalMonitorStateException(
        "the thread %s does not hold the lock %s; only the one that locked it unlocks it"
            .formatted(Thread.currentThread().getName(), getName()));
  }

  /** An interruption does not end the wait. */
  private boolean acquire(long wait, long lease, TimeUnit unit) {
    try {
      return acquire(wait, lease, unit, false);
    } catch (InterruptedException never) {
      throw new IllegalStateException(never);
    }
  }

  private boolean acquire(long wait, long lease, TimeUnit unit, boolean interruptible)
      throws InterruptedException {
    if (interruptible && Thread.interrupted()) {
      throw new InterruptedException();
    }
    if (reentered(lease, unit)) {
      return true;
    }
    Handle<?, ?> asked = handle;
    if (lease > 0) {
      asked = handle.withLease(Duration.ofNanos(unit.toNanos(lease))).withoutRenewal();
    }
    try {
      Guard guard = asked.acquire(wait, interruptible, owner());
      guard.one.thread = Thread.currentThread();
      client.holds.put(key(), new Hold(guard));
      return true;
    } catch (Denied | Timeout others) {
      if (wait == Machine.NEVER || others.getCause() != null) {
        throw others; // nobody is known to hold it
      }
      return false;
    }
  }

  private boolean reentered(long lease, TimeUnit unit) {
    Hold hold = client.holds.of(key());
    if (hold == null) {
      return false;
    }
    try {
      Duration left = hold.guard.check();
      Acquisition one = hold.guard.one;
      // The inner call gets at least what it asks for; the outer one keeps what it has.
      if (!one.plan().renew && lease <= 0) {
        RlockException.join(one.prolong(handle.plan.lease, true));
      } else if (!one.plan().renew && left.toNanos() < unit.toNanos(lease)) {
        RlockException.join(one.prolong(unit.toNanos(lease), false));
      }
      hold.count++;
      return true;
    } catch (LockLost lost) {
      forget(hold);
      throw lost;
    }
  }

  /** The thread is told of the loss. */
  private void forget(Hold hold) {
    client.holds.remove(key());
    hold.guard.releaseAsync();
  }

  /** A thread that writes also reads, as the same owner. */
  private String owner() {
    Mode mode = handle.plan.mode;
    if (mode == Mode.LOCK) {
      return null;
    }
    Hold other = client.holds.of(key(mode == Mode.READ ? Mode.WRITE : Mode.READ));
    return other == null ? null : other.guard.owner();
  }

  private Key key() {
    return key(handle.plan.mode);
  }

  private Key key(Mode mode) {
    return new Key(Thread.currentThread(), getName(), mode);
  }
}
