/** Errors: what is wrong, then what to do. Compare by `code` where two copies of the package may meet. */

const REASONS = {
  expired: "no renewal was confirmed before its lease ended (server unreachable or process paused)",
  taken: "the server no longer has it (forced release, deletion or fail-over)",
  closed: "its client was closed",
  released: "it was released",
};

export type LostReason = keyof typeof REASONS;

/** Every error of this package. */
export class RlockError extends Error {
  constructor(
    readonly code: string,
    message: string,
    /** The lock's name, where it is about one. */
    readonly lock = "",
    cause?: unknown,
  ) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = new.target.name;
  }
}

/** The wait ended without the lock. */
export class Timeout extends RlockError {
  constructor(lock: string, waited: number, cause?: unknown) {
    const message = `the lock ${lock} was not acquired within ${waited.toFixed()} ms; wait longer, or see its holder: RLOCK.INFO ${lock}`;
    super("TIMEOUT", message, lock, cause);
  }
}

/** The lock was asked for once, and another owner holds it. */
export class Denied extends RlockError {
  constructor(lock: string) {
    super("DENIED", `another owner holds the lock ${lock}; wait for it, or try again later`, lock);
  }
}

/** The lock was acquired and is no longer held. */
export class LockLost extends RlockError {
  readonly why: LostReason;

  constructor(lock: string, why: LostReason) {
    super("LOCK_LOST", `the lock ${lock} was lost: ${REASONS[why]}; stop the work and check its results`, lock);
    this.why = why;
  }
}

/** A release was sent; it is unknown whether the owner still held the lock. */
export class OutcomeUnknown extends RlockError {
  constructor(lock: string, cause: unknown) {
    const message = `it is unknown whether the lock ${lock} was still held at its release; it is free now or at its lease end`;
    super("OUTCOME_UNKNOWN", message, lock, cause);
  }
}

/** The server does not know the commands. */
export class ModuleMissing extends RlockError {
  constructor(text: string) {
    super("MODULE_MISSING", `this server has no rlock module (${text}); add \`loadmodule /path/to/librlock.so\` to its configuration`);
  }
}

/** The server, its module or this client lacks something. */
export class Unsupported extends RlockError {
  constructor(text: string) {
    super("UNSUPPORTED", text);
  }
}

/** The server does not admit the user, or the user lacks a permission. */
export class Permission extends RlockError {
  constructor(text: string) {
    const rules = "+@rlock (or the RLOCK commands by name), the locks' keys and, for waiting, +subscribe +pubsub|numsub &rlock:grants:*";
    super("PERMISSION", `the server denies access: ${text}; check the user's password, and grant it ${rules}`);
  }
}

/** The queue is full, by a limit of the server. */
export class QueueFull extends RlockError {
  constructor(lock: string, text: string) {
    super("QUEUE_FULL", `the queue of the lock ${lock} is full (${text}); try again later, or raise the server's limit`, lock);
  }
}

/** The key holds other data, or a lock of another kind. */
export class NotALock extends RlockError {
  constructor(lock: string, text: string) {
    super("NOT_A_LOCK", `the key ${lock} holds something else (${text}); choose another name`, lock);
  }
}

/** The server refused for another reason: read-only, out of memory, draining … */
export class Refused extends RlockError {
  constructor(text: string) {
    super("REFUSED", `the server refused: ${text}; fix the cause, then try again`);
  }
}

/** The server could not be reached or did not answer in time. */
export class Unreachable extends RlockError {
  constructor(cause: unknown) {
    super("UNREACHABLE", "no answer from the server; check its address, its state and the network", "", cause);
  }
}

/** An invalid setting or name. */
export class Invalid extends RlockError {
  constructor(text: string) {
    super("INVALID", text);
  }
}

/** The client was closed. */
export class Closed extends RlockError {
  constructor() {
    super("CLOSED", "this client was closed; create a new one");
  }
}

/** The client was closed before every release was answered. */
export class Unflushed extends RlockError {
  constructor(locks: number) {
    super("UNFLUSHED", `${locks.toFixed()} locks were not released when the client closed; they are free at their lease ends`);
  }
}
