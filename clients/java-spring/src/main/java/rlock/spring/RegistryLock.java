package rlock.spring;

import java.time.Duration;
import java.util.ConcurrentModificationException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.Lock;
import org.springframework.dao.CannotAcquireLockException;
import rlock.client.Client;
import rlock.client.JavaLock;
import rlock.client.RlockException;
import rlock.client.RlockException.LockLost;

/** A lock with the exceptions that Spring's users know. */
class RegistryLock implements Lock {
  private final JavaLock lock;

  RegistryLock(Client client, String key) {
    this.lock = client.javaLock(key);
  }

  /** Never 0, by which a {@code JavaLock} is renewed. */
  static long lease(Duration ttl) {
    return Math.max(1, ttl.toMillis());
  }

  @Override
  public void lock() {
    lock(-1);
  }

  /** `lease` in ms; negative: renewed. */
  void lock(long lease) {
    try {
      lock.lock(lease, TimeUnit.MILLISECONDS);
    } catch (RlockException error) {
      throw notAcquired(error);
    }
  }

  @Override
  public void lockInterruptibly() throws InterruptedException {
    try {
      lock.lockInterruptibly();
    } catch (RlockException error) {
      throw notAcquired(error);
    }
  }

  @Override
  public boolean tryLock() {
    try {
      return lock.tryLock();
    } catch (RlockException error) {
      throw notAcquired(error);
    }
  }

  @Override
  public boolean tryLock(long wait, TimeUnit unit) throws InterruptedException {
    return tryLock(unit.toMillis(wait), -1);
  }

  /** Both in ms; a negative lease: renewed. */
  boolean tryLock(long wait, long lease) throws InterruptedException {
    try {
      return lock.tryLock(wait, lease, TimeUnit.MILLISECONDS);
    } catch (RlockException error) {
      throw notAcquired(error);
    }
  }

  /**
   * An interrupted thread releases its lock, too: the release takes at most the response time-out.
   */
  @Override
  public void unlock() {
    boolean interrupted = Thread.interrupted();
    try {
      lock.unlock();
    } catch (IllegalMonitorStateException error) {
      if (error.getCause() instanceof LockLost lost) {
        throw new ConcurrentModificationException(
            lost.getMessage() + ". Data that the lock protects may have been changed by others",
            lost);
      }
      throw new IllegalStateException(error.getMessage(), error);
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  /** For a thread that holds it; `lease` in ms, negative: renewed until its unlock. */
  void renew(long lease) {
    if (!lock.isHeldByCurrentThread()) {
      throw new IllegalStateException(
          "the lock " + lock.getName() + " cannot be renewed: this thread does not hold it");
    }
    try {
      lock.lock(lease, TimeUnit.MILLISECONDS);
    } catch (LockLost lost) {
      throw new IllegalStateException(lost.getMessage(), lost);
    }
    unlock();
  }

  @Override
  public Condition newCondition() {
    return lock.newCondition();
  }

  private CannotAcquireLockException notAcquired(RlockException error) {
    return new CannotAcquireLockException(
        "the lock " + lock.getName() + " was not acquired: " + error.getMessage(), error);
  }

  @Override
  public String toString() {
    return "RegistryLock[" + lock.getName() + "]";
  }
}
