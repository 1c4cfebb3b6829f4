package rlock.client;

import java.time.Duration;

/**
 * What happened to a lock or a connection.
 *
 * @param kind what happened
 * @param lock the lock's name; empty for events of connections
 * @param duration the wait of acquired and timed out, the hold time of released and lost, the
 *     outage of reconnected; else zero
 * @param why the reason of lost; else null
 * @param error of renewal failed and disconnected; else null
 * @param server of disconnected and reconnected; else empty
 * @param dropped how many events directly before it the receiver missed, because it was slow: of
 *     those that it has not received yet, the latest 1000 are kept
 */
public record Event(
    Kind kind,
    String lock,
    Duration duration,
    LostReason why,
    RlockException error,
    String server,
    int dropped) {

  /** The kinds of events. */
  public enum Kind {
    /** A lock was acquired. */
    ACQUIRED,
    /** Another owner holds the lock. */
    DENIED,
    /** A wait ended without the lock. */
    TIMED_OUT,
    /** A lock was released. */
    RELEASED,
    /** A lease was renewed. */
    RENEWED,
    /** A renewal failed, and is tried again. */
    RENEWAL_FAILED,
    /** A lock was lost. */
    LOST,
    /** A connection ended. */
    DISCONNECTED,
    /** A connection was made again. */
    RECONNECTED
  }
}
