/** A client, how it is made and how it ends. */
import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { basename } from "node:path";
import { Acquisition } from "./acquisition.js";
import { Clock } from "./clock.js";
import { Closed, Denied, Invalid, ModuleMissing, RlockError, Timeout, Unflushed, Unsupported } from "./errors.js";
import { hook, type Event, type OnEvent } from "./events.js";
import { Link, type Driver } from "./link.js";
import { Guard, Handle, WriteGuard, known, times, type Times } from "./lock.js";
import type { Lock, LockOptions, ReadOptions, ReadWriteLock, Semaphore } from "./lock.js";
import type { Machine } from "./machine.js";
import { Timers } from "./timers.js";
import { address, failure, message, milliseconds, words, type Order } from "./wire.js";

export interface ClientOptions {
  /** Names the client in owners and in CLIENT LIST; the program's name by default. */
  readonly name?: string;
  /** The lease of all locks that set none, in ms; 30,000 by default. */
  readonly lease?: number;
  /** How long `acquire` waits where nothing else is said, in ms; for ever by default. */
  readonly wait?: number;
  /** The session grace of all locks that set none, in ms; without one by default. */
  readonly sessionGrace?: number;
  /** How long the server may take to answer, in ms: a sixth of the lease by default, from 50 to 5,000. */
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
  /** @internal */
  readonly response: number;
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
    this.response = milliseconds("responseTimeout", options.responseTimeout ?? Math.min(Math.max(this.defaults.lease / 6, 50), 5_000), 1);
    this.link = new Link(driver, this, name);
  }

  /** Waits for the first connection, and asks whether the server has the module. */
  protected async probe(): Promise<this> {
    // A client that is idle keeps no process alive, one that connects does.
    const alive = setInterval(() => undefined, 60_000);
    try {
      await this.link.settled;
      // Without arguments it does nothing.
      await this.request("", ["RLOCK.RENEW"]).catch((error: unknown) => {
        if (error instanceof ModuleMissing || (error instanceof RlockError && error.code === "UNREACHABLE")) throw error;
      });
      return this;
    } catch (error) {
      await this.close();
      throw error;
    } finally {
      clearInterval(alive);
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
   * Ends all waits, marks all locks as lost so that their work ends, waits at most `timeout` ms (5,000) until they are released,
   * and closes the connections. Rejects with `Unflushed` if not all were; the others stay held until lease end.
   */
  close(options: { readonly timeout?: number } = {}): Promise<void> {
    return (this.#closing ??= this.#close(options.timeout ?? 5_000));
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
    if (this.acquisitions.size === 0) this.#emptied();
  }

  /** A request that belongs to no machine: an error tells all. @internal */
  async request(lock: string, command: string[]): Promise<unknown> {
    try {
      return await this.link.commands.request(command);
    } catch (error) {
      throw this.#closing ? new Closed() : failure(lock, error).error;
    }
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
      if (this.acquisitions.size === 0) resolve();
    });
    clearTimeout(timer);
    this.link.close();
    const left = [...this.acquisitions.values()];
    this.acquisitions.clear();
    this.timers.stop();
    for (const acquisition of left) acquisition.abandon();
    if (left.length > 0) throw new Unflushed(String(left.length));
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
