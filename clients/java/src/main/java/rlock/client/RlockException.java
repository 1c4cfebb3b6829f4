package rlock.client;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Function;

/** Every error of this package: what is wrong, then what to do. */
public abstract sealed class RlockException extends RuntimeException implements Cloneable {
  private static final long serialVersionUID = 1;

  private static final String RULES =
      "+@rlock (or the RLOCK commands by name), the locks' keys and, for waiting, "
          + "+subscribe +pubsub|numsub (in a cluster +ssubscribe) &rlock:grants:*";

  /** How long an interrupted call waits for an answer that is on its way, in ms. */
  static final long MOMENT = 50;

  private RlockException(String message) {
    this(message, null);
  }

  private RlockException(String message, Throwable cause) {
    super(message, cause);
  }

  /** Several threads may get one error: each has an object of its own, with its own stack. */
  final RlockException own() {
    try {
      RlockException copy = (RlockException) clone();
      copy.fillInStackTrace();
      return copy;
    } catch (CloneNotSupportedException never) {
      throw new IllegalStateException(never);
    }
  }

  /**
   * The result of the client's thread. An interruption leaves a moment for an answer that is on its
   * way; then this throws, and the thread stays interrupted.
   */
  static <T> T join(
      CompletableFuture<T> result, Function<InterruptedException, RlockException> interrupted) {
    try {
      return result.get();
    } catch (ExecutionException error) {
      throw here(error);
    } catch (InterruptedException interruption) {
      Thread.currentThread().interrupt();
      try {
        return result.copy().orTimeout(MOMENT, TimeUnit.MILLISECONDS).join();
      } catch (CompletionException error) {
        if (error.getCause() instanceof TimeoutException) {
          throw interrupted.apply(interruption);
        }
        throw here(error);
      }
    }
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
      return known.own();
    }
    return new IllegalStateException("an error in rlock-client: report it", cause);
  }

  /** The lock was acquired and is no longer held. */
  public static final class LockLost extends RlockException {
    private static final long serialVersionUID = 1;

    /** In a stream of objects, too. */
    private final LostReason why;

    LockLost(Plan plan, LostReason why) {
      super(text(plan, why));
      this.why = why;
    }

    private static String text(Plan plan, LostReason why) {
      if (why == LostReason.RELEASED) {
        return "the lock " + plan.lock + " is no longer held: it was released; acquire it again";
      }
      boolean fixed = !plan.renew && plan.grace == 0 && why == LostReason.EXPIRED;
      String text =
          fixed
              ? "its lease of %s ms ended, and was not renewed, as asked; take a longer one, or let it renew"
                  .formatted(plan.lease / Machine.MS)
              : why.text;
      return "the lock %s was lost: %s; stop the work and check its results"
          .formatted(plan.lock, text);
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

  /**
   * The wait ended without the lock. If no server answered at the end, the cause says why, as an
   * {@code Unreachable}: in this case the lock may be free.
   */
  public static final class Timeout extends RlockException {
    private static final long serialVersionUID = 1;

    Timeout(String lock, long waitedMs, Throwable cause) {
      super(
          "the lock %s was not acquired within %s ms%s"
              .formatted(
                  lock,
                  waitedMs,
                  cause == null
                      ? "; wait longer, or see its holder: lock.info()"
                      : ": " + cause.getMessage()),
          cause);
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

    OutcomeUnknown(String lock, Throwable cause) {
      super(
          "it is unknown whether the lock %s was still held at its release: %s; it is free now or at its lease end"
              .formatted(
                  lock,
                  cause instanceof RlockException
                      ? cause.getMessage()
                      : "the thread was interrupted"),
          cause);
    }
  }

  /** The server does not know the commands. */
  public static final class ModuleMissing extends RlockException {
    private static final long serialVersionUID = 1;

    ModuleMissing(String server, String text) {
      super(
          "the server %s has no rlock module (%s); add `loadmodule /path/to/librlock.so` to its configuration"
              .formatted(server, text));
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

    Permission(String server, String text) {
      super(
          "the server %s denies access: %s; check the user's password, and grant it %s"
              .formatted(server, text, RULES));
    }
  }

  /** The queue is full, by a limit of the server. */
  public static final class QueueFull extends RlockException {
    private static final long serialVersionUID = 1;

    QueueFull(String server, String lock, String text) {
      super(
          "the queue of the lock %s is full on the server %s (%s); try again later, or raise its limit"
              .formatted(lock, server, text));
    }
  }

  /** The key holds other data, or a lock of another kind. */
  public static final class NotALock extends RlockException {
    private static final long serialVersionUID = 1;

    NotALock(String server, String lock, String text) {
      super(
          "the key %s on the server %s holds something else (%s); choose another name"
              .formatted(lock, server, text));
    }
  }

  /** The server refused for another reason: read-only, out of memory, draining. */
  public static final class Refused extends RlockException {
    private static final long serialVersionUID = 1;

    Refused(String server, String text) {
      super("the server " + server + " refused: " + text + "; fix the cause, then try again");
    }
  }

  /** The server could not be reached or did not answer in time. */
  public static final class Unreachable extends RlockException {
    private static final long serialVersionUID = 1;

    Unreachable(String text) {
      super(text);
    }

    Unreachable(InterruptedException cause) {
      super("the thread was interrupted before the server answered", cause);
    }

    Unreachable(String server, String text) {
      super(
          "the server %s does not answer: %s; check its address, its state and the network"
              .formatted(server, text));
    }

    static Unreachable replica(String server) {
      return new Unreachable(
          "the server " + server + " is a replica; name the primary, or wait until it is one");
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
