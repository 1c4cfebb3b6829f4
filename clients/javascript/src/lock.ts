/** Locks by their names, and what one holds. */
import type { Acquisition } from "./acquisition.js";
import type { Client } from "./client.js";
import { Invalid, LockLost } from "./errors.js";
import { info, milliseconds, type Info, type Mode, type Order } from "./wire.js";

export interface ReadOptions {
  /** How long a hold lasts unless it is renewed, in ms. */
  readonly lease?: number;
  /** How long `acquire` and `run` wait, in ms; `Infinity` for ever. */
  readonly wait?: number;
  /** Whether the lock is renewed; `false`: it ends with its lease. */
  readonly renew?: boolean;
  /**
   * In ms, from 100: the lock is free this time after its connection ended, as when the process is killed, and not only at lease
   * end. A stopped process, a lost machine or a cut network keeps it until lease end. In this time the client proves four times
   * that it is alive; the lock is lost if the connection is down, or the event loop blocked, for longer.
   */
  readonly sessionGrace?: number;
  /**
   * In ms, from the acquisition: a release before this time keeps the lock held for the rest of the time, as for a job that must not
   * run twice a minute.
   */
  readonly atLeast?: number;
  /** In ms, from the acquisition: after this time the lock is no longer renewed, and is lost at lease end. */
  readonly maxHold?: number;
  /** The owner, instead of a new one for each acquisition: acquiring a lock that this owner holds in this client re-enters the lock. */
  readonly owner?: string;
}

export interface WriteOptions extends ReadOptions {
  /** Whether each guard has a fencing token, larger than those of all earlier holders. */
  readonly fenced?: boolean;
}

export interface LockOptions extends WriteOptions {
  /** One order with Redisson fair waiters of that name. Without Redisson clients a lock is fair already. */
  readonly fair?: boolean;
}

export interface AcquireOptions {
  /** For how long to wait at most, in ms. */
  readonly timeout?: number;
  /** Ends the wait, not the hold; `acquire` rejects with the signal's reason. */
  readonly signal?: AbortSignal;
}

/** Refuses options that do not exist: they would be ignored in silence. */
export function known(what: string, options: object, names: readonly string[]): void {
  const name = Object.keys(options).find((each) => !names.includes(each));
  if (name !== undefined) throw new Invalid(`${name} is no option of ${what}; its options: ${names.join(", ")}`);
}

/** A time to wait, in ms. */
export function waiting(word: string, value: number): number {
  return value === Infinity ? value : milliseconds(word, value, 0);
}

export type Times = Pick<Order, "lease" | "wait" | "grace">;

/** The times that these options set, and those of the client where they set none. */
export function times(options: Pick<ReadOptions, "lease" | "wait" | "sessionGrace">, defaults: Times): Times {
  const { lease = defaults.lease, wait = defaults.wait, sessionGrace } = options;
  return {
    // A renewal needs a round trip.
    lease: milliseconds("lease", lease, 100),
    wait: waiting("wait", wait),
    grace: sessionGrace === undefined ? defaults.grace : milliseconds("sessionGrace", sessionGrace, 100),
  };
}

function checkText(what: string, text: unknown, most: number): void {
  const bytes = typeof text === "string" ? Buffer.byteLength(text) : 0;
  if (bytes < 1 || bytes > most) throw new Invalid(`${what} is a string of 1 to ${String(most)} bytes`);
}

const READ = ["lease", "wait", "renew", "sessionGrace", "atLeast", "maxHold", "owner"];
const OPTIONS = { READ, PERMIT: READ, WRITE: [...READ, "fenced"], "": [...READ, "fenced", "fair"] };

/** A held lock. It is renewed until it is released or lost; a forgotten guard keeps the lock while the process lives. */
export class Guard {
  /** @internal */
  readonly acquisition: Acquisition;
  #released: Promise<void> | undefined;

  /** @internal */
  constructor(acquisition: Acquisition) {
    this.acquisition = acquisition;
  }

  get name(): string {
    return this.acquisition.order.lock;
  }

  /** The owner, as the server knows it. */
  get owner(): string {
    return this.acquisition.order.owner;
  }

  /** The fencing token of a fenced lock, the newest one; 0 for others. */
  get token(): number {
    return this.acquisition.token;
  }

  /** Aborted, with `LockLost` as its reason, as soon as the lock is lost. */
  get signal(): AbortSignal {
    return this.acquisition.loss.signal;
  }

  /** Throws `LockLost` unless the lock is held by this client's clock. Sends nothing. Returns how many ms it lasts without a renewal. */
  check(): number {
    if (this.#released && !this.signal.aborted) throw new LockLost(this.name, "released");
    return this.acquisition.check();
  }

  /** Adds a hold for the same owner. The lock is free when all its guards are released. */
  async reenter(): Promise<this> {
    this.check();
    if (!(await this.acquisition.level(1))) throw new LockLost(this.name, "released");
    return new (this.constructor as new (acquisition: Acquisition) => this)(this.acquisition);
  }

  /** Rejects with `LockLost` if the lock was lost before, with `OutcomeUnknown` if a lost reply leaves that unknown. */
  release(): Promise<void> {
    return this.end(false);
  }

  /** Releases this guard; if `plain`, the lock is not kept for any time. @internal */
  end(plain: boolean): Promise<void> {
    return (this.#released ??= this.acquisition.leave(plain));
  }

  /**
   * Leaves the lock to another process, which adopts it with this owner: nothing renews or releases it from now on, and no session ends
   * it. Resolves to the owner, and to how long the lock is certainly held, in ms.
   */
  async detach(): Promise<{ owner: string; left: number }> {
    this.check();
    const left = this.acquisition.detach();
    if (this.acquisition.guards === 0) this.#released = left.then(() => undefined);
    this.#released?.catch(() => undefined);
    return { owner: this.owner, left: await left };
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.release();
  }
}

/** A held write lock. */
export class WriteGuard extends Guard {
  /** Turns the write hold into a read hold, without another writer in between. This guard is released. */
  async downgrade(): Promise<Guard> {
    this.check();
    const { client, order } = this.acquisition;
    const reader = new Guard(await client.acquire({ ...order, fenced: false, wait: 0, mode: "READ" }, undefined));
    try {
      await this.end(true);
    } catch (error) {
      await reader.release().catch(() => undefined);
      throw error;
    }
    return reader;
  }
}

/** Runs work and releases what is held for it. */
export async function hold<G extends { release(): Promise<void> }, T>(held: G, work: (held: G) => Promise<T> | T): Promise<T> {
  let result: T;
  try {
    result = await work(held);
  } catch (error) {
    await held.release().catch(() => undefined);
    throw error;
  }
  await held.release();
  return result;
}

/** A lock by its name, of a kind whose guards are `G`. */
export class Handle<G extends Guard> {
  readonly #client: Client;
  readonly #order: Omit<Order, "owner">;
  readonly #owner: string | undefined;
  readonly #guard: new (acquisition: Acquisition) => G;

  /** @internal */
  constructor(
    client: Client,
    readonly name: string,
    mode: Mode,
    options: LockOptions,
    guard: new (acquisition: Acquisition) => G,
    permits?: number,
  ) {
    checkText("the name of a lock", name, 1024);
    known("this lock", options, OPTIONS[mode]);
    const { renew = true, fair = false, fenced = false, atLeast = 0, maxHold = Infinity, owner } = options;
    checkText("an owner", owner ?? "x", 512);
    this.#client = client;
    const hold = { atLeast: milliseconds("atLeast", atLeast, 0), maxHold: waiting("maxHold", maxHold) };
    this.#order = { lock: name, mode, ...times(options, client.defaults), ...hold, renew, fair, fenced, permits };
    this.#owner = owner;
    this.#guard = guard;
  }

  /** Waits for the lock. Rejects with `Timeout` when the wait is over. */
  async acquire(options: AcquireOptions = {}): Promise<G> {
    known("acquire", options, ["timeout", "signal"]);
    return this.#acquire(Math.max(waiting("timeout", options.timeout ?? this.#order.wait), 1), options.signal);
  }

  /** Asks for the lock once. Rejects with `Denied` if another owner holds it. */
  async tryAcquire(options: Pick<AcquireOptions, "signal"> = {}): Promise<G> {
    return this.#acquire(0, options.signal);
  }

  /** Adopts the lock of an owner that another process has detached. Rejects with `LockLost` if the owner no longer holds it. */
  async adopt(owner: string): Promise<G> {
    checkText("an owner", owner, 512);
    return new this.#guard(await this.#client.acquire({ ...this.#order, wait: 0, owner }, undefined, true));
  }

  /** Holds the lock while `work` runs, and rejects with `LockLost` if it was lost by the end, unless `work` failed itself. */
  async run<T>(work: (held: G) => Promise<T> | T, options: AcquireOptions = {}): Promise<T> {
    return hold(await this.acquire(options), work);
  }

  /** Whether the lock is held. */
  async locked(): Promise<boolean> {
    return (await this.info()).lease !== null;
  }

  /** The lock as its server sees it. */
  async info(): Promise<Info> {
    return info(await this.#client.request(this.name, () => ["RLOCK.INFO", this.name]));
  }

  /** Removes all holds; the holders notice it at their next renewal. Returns whether the lock was held. */
  async forceRelease(): Promise<boolean> {
    return (await this.#client.request(this.name, () => ["RLOCK.FORCERELEASE", this.name])) === 1;
  }

  async #acquire(wait: number, signal: AbortSignal | undefined): Promise<G> {
    const owner = this.#owner ?? this.#client.owner();
    return new this.#guard(await this.#client.acquire({ ...this.#order, wait, owner }, signal));
  }
}

/** A plain lock: one holder at a time. */
export type Lock = Handle<Guard>;
/** The read side of a read/write lock. */
export type ReadLock = Handle<Guard>;
/** The write side of a read/write lock. */
export type WriteLock = Handle<WriteGuard>;
/** A lock that as many owners may hold at once as it has permits. */
export type Semaphore = Handle<Guard>;

/** Many readers together, or one writer alone. */
export interface ReadWriteLock {
  readonly name: string;
  read(options?: ReadOptions): ReadLock;
  write(options?: WriteOptions): WriteLock;
}
