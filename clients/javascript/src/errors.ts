/** Errors: what is wrong, then what to do. Compare by `code` where two copies of the package may meet. */

const REASONS = {
  expired: "no renewal was confirmed before its lease or session ended (server unreachable or process paused)",
  ended: "its lease ended, and it is not renewed",
  overdue: "it was held for as long as its maxHold allows, and then not renewed any more",
  taken: "the server no longer has it (forced release, deletion or fail-over)",
  closed: "its client was closed",
  released: "it was released",
};

export type LostReason = Exclude<keyof typeof REASONS, "ended">;

/** Every error of this package. */
export class RlockError extends Error {
  constructor(
    readonly code: string,
    message: string,
    /** The lock's name, where it is about one. */
    readonly lock = "",
    cause?: unknown,
    /** The address of the server, where it is about one. */
    readonly server = "",
  ) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = new.target.name;
  }
}

/** What all errors but `LockLost` are made of: a detail, the lock's name, the cause, and the server's address. */
export type RlockErrorClass = new (detail?: string, lock?: string, cause?: unknown, server?: string) => RlockError;

type Text = (detail: string, lock: string, server: string, cause: RlockError | undefined) => string;

function coded(code: string, text: Text): RlockErrorClass {
  return class extends RlockError {
    constructor(detail = "", lock = "", cause?: unknown, server = "") {
      super(code, text(detail, lock, server, cause instanceof RlockError ? cause : undefined), lock, cause, server);
    }
  };
}

/** The lock was acquired and is no longer held. */
export class LockLost extends RlockError {
  constructor(
    lock: string,
    readonly why: LostReason,
    /** Whether a lease that is not renewed came to its end. */
    ended = false,
  ) {
    const lost = `was lost: ${REASONS[ended && why === "expired" ? "ended" : why]}; stop the work and check its results`;
    super("LOCK_LOST", `the lock ${lock} ${why === "released" ? `is no longer held: ${REASONS[why]}` : lost}`, lock);
  }
}

/** The wait ended without the lock. `cause`: why no server answered; without one, another owner held it. */
export class Timeout extends coded("TIMEOUT", (waited, lock, _, cause) => {
  const why = cause ? `: ${cause.message}` : `; wait longer, or see its holder: RLOCK.INFO ${lock}`;
  return `the lock ${lock} was not acquired within ${waited} ms${why}`;
}) {}

/** The lock was asked for once, and another owner holds it. */
export class Denied extends coded("DENIED", (_, lock) => `another owner holds the lock ${lock}; wait for it, or try again later`) {}

/** A release was not answered in time; it is unknown whether the owner still held the lock. The release continues. */
export class OutcomeUnknown extends coded("OUTCOME_UNKNOWN", (_, lock, __, cause) => {
  const why = cause ? ` (${cause.message.replace(/; .*/, "")})` : "";
  return `it is unknown whether the lock ${lock} was still held at its release${why}; it is free now or at its lease end`;
}) {}

/** The server does not know the commands. */
export class ModuleMissing extends coded(
  "MODULE_MISSING",
  (text, _, server) => `the server ${server} has no rlock module (${text}); add \`loadmodule /path/to/librlock.so\` to its configuration`,
) {}

/** The server, its module or this client lacks something. */
export class Unsupported extends coded("UNSUPPORTED", (text) => text) {}

const RULES = "+@rlock (or the RLOCK commands by name), the locks' keys and, for waiting, +subscribe +pubsub|numsub &rlock:grants:*";

/** The server does not admit the user, or the user lacks a permission. */
export class Permission extends coded(
  "PERMISSION",
  (text, _, server) => `the server ${server} denies access: ${text}; check the user's password and permissions: ${RULES}`,
) {}

/** The queue is full, by a limit of the server. */
export class QueueFull extends coded(
  "QUEUE_FULL",
  (text, lock, server) => `the queue of the lock ${lock} is full (${server}: ${text}); try again later, or raise the server's limit`,
) {}

/** The key holds other data, or a lock of another kind. */
export class NotALock extends coded(
  "NOT_A_LOCK",
  (text, lock, server) => `the key ${lock} holds something else (${server}: ${text}); choose another name`,
) {}

/** The server refused for another reason: out of memory, draining, replicas missing … */
export class Refused extends coded(
  "REFUSED",
  (text, _, server) => `the server ${server} refused: ${text}; fix the cause, then try again`,
) {}

/** The server could not be reached, did not answer in time, or is a replica. */
export class Unreachable extends coded(
  "UNREACHABLE",
  (text, _, server) => `the server ${server} ${text}; check its address, its state and the network`,
) {}

/** An invalid setting or name. */
export class Invalid extends coded("INVALID", (text) => text) {}

/** The client was closed. */
export class Closed extends coded("CLOSED", () => "this client was closed; create a new one") {}

/** The client was closed before every release was answered. */
export class Unflushed extends coded(
  "UNFLUSHED",
  (locks) => `${locks} locks were not released when the client closed; release their guards earlier, or allow more time`,
) {}
