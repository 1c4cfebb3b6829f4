package rlock.client;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;

/** Every error of this package: what is wrong, then what to do. */
public abstract sealed class RlockException extends RuntimeException {
  private static final long serialVersionUID = 1;

  private static final String RULES =
      "+@rlock (or the RLOCK commands by name), the locks' keys and, for waiting, "
          + "+subscribe +pubsub|numsub &rlock:grants:*";

  private RlockException(String message) {
    super(message);
  }

  RlockException because(RlockException cause) {
    if (cause != null) {
      initCause(cause);
    }
    return this;
  }

  /** The result of the client's thread. An error shows the caller's stack. Interruptions wait. */
  static <T> T join(CompletableFuture<T> result) {
    try {
      return result.join();
    } catch (CompletionException error) {
      throw here(error);
    }
  }

  static RuntimeException here(Throwable error) {
    Throwable cause = error.getCause();
    if (cause instanceof RlockException known) {
      known.fillInStackTrace();
      return known;
    }
    return new IllegalStateException("an error in rlock-client: report it", cause);
  }

  /** The lock was acquired and is no longer held. */
  public static final class LockLost extends RlockException {
    private static final long serialVersionUID = 1;

    /** In a stream of objects, too. */
    private final LostReason why;

    LockLost(String lock, LostReason why) {
      super(
          "the lock " + lock + " was lost: " + why.text + "; stop the work and check its results");
      this.why = why;
    }

    /**
     * Why it is no longer held.
     *
     * @return the reason
     */
    public LostReason why() {
      return why;
    }
  }

  /** The wait ended without the lock. */
  public static final class Timeout extends RlockException {
    private static final long serialVersionUID = 1;

    Timeout(String lock, long waitedMs) {
      super(
          "the lock %s was not acquired within %s ms; wait longer, or see its holder: lock.info()"
              .formatted(lock, waitedMs));
    }
  }

  /** The lock was asked for once, and another owner holds it. */
  public static final class Denied extends RlockException {
    private static final long serialVersionUID = 1;

    Denied(String lock) {
      super("another owner holds the lock " + lock + "; wait for it, or try again later");
    }
  }

  /** A release was sent; it is unknown whether the owner still held the lock. */
  public static final class OutcomeUnknown extends RlockException {
    private static final long serialVersionUID = 1;

    OutcomeUnknown(String lock) {
      super(
          "it is unknown whether the lock %s was still held at its release; it is free now or at its lease end"
              .formatted(lock));
    }
  }

  /** The server does not know the commands. */
  public static final class ModuleMissing extends RlockException {
    private static final long serialVersionUID = 1;

    ModuleMissing(String text) {
      super(
          "this server has no rlock module (%s); add `loadmodule /path/to/librlock.so` to its configuration"
              .formatted(text));
    }
  }

  /** The server, its module or this client lacks something. */
  public static final class Unsupported extends RlockException {
    private static final long serialVersionUID = 1;

    Unsupported(String text) {
      super(text);
    }
  }

  /** The server does not admit the user, or the user lacks a permission. */
  public static final class Permission extends RlockException {
    private static final long serialVersionUID = 1;

    Permission(String text) {
      super(
          "the server denies access: %s; check the user's password, and grant it %s"
              .formatted(text, RULES));
    }
  }

  /** The queue is full, by a limit of the server. */
  public static final class QueueFull extends RlockException {
    private static final long serialVersionUID = 1;

    QueueFull(String lock, String text) {
      super(
          "the queue of the lock %s is full (%s); try again later, or raise the server's limit"
              .formatted(lock, text));
    }
  }

  /** The key holds other data, or a lock of another kind. */
  public static final class NotALock extends RlockException {
    private static final long serialVersionUID = 1;

    NotALock(String lock, String text) {
      super("the key " + lock + " holds something else (" + text + "); choose another name");
    }
  }

  /** The server refused for another reason: read-only, out of memory, draining. */
  public static final class Refused extends RlockException {
    private static final long serialVersionUID = 1;

    Refused(String text) {
      super("the server refused: " + text + "; fix the cause, then try again");
    }
  }

  /** The server could not be reached or did not answer in time. */
  public static final class Unreachable extends RlockException {
    private static final long serialVersionUID = 1;

    Unreachable(String text) {
      super(
          "no answer from the server (" + text + "); check its address, its state and the network");
    }
  }

  /** An invalid setting or name. */
  public static final class Invalid extends RlockException {
    private static final long serialVersionUID = 1;

    Invalid(String text) {
      super(text);
    }
  }

  /** The client was closed. */
  public static final class Closed extends RlockException {
    private static final long serialVersionUID = 1;

    Closed() {
      super("this client was closed; create a new one");
    }
  }

  /** The client was closed before every release was answered. */
  public static final class Unflushed extends RlockException {
    private static final long serialVersionUID = 1;

    Unflushed(int locks) {
      super(
          locks
              + " locks were not released when the client closed; they are free at their lease ends");
    }
  }
}
