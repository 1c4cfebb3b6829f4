/** A client, how it is made and how it ends. */
import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { basename } from "node:path";
import { Acquisition } from "./acquisition.js";
import { Clock } from "./clock.js";
import { Closed, Denied, Invalid, ModuleMissing, Timeout, Unflushed, Unreachable, Unsupported } from "./errors.js";
import { hook, type Event, type OnEvent } from "./events.js";
import { LEAST_TO_CONNECT, Link, type Driver } from "./link.js";
import { Guard, Handle, WriteGuard, known, times, type Times } from "./lock.js";
import type { Lock, LockOptions, ReadOptions, ReadWriteLock, Semaphore } from "./lock.js";
import type { Machine } from "./machine.js";
import { Timers } from "./timers.js";
import { ServerError, address, failure, message, milliseconds, words, type Order } from "./wire.js";

export interface ClientOptions {
  /** Names the client in owners and in CLIENT LIST; the program's name by default. */
  readonly name?: string;
  /** The lease of all locks that set none, in ms; 30,000 by default. */
  readonly lease?: number;
  /** How long `acquire` waits where nothing else is said, in ms; for ever by default. */
  readonly wait?: number;
  /** The session grace of all locks that set none, in ms; without one by default. */
  readonly sessionGrace?: number;
  /**
   * How long every call takes at most that does not wait for a lock, whatever becomes of the server, in ms; 2,000 by default. A
   * connection is given up after a sixth of the lease, if that is less.
   */
  readonly responseTimeout?: number;
  /** Receives what happens to locks and connections, for metrics and logs. */
  readonly onEvent?: OnEvent;
}

/** At most 64 characters without a meaning in commands, channels and owners. */
function word(text: string, otherwise: string): string {
  const plain = text.trim().slice(0, 64);
  return plain.replace(/[^A-Za-z0-9._-]/g, "_") || otherwise;
}

/** One per process: locks on one server, behind Sentinels, or, without waiting, in a cluster. */
export class Client {
  /** `<name>@<host>:<pid>:<random>`: the owners of this client begin with it. */
  readonly identity: string;
  /** @internal */
  readonly defaults: Times;
  /** @internal */
  readonly clock = new Clock();
  /** How long a reply may take. @internal */
  readonly response: number;
  /** How long a caller waits. @internal */
  readonly limit: number;
  /** @internal */
  readonly channel: string;
  /** @internal */
  readonly link: Link;
  /** @internal */
  readonly tell: (event: Event) => void;
  /** @internal */
  readonly acquisitions = new Map<string, Acquisition>();
  /** Those that have guards, lost or not, of owners that the caller named. @internal */
  readonly named = new Map<string, Acquisition>();
  /** @internal */
  readonly timers = new Timers(this.clock, this.acquisitions);
  #numbers = 0;
  #closing: Promise<void> | undefined;
  #emptied: () => void = () => undefined;

  protected constructor(driver: Driver, options: ClientOptions) {
    known("a client", options, ["name", "lease", "wait", "sessionGrace", "responseTimeout", "onEvent"]);
    if (options.onEvent !== undefined && typeof options.onEvent !== "function") throw new Invalid("onEvent is a function");
    this.defaults = times(options, { lease: 30_000, wait: Infinity, grace: 0 });
    const program = basename(process.argv[1] ?? "node").replace(/\.[cm]?[jt]s$/, "");
    const name = `${word(options.name ?? program, "rlock-client")}@${word(hostname(), "localhost")}:${String(process.pid)}`;
    const random = randomUUID().replaceAll("-", "");
    this.identity = `${name}:${random}`;
    this.channel = `rlock:grants:${random}`;
    this.tell = hook(options.onEvent);
    this.limit = milliseconds("responseTimeout", options.responseTimeout ?? 2_000, 1);
    this.response = options.responseTimeout === undefined ? Math.min(Math.max(this.defaults.lease / 6, 50), this.limit) : this.limit;
    this.link = new Link(driver, this, name);
  }

  /** Waits for the first connection, and asks whether the server has the module. */
  protected async probe(): Promise<this> {
    // A client that is idle keeps no process alive, one that connects does.
    let late: NodeJS.Timeout | undefined;
    const over = new Promise<never>((_, reject) => {
      late = setTimeout(() => reject(this.link.kept(false)), Math.max(this.limit, LEAST_TO_CONNECT));
    });
    try {
      // Without arguments it does nothing.
      const ask = () =>
        this.request("", ["RLOCK.RENEW"]).catch((error: unknown) => {
          if (error instanceof ModuleMissing || error instanceof Unreachable) throw error;
        });
      await Promise.race([this.link.settled.then(ask), over]);
      return this;
    } catch (error) {
      await this.close();
      throw error;
    } finally {
      clearTimeout(late);
    }
  }

  /** The lock with this name: the key in the server, without the prefix of your driver client. */
  lock(name: string, options: LockOptions = {}): Lock {
    return new Handle(this, name, "", options, Guard);
  }

  /** The read/write lock with this name: many readers together, or one writer alone. */
  readWriteLock(name: string): ReadWriteLock {
    return {
      name,
      read: (options = {}) => new Handle(this, name, "READ", options, Guard),
      write: (options = {}) => new Handle(this, name, "WRITE", options, WriteGuard),
    };
  }

  /**
   * The semaphore with this name: at most `permits` owners hold it at once, each with a lease of its own. The server does not
   * store the number: use the same one everywhere.
   */
  semaphore(name: string, permits: number, options: ReadOptions = {}): Semaphore {
    if (!Number.isInteger(permits) || permits < 1 || permits > 2 ** 31 - 1) {
      throw new Invalid(`a semaphore has from 1 to ${String(2 ** 31 - 1)} permits, not ${String(permits)}`);
    }
    return new Handle(this, name, "PERMIT", options, Guard, permits);
  }

  /**
   * Ends all waits, marks all locks as lost so that their work ends, waits at most `timeout` ms (a response timeout) until they
   * are released, and closes the connections. Rejects with `Unflushed` if not all were; the others stay held until lease end.
   */
  close(options: { readonly timeout?: number } = {}): Promise<void> {
    return (this.#closing ??= this.#close(options.timeout ?? this.limit));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** A new owner for each acquisition. @internal */
  owner(): string {
    this.#numbers += 1;
    return `${this.identity}:${String(this.#numbers)}`;
  }

  /**
   * Acquires a lock; what it leaves in the server when that fails is taken care of. An owner that the caller named has one
   * acquisition of a lock at a time: a later one re-enters it, or waits for its end. @internal
   */
  async acquire(asked: Order, signal: AbortSignal | undefined): Promise<Acquisition> {
    const key = address(asked);
    const began = this.clock.now();
    let order = asked;
    for (let other = this.acquisitions.get(key); other && !this.#closing; other = this.acquisitions.get(key)) {
      signal?.throwIfAborted();
      if (other.machine.phase === "held" && (await other.level(1))) return other;
      if (asked.wait === 0) throw new Denied("", asked.lock);
      await new Promise((resolve) => setTimeout(resolve, 5));
      const waited = this.clock.now() - began;
      if (waited >= asked.wait) throw new Timeout(waited.toFixed(), asked.lock);
      order = { ...asked, wait: asked.wait - waited };
    }
    if (this.#closing) throw new Closed();
    // While a lost one has guards, there is no next: their release would end its hold.
    this.named.get(key)?.check();
    if (this.link.driver.cluster) {
      if (order.wait !== 0) throw new Unsupported("this client does not wait in a cluster; use tryAcquire, or a server without a cluster");
      if (order.grace !== 0) throw new Unsupported("this client has no sessions in a cluster; leave sessionGrace out");
    }
    if (order.wait !== 0) this.link.listen();
    signal?.throwIfAborted();
    const acquisition = new Acquisition(this, order);
    const abort = () => acquisition.feed((machine) => machine.cancel(signal?.reason));
    signal?.addEventListener("abort", abort, { once: true });
    await acquisition.start().finally(() => signal?.removeEventListener("abort", abort));
    if (!order.owner.startsWith(`${this.identity}:`)) this.named.set(key, acquisition);
    if (!signal?.aborted) return acquisition;
    // It was granted in the same moment.
    acquisition.leave().catch(() => undefined);
    throw signal.reason;
  }

  /** @internal */
  enter(acquisition: Acquisition): void {
    this.acquisitions.set(address(acquisition.order), acquisition);
    if (acquisition.order.grace !== 0) this.link.commands.beat(acquisition.order.grace);
  }

  /** @internal */
  leave(acquisition: Acquisition): void {
    const key = address(acquisition.order);
    // Code that heard of a loss may have acquired the lock anew.
    if (this.acquisitions.get(key) === acquisition) this.acquisitions.delete(key);
    if (!this.#pending()) this.#emptied();
  }

  /** Whether anything is left to be released; without a server, only what is held. */
  #pending(): boolean {
    return [...this.acquisitions.values()].some((each) => each.held || this.link.commands.connection !== undefined);
  }

  /** A request that belongs to no machine: an error tells all. @internal */
  async request(lock: string, command: string[]): Promise<unknown> {
    try {
      return await this.link.commands.request(command, this.limit);
    } catch (error) {
      throw this.#closing ? new Closed() : this.failure(lock, error).error;
    }
  }

  /** What a failed request means. A server that refuses it because it is a replica is left. @internal */
  failure(lock: string, cause: unknown): ReturnType<typeof failure> {
    const told = failure(lock, cause, this.link.commands.server);
    const replica = cause instanceof ServerError && cause.message.startsWith("READONLY ");
    if (replica && !this.link.driver.cluster) this.link.leave(told.error);
    return told;
  }

  async #close(timeout: number): Promise<void> {
    // Waiters leave the queue; holders are notified, and release when their work has ended.
    for (const acquisition of [...this.acquisitions.values()]) {
      acquisition.feed((machine) => machine.cancel(new Closed()));
      acquisition.feed((machine) => machine.lose("closed"));
    }
    let timer: NodeJS.Timeout | undefined;
    await new Promise<void>((resolve) => {
      this.#emptied = resolve;
      timer = setTimeout(resolve, timeout);
      if (!this.#pending()) resolve();
    });
    clearTimeout(timer);
    this.link.close();
    const left = [...this.acquisitions.values()];
    this.acquisitions.clear();
    this.timers.stop();
    for (const acquisition of left) acquisition.abandon();
    // A lock that a wait did not get is not one of them.
    const held = left.filter((each) => each.held).length;
    if (held > 0) throw new Unflushed(String(held));
  }

  /** The shortest grace of the sessions in use. @internal */
  grace(): number {
    return [...this.acquisitions.values()].reduce((least, { order }) => Math.min(least, order.grace || Infinity), Infinity);
  }

  /** Locks that are held come first: their leases are running. @internal */
  each(which: (acquisition: Acquisition) => boolean, input: (machine: Machine) => void): void {
    const chosen = [...this.acquisitions.values()].filter(which);
    const held = (acquisition: Acquisition) => Number(acquisition.machine.phase !== "held");
    for (const acquisition of chosen.sort((a, b) => held(a) - held(b))) acquisition.feed(input);
  }

  /** @internal */
  receive(text: string): void {
    const told = message(text);
    if (!told) return;
    const { claim, notice, token } = told;
    const acquisition = this.acquisitions.get(address(claim));
    if (acquisition) return acquisition.feed((machine) => machine.message(notice, token));
    // Its wait is over. A named owner may be in use again by the time that the release arrives.
    if (notice !== "granted" || !claim.owner.startsWith(`${this.identity}:`)) return;
    const order = { ...claim, lease: 1, wait: 0, renew: false, fair: false, fenced: false, grace: 0 };
    this.link.commands.request(words("RELEASE", order)).catch(() => undefined);
  }
}
