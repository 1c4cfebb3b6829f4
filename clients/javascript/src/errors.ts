/** Errors: what is wrong, then what to do. Compare by `code` where two copies of the package may meet. */

const REASONS = {
  expired: "no renewal was confirmed before its lease or session ended (server unreachable or process paused)",
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

/** What all errors but `LockLost` are made of: a detail, the lock's name, and the cause. */
export type RlockErrorClass = new (detail?: string, lock?: string, cause?: unknown) => RlockError;

function coded(code: string, text: (detail: string, lock: string) => string): RlockErrorClass {
  return class extends RlockError {
    constructor(detail = "", lock = "", cause?: unknown) {
      super(code, text(detail, lock), lock, cause);
    }
  };
}

/** The lock was acquired and is no longer held. */
export class LockLost extends RlockError {
  constructor(
    lock: string,
    readonly why: LostReason,
  ) {
    super("LOCK_LOST", `the lock ${lock} was lost: ${REASONS[why]}; stop the work and check its results`, lock);
  }
}

/** The wait ended without the lock. */
export class Timeout extends coded(
  "TIMEOUT",
  (waited, lock) => `the lock ${lock} was not acquired within ${waited} ms; wait longer, or see its holder: RLOCK.INFO ${lock}`,
) {}

/** The lock was asked for once, and another owner holds it. */
export class Denied extends coded("DENIED", (_, lock) => `another owner holds the lock ${lock}; wait for it, or try again later`) {}

/** A release was sent; it is unknown whether the owner still held the lock. */
export class OutcomeUnknown extends coded(
  "OUTCOME_UNKNOWN",
  (_, lock) => `it is unknown whether the lock ${lock} was still held at its release; it is free now or at its lease end`,
) {}

/** The server does not know the commands. */
export class ModuleMissing extends coded(
  "MODULE_MISSING",
  (text) => `this server has no rlock module (${text}); add \`loadmodule /path/to/librlock.so\` to its configuration`,
) {}

/** The server, its module or this client lacks something. */
export class Unsupported extends coded("UNSUPPORTED", (text) => text) {}

const RULES = "+@rlock (or the RLOCK commands by name), the locks' keys and, for waiting, +subscribe +pubsub|numsub &rlock:grants:*";

/** The server does not admit the user, or the user lacks a permission. */
export class Permission extends coded(
  "PERMISSION",
  (text) => `the server denies access: ${text}; check the user's password and permissions: ${RULES}`,
) {}

/** The queue is full, by a limit of the server. */
export class QueueFull extends coded(
  "QUEUE_FULL",
  (text, lock) => `the queue of the lock ${lock} is full (${text}); try again later, or raise the server's limit`,
) {}

/** The key holds other data, or a lock of another kind. */
export class NotALock extends coded("NOT_A_LOCK", (text, lock) => `the key ${lock} holds something else (${text}); choose another name`) {}

/** The server refused for another reason: read-only, out of memory, draining … */
export class Refused extends coded("REFUSED", (text) => `the server refused: ${text}; fix the cause, then try again`) {}

/** The server could not be reached or did not answer in time. */
export class Unreachable extends coded("UNREACHABLE", () => "no answer from the server; check its address, its state and the network") {}

/** An invalid setting or name. */
export class Invalid extends coded("INVALID", (text) => text) {}

/** The client was closed. */
export class Closed extends coded("CLOSED", () => "this client was closed; create a new one") {}

/** The client was closed before every release was answered. */
export class Unflushed extends coded(
  "UNFLUSHED",
  (locks) => `${locks} locks were not released when the client closed; release their guards earlier, or allow more time`,
) {}
