/** Words of commands, replies and messages. */
import { Invalid, ModuleMissing, NotALock, Permission, QueueFull, Refused, RlockError, Unreachable, Unsupported } from "./errors.js";
import type { RlockErrorClass } from "./errors.js";
import type { Answer, Command, Failure, Message as Told } from "./machine.js";

export interface Place {
  readonly host: string;
  readonly port: number;
}

export const text = ({ host, port }: Place): string => `${host}:${String(port)}`;

export type Mode = "" | "READ" | "WRITE" | "PERMIT";

/** What one owner asks for. */
export interface Order {
  readonly lock: string;
  readonly owner: string;
  readonly mode: Mode;
  /** In ms. */
  readonly lease: number;
  /** In ms; 0 asks once. */
  readonly wait: number;
  readonly renew: boolean;
  readonly fair: boolean;
  readonly fenced: boolean;
  /** Of a hold, in ms: at least, and at most. */
  readonly atLeast: number;
  readonly maxHold: number;
  /** The grace of its session in ms, 0 for none. */
  readonly grace: number;
  /** Of a semaphore, how many owners may hold it at once. */
  readonly permits?: number | undefined;
}

/** Names an acquisition among those of its client. */
export function address({ mode, owner, lock }: Pick<Order, "mode" | "owner" | "lock">): string {
  return `${mode} ${encodeURIComponent(owner)} ${lock}`;
}

/** The words of a command; in each of an owner, or in none, is its session: without it the last one would end the tie. */
export function words(
  command: Command,
  order: Order,
  more: { lease?: number | undefined; session?: boolean | undefined; holds?: number; enqueue?: [number, string] } = {},
): string[] {
  const { lease = order.lease, holds, enqueue = [] } = more;
  const key = [`RLOCK.${command === "ENQUEUE" ? "ACQUIRE" : command}`, order.lock, order.owner];
  // The server knows permits by the key.
  const mode = order.mode === "READ" || order.mode === "WRITE" ? [order.mode] : [];
  const session = order.grace === 0 || more.session === false ? [] : ["SESSION", order.grace];
  const all = {
    ACQUIRE: [
      ...[lease, "HOLDS", holds ?? 1, ...mode, ...session],
      ...(order.permits === undefined ? [] : ["PERMITS", order.permits]),
      ...(order.fair ? ["FAIR"] : []),
      ...(order.fenced ? ["FENCED"] : []),
    ],
    RENEW: [lease, ...mode, ...session],
    CANCEL: [],
    RELEASE: [...mode, ...(holds === undefined ? ["ALL"] : ["HOLDS", holds])],
  };
  const rest = command === "ENQUEUE" ? [...all.ACQUIRE, "ENQUEUE", ...enqueue] : all[command];
  return [...key, ...rest.map(String)];
}

/** The server's error replies, by their beginnings. */
const REFUSALS: [RegExp, Failure, RlockErrorClass][] = [
  [/^ERR unknown command/i, "final", ModuleMissing],
  [/^(NOPERM|NOAUTH|WRONGPASS) /, "final", Permission],
  [/^QUEUEFULL /, "final", QueueFull],
  [/^(WRONGTYPE|WRONGLOCK) /, "gone", NotALock],
  [/^(LOADING|BUSY|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|UNBLOCKED|UNTIED) /, "passing", Refused],
  [/^ERR .*rlock\.accept is no/, "draining", Refused],
];

/** The server's own error reply. */
export class ServerError extends Error {}

/** There was no connection to send on. */
export class Unsent extends Error {
  constructor(readonly because: RlockError) {
    super(because.message);
  }
}

const REASONS: Record<string, string> = { ECONNREFUSED: "connection refused", ECONNRESET: "connection reset" };

/** No answer, and why: what the system said, without the driver's words around it. */
export function silent(server: string, cause: unknown): RlockError {
  if (cause instanceof RlockError) return cause;
  const { code = "", message = "" } = (cause ?? {}) as { code?: string; message?: string };
  return new Unreachable(`does not answer: ${REASONS[code] ?? (message || code || "no reason given")}`, "", cause, server);
}

/** Whether the reply to HELLO, which every user may say, tells of a replica. */
export function isReplica(reply: unknown): boolean {
  return Array.isArray(reply) || typeof reply === "object" ? (read(reply) as { role?: unknown } | null)?.role === "replica" : false;
}

export function demoted(server: string): RlockError {
  return new Unreachable("is a replica", "", undefined, server);
}

/** What a failed request means. */
export function failure(lock: string, error: unknown, server: string, cluster = false): { failure: Failure; error: RlockError } {
  if (error instanceof Unsent) return { failure: "unsent", error: error.because };
  if (!(error instanceof ServerError)) return { failure: "unanswered", error: silent(server, error) };
  const text = error.message;
  if (text.startsWith("READONLY ")) return { failure: "passing", error: demoted(server) };
  const [, kind, Class] = REFUSALS.find(([beginning]) => beginning.test(text)) ?? (["", "final", Refused] as const);
  const hint = !cluster && /^(MOVED|ASK) /.test(text) ? " (this server is one of a cluster: connect with a cluster client)" : "";
  return { failure: kind, error: new Class(text + hint, lock, undefined, server) };
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

function unexpected(command: string, reply: unknown): RlockError {
  return new Unsupported(`${command} was answered with ${JSON.stringify(reply)}; update the server's module, or this client`);
}

export interface Message extends Omit<Told, "current"> {
  readonly claim: { readonly lock: string; readonly owner: string; readonly mode: Mode };
}

const MODES: Record<string, Mode> = { read: "READ", write: "WRITE", permit: "PERMIT" };

/** Reads a message; `undefined` for one that is not understood. */
export function message(text: string): Message | undefined {
  const fields = text.split(" ");
  const [notice, , owner, lock] = fields;
  if ((notice !== "granted" && notice !== "timeout" && notice !== "dropped") || owner === undefined || lock === undefined) return undefined;
  // Before the mode a grant has holds, lease and token, and a drop its reason.
  const word = fields[{ granted: 7, timeout: 4, dropped: 5 }[notice]];
  try {
    const claim = { owner: decodeURIComponent(owner), lock: decodeURIComponent(lock), mode: MODES[word ?? ""] ?? "" } as const;
    return { notice, claim, ...(notice === "granted" ? { lease: Number(fields[5]), token: Number(fields[6]) } : { lease: 0, token: 0 }) };
  } catch {
    // Not UTF-8: not a name of this client.
    return undefined;
  }
}

/** The address in a URL, as errors name it. */
export function addressOf(url: string): string {
  try {
    const { hostname, port, pathname } = new URL(url.includes("://") ? url : `redis://${url}`);
    return hostname ? `${hostname}:${port || "6379"}` : pathname;
  } catch {
    return url.replace(/.*@/, "");
  }
}

/** What a URL says of several servers, or of a socket. */
export interface Endpoint {
  readonly kind: "socket" | "sentinel" | "cluster";
  readonly nodes: readonly Place[];
  /** Of the socket; or what the Sentinels name the primary. */
  readonly name: string;
  readonly tls: boolean;
  readonly database: number;
  readonly access: { readonly username?: string; readonly password?: string };
  /** For the Sentinels themselves. */
  readonly sentinelPassword: string | undefined;
}

const FORMS =
  "unix://[user:password@]/path[?db=database], redis+sentinel://[user:password@]host:port,host:port/name[/database] or " +
  "redis+cluster://[user:password@]host:port,host:port";
const URLS = /^(?:(?:redis|valkey)(s?)\+(sentinel|cluster)|unix):\/\/(?:([^:@/]*)(?::([^@/]*))?@)?([^/?]*)(\/[^?]*)?(?:\?(.*))?$/i;

/** Reads a URL that drivers do not know; nothing for another. */
export function endpoint(url: string): Endpoint | undefined {
  if (!/^(unix|[a-z]+\+[a-z]+):/i.test(url)) return undefined;
  const found = URLS.exec(url);
  const [, s, several = "socket", username, password, hosts = "", path = "", query] = found ?? [];
  const kind = several.toLowerCase() as Endpoint["kind"];
  const options = new URLSearchParams(query);
  const [name = "", database = "", ...more] =
    kind === "socket" ? [path, options.get("db") ?? ""] : kind === "cluster" ? ["", path.slice(1)] : path.slice(1).split("/");
  const complete = found && (kind === "socket") === (hosts === "") && (kind === "cluster") === (name === "");
  // Not the URL itself: it may have a password.
  if (!complete || !/^\d*$/.test(database) || more.length > 0) throw new Invalid(`this is not the URL of servers: write ${FORMS}`);
  const node = (host: string): Place => {
    const [, name = "", port] = /^\[?(.*?)\]?(?::(\d+))?$/.exec(host) ?? [];
    return { host: name, port: Number(port ?? (kind === "sentinel" ? 26_379 : 6_379)) };
  };
  const access = {
    ...(username && { username: decodeURIComponent(username) }),
    ...(password && { password: decodeURIComponent(password) }),
  };
  const sentinelPassword = options.get("sentinel_password") ?? undefined;
  return {
    kind,
    nodes: hosts.split(",").map(node),
    name: decodeURIComponent(name),
    tls: !!s,
    database: Number(database),
    access,
    sentinelPassword,
  };
}

/** A URL that drivers know: Valkey's are the same. */
export function plain(url: string): string {
  return url.replace(/^valkey(s?):/i, "redis$1:");
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
  /** At most 100. `session`: the id of the connection that a hold is tied to. */
  readonly holders: readonly { owner: string; mode: string | null; holds: number; lease: number; session?: number }[];
  /** The waiters in order, at most 100. */
  readonly queue: readonly { owner: string; mode: string | null; via: string; age: number; waitLeft: number; clientId: number }[];
}

/** A reply's maps, as a driver has those of RESP3 or flat as in RESP2, as an object with the names of `Info`. */
export function read(reply: unknown): unknown {
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

const LONGEST = 2 ** 43;

export function milliseconds(word: string, value: unknown, least: number): number {
  if (typeof value === "number" && value >= least && value <= LONGEST) return Math.ceil(value);
  throw new Invalid(`${word} is a number of milliseconds from ${String(least)} to 2^43, not ${String(value)}`);
}
