package rlock.client;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import rlock.client.RlockException.LockLost;

/** What is held: one lock, or several as one. A test can implement it. */
public interface Held extends AutoCloseable {
  /**
   * The fencing token, larger than those of all earlier holders.
   *
   * @return the token; 0 of a lock that is not fenced
   */
  default long token() {
    return 0;
  }

  /**
   * Completes as soon as others may hold the lock; never, if it is released before.
   *
   * @return why it was lost
   */
  CompletableFuture<LostReason> lost();

  /**
   * Checks the hold by the local deadline, and sends nothing. Call it before each step that must
   * not happen twice.
   *
   * @return how much longer the lock is held without another renewal
   * @throws LockLost if others may hold the lock
   */
  Duration check();

  /**
   * Releases the lock, and waits for the server's answer: at most for the response time-out, and no
   * longer than until the thread is interrupted. The release continues in the background.
   *
   * @throws LockLost if it was lost before
   * @throws RlockException.OutcomeUnknown if that is unknown, because no answer came
   */
  void release();

  /** Releases the lock, unless this was done before. */
  @Override
  void close();
}
