package rlock.client;

import java.time.Duration;

/**
 * What can be acquired: one lock, or several as one. A test can implement it.
 *
 * @param <G> its guards
 */
public interface Lockable<G extends Held> {
  /**
   * Waits, as long as the options say.
   *
   * @return a guard to release
   * @throws RlockException.Timeout when the wait is over
   * @throws InterruptedException after it has left the queue
   */
  G acquire() throws InterruptedException;

  /**
   * Waits at most for this time; 0 asks once, as {@code tryAcquire} does.
   *
   * @param timeout from 0
   * @return a guard to release
   * @throws RlockException.Timeout when the wait is over
   * @throws InterruptedException after it has left the queue
   */
  G acquire(Duration timeout) throws InterruptedException;

  /**
   * Asks once.
   *
   * @return a guard to release
   * @throws RlockException.Denied if another owner holds the lock
   * @throws InterruptedException after it has left nothing in the server
   */
  G tryAcquire() throws InterruptedException;

  /**
   * Work under a lock.
   *
   * @param <G> its guard
   * @param <X> what it throws
   */
  @FunctionalInterface
  interface Work<G, X extends Exception> {
    /**
     * Works.
     *
     * @param held the guard; call {@code check()} before each step that must not happen twice
     * @throws X whatever it throws
     */
    void accept(G held) throws X;
  }

  /**
   * Holds the lock while the work runs.
   *
   * @param <X> what the work throws
   * @param work what to do
   * @throws X what the work throws
   * @throws RlockException.LockLost if the lock was lost by the end, unless the work failed itself
   * @throws InterruptedException while it waits for the lock
   */
  default <X extends Exception> void run(Work<? super G, X> work) throws X, InterruptedException {
    try (G held = acquire()) {
      work.accept(held);
    }
  }
}
