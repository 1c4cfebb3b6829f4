/** Errors: what is wrong, then what to do. Compare by `code` where two copies of the package may meet. */

export type LostReason = "expired" | "taken" | "closed" | "released";

const REASONS: Record<LostReason, string> = {
  expired: "no renewal was confirmed before its lease ended (server unreachable or process paused)",
  taken: "the server no longer has it (forced release, deletion or fail-over)",
  closed: "its client was closed",
  released: "it was released",
};

/** Every error of this package. */
export class RlockError extends Error {
  readonly code: string;

  constructor(code: string, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
    this.name = new.target.name;
  }
}

/** The wait ended without the lock. */
export class Timeout extends RlockError {
  constructor(
    readonly lock: string,
    readonly waited: number,
    cause?: unknown,
  ) {
    const time = `${String(Math.round(waited))} ms`;
    super("TIMEOUT", `the lock ${lock} was not acquired within ${time}; wait longer, or see its holder: RLOCK.INFO ${lock}`, cause);
  }
}

/** The lock was asked for once, and another owner holds it. */
export class Denied extends RlockError {
  constructor(readonly lock: string) {
    super("DENIED", `another owner holds the lock ${lock}; wait for it, or try again later`);
  }
}

/** The lock was acquired and is no longer held. */
export class LockLost extends RlockError {
  constructor(
    readonly lock: string,
    readonly why: LostReason,
  ) {
    super("LOCK_LOST", `the lock ${lock} was lost: ${REASONS[why]}; stop the work and check its results`);
  }
}

/** A release was sent; it is unknown whether the owner still held the lock. */
export class OutcomeUnknown extends RlockError {
  constructor(
    readonly lock: string,
    cause: unknown,
  ) {
    super(
      "OUTCOME_UNKNOWN",
      `it is unknown whether the lock ${lock} was still held at its release; it is free now or at its lease end`,
      cause,
    );
  }
}

/** The server does not know the commands. */
export class ModuleMissing extends RlockError {
  constructor(message: string) {
    super("MODULE_MISSING", `this server has no rlock module (${message}); add \`loadmodule /path/to/librlock.so\` to its configuration`);
  }
}

/** The server, its module or this client lacks something. */
export class Unsupported extends RlockError {
  constructor(message: string) {
    super("UNSUPPORTED", message);
  }
}

/** The server does not admit the user, or the user lacks a permission. */
export class Permission extends RlockError {
  constructor(message: string, cause?: unknown) {
    super(
      "PERMISSION",
      `the server denies access: ${message}; check the user's password, and grant it +@rlock (or the RLOCK commands by name), the ` +
        "locks' keys and, for waiting, +subscribe +pubsub|numsub &rlock:grants:*",
      cause,
    );
  }
}

/** The queue is full, by a limit of the server. */
export class QueueFull extends RlockError {
  constructor(
    readonly lock: string,
    message: string,
  ) {
    super("QUEUE_FULL", `the queue of the lock ${lock} is full (${message}); try again later, or raise the server's limit`);
  }
}

/** The key holds other data, or a lock of another kind. */
export class NotALock extends RlockError {
  constructor(
    readonly lock: string,
    message: string,
  ) {
    super("NOT_A_LOCK", `the key ${lock} holds something else (${message}); choose another name`);
  }
}

/** The server refused for another reason: read-only, out of memory, draining … */
export class Refused extends RlockError {
  constructor(message: string) {
    super("REFUSED", `the server refused: ${message}; fix the cause, then try again`);
  }
}

/** The server could not be reached or did not answer in time. */
export class Unreachable extends RlockError {
  constructor(cause: unknown) {
    super("UNREACHABLE", "no answer from the server; check its address, its state and the network", cause);
  }
}

/** An invalid setting or name. */
export class Invalid extends RlockError {
  constructor(message: string) {
    super("INVALID", message);
  }
}

/** The client was closed. */
export class Closed extends RlockError {
  constructor() {
    super("CLOSED", "this client was closed; create a new one");
  }
}
