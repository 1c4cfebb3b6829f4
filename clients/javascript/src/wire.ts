/** Words of commands, replies and messages. */
import { Invalid, ModuleMissing, NotALock, Permission, QueueFull, Refused, RlockError, Unreachable, Unsupported } from "./errors.js";
import type { Answer, Command, Failure, Notice } from "./machine.js";

export type Mode = "" | "READ" | "WRITE" | "PERMIT";

/** An owner of a lock, and in which way it holds or waits. */
export interface Claim {
  readonly lock: string;
  readonly owner: string;
  readonly mode: Mode;
}

export interface Extras {
  readonly lease: number;
  readonly fair: boolean;
  readonly fenced: boolean;
  /** Of a semaphore, how many owners may hold it at once. */
  readonly permits?: number | undefined;
}

/** The mode as RELEASE and RENEW say it: the server knows permits by the key. */
export function said(mode: Mode): string[] {
  return mode === "READ" || mode === "WRITE" ? [mode] : [];
}

/** The words of a command of the machine. */
export function words(command: Command, claim: Claim, extras: Extras, wait: number, channel: string): string[] {
  const { lock, owner, mode } = claim;
  const modes = said(mode);
  const lease = String(extras.lease);
  switch (command) {
    case "ACQUIRE":
      return acquire(claim, extras, 1);
    case "ENQUEUE":
      return [...acquire(claim, extras, 1), "ENQUEUE", String(wait), channel];
    case "RENEW":
      return ["RLOCK.RENEW", lock, owner, lease, ...modes];
    case "CANCEL":
      return ["RLOCK.CANCEL", lock, owner];
    case "RELEASE":
      return ["RLOCK.RELEASE", lock, owner, ...modes, "ALL"];
  }
}

export function acquire(claim: Claim, extras: Extras, holds: number): string[] {
  const { lock, owner, mode } = claim;
  const permits = extras.permits === undefined ? [] : ["PERMITS", String(extras.permits)];
  const more = [...said(mode), ...permits, ...(extras.fair ? ["FAIR"] : []), ...(extras.fenced ? ["FENCED"] : [])];
  return ["RLOCK.ACQUIRE", lock, owner, String(extras.lease), "HOLDS", String(holds), ...more];
}

/** A server's error as an error of this package, and whether the same command may succeed later. */
export function refusal(lock: string, message: string, follows = false): { failure: Failure; error: RlockError } {
  const word = message.split(" ", 1)[0] ?? "";
  if (/^ERR unknown command/i.test(message)) return { failure: "final", error: new ModuleMissing(message) };
  if (["NOPERM", "NOAUTH", "WRONGPASS"].includes(word)) return { failure: "final", error: new Permission(message) };
  if (word === "QUEUEFULL") return { failure: "final", error: new QueueFull(lock, message) };
  if (word === "WRONGTYPE" || word === "WRONGLOCK") return { failure: "gone", error: new NotALock(lock, message) };
  if (word === "MOVED" || word === "ASK") {
    return { failure: "final", error: new Refused(`${message} (this server is one of a cluster: connect with a cluster client)`) };
  }
  const error = new Refused(message);
  // Behind Sentinels, another server is the primary now.
  const passes = ["LOADING", "BUSY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "UNBLOCKED", ...(follows ? ["READONLY"] : [])];
  if (passes.includes(word)) return { failure: "passing", error };
  return { failure: word === "ERR" && message.includes("rlock.accept is no") ? "draining" : "final", error };
}

/** What a reply means to the machine. */
export function answer(command: Command, reply: unknown, holderLease?: unknown): Answer {
  if (reply === null) return { kind: "null" };
  if (command !== "ACQUIRE" && command !== "ENQUEUE") {
    if (typeof reply === "number") return { kind: "integer", value: reply };
  } else if (Array.isArray(reply) && typeof reply[0] === "number") {
    if (reply[0] > 0) return { kind: "held", token: Number(reply[2] ?? 0) };
    return { kind: "queued", holderLease: typeof holderLease === "number" && holderLease >= 0 ? holderLease : undefined };
  }
  return { kind: "error", failure: "final", error: unexpected(`RLOCK.${command}`, reply) };
}

function unexpected(command: string, reply: unknown): Unsupported {
  return new Unsupported(`${command} was answered with ${JSON.stringify(reply)}; update the server's module, or this client`);
}

export interface Message {
  readonly notice: Notice;
  readonly claim: Claim;
  readonly token: number;
}

/** Reads a message; `undefined` for one that is not understood. */
export function message(text: string): Message | undefined {
  const fields = text.split(" ");
  const [notice, , owner, lock] = fields;
  if ((notice !== "granted" && notice !== "timeout" && notice !== "dropped") || owner === undefined || lock === undefined) return undefined;
  // Before the mode a grant has holds, lease and token, and a drop its reason.
  const word = fields[{ granted: 7, timeout: 4, dropped: 5 }[notice]];
  const modes: Record<string, Mode> = { read: "READ", write: "WRITE", permit: "PERMIT" };
  const mode = modes[word ?? ""] ?? "";
  try {
    const claim = { owner: decodeURIComponent(owner), lock: decodeURIComponent(lock), mode } as const;
    return { notice, claim, token: notice === "granted" ? Number(fields[6]) : 0 };
  } catch {
    // Not UTF-8: not a name of this client.
    return undefined;
  }
}

/** A lock, as its server sees it. Times are in ms; -1 is a lease without end, or a wait without one. */
export interface Info {
  readonly kind: "none" | "mutex" | "readwrite" | "permits";
  readonly mode: "read" | "write" | null;
  /** What is left of the lease; `null` if the lock is free. */
  readonly lease: number | null;
  /** The last fencing token, or 0. */
  readonly token: number;
  readonly holderCount: number;
  readonly waiterCount: number;
  /** At most 100. */
  readonly holders: readonly { owner: string; mode: string | null; holds: number; lease: number }[];
  /** The waiters in order, at most 100. */
  readonly queue: readonly { owner: string; mode: string | null; via: string; age: number; waitLeft: number; clientId: number }[];
}

/** A reply's maps, as a driver has those of RESP3 or flat as in RESP2, as an object with the names of `Info`. */
function read(reply: unknown): unknown {
  let pairs: [unknown, unknown][];
  if (reply instanceof Map) pairs = [...(reply as Map<unknown, unknown>)];
  else if (Array.isArray(reply) && typeof reply[0] !== "string") return reply.map(read);
  else if (Array.isArray(reply)) pairs = reply.flatMap((name, n) => (n % 2 === 0 ? [[name, reply[n + 1]] as [unknown, unknown]] : []));
  else if (typeof reply === "object" && reply !== null) pairs = Object.entries(reply);
  else return reply;
  // `lease-ms` is `lease`, `client-id` is `clientId`.
  const name = (text: string) => text.replace(/-ms$/, "").replace(/-(.)/g, (_, letter: string) => letter.toUpperCase());
  return Object.fromEntries(pairs.map(([key, value]) => [name(String(key)), read(value)]));
}

export function info(reply: unknown): Info {
  const lock = read(reply) as Info;
  // Without this it would read as a free lock.
  if (typeof lock !== "object" || (lock as Info | null)?.kind === undefined) throw unexpected("RLOCK.INFO", reply);
  return lock.lease === -2 ? { ...lock, lease: null } : lock;
}

/** What a failed request means: the server's error, or none. */
export function failure(lock: string, error: unknown, follows = false): { failure: Failure; error: RlockError } {
  if (error instanceof ServerError) return refusal(lock, error.message, follows);
  if (error instanceof Unsent) return { failure: "unsent", error: error.because };
  return { failure: "unanswered", error: error instanceof RlockError ? error : new Unreachable(error) };
}

/** The server's own error reply. */
export class ServerError extends Error {}

/** There was no connection to send on. */
export class Unsent extends Error {
  constructor(readonly because: RlockError) {
    super(because.message);
  }
}

const LONGEST = 2 ** 43;

export function milliseconds(word: string, value: unknown, least: number): number {
  if (typeof value === "number" && value >= least && value <= LONGEST) return Math.ceil(value);
  throw new Invalid(`${word} is a number of milliseconds from ${String(least)} to 2^43, not ${String(value)}`);
}
