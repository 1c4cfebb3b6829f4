/** A client, how it is made and how it ends. */
import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { basename } from "node:path";
import { Acquisition } from "./acquisition.js";
import { LockAll } from "./all.js";
import { Clock } from "./clock.js";
import { Cluster, type Redirection } from "./cluster.js";
import { Closed, Denied, Invalid, ModuleMissing, Timeout, Unflushed, Unreachable, type RlockError } from "./errors.js";
import { hook, type Event, type OnEvent } from "./events.js";
import { LEAST_TO_CONNECT, Link, type Driver } from "./link.js";
import { Guard, Handle, WriteGuard, known, times, type Times } from "./lock.js";
import type { Lock, LockOptions, ReadOptions, ReadWriteLock, Semaphore } from "./lock.js";
import { Timers } from "./timers.js";
import { ServerError, Unsent, address, failure, message, milliseconds, words, type Message, type Order } from "./wire.js";

/** How many holds are remembered that outlast their release. A message is late by seconds at most. */
const KEPT = 1_000;
/** The pause before a request is repeated in a cluster that is changing; each next is twice as long. */
const FIRST_PAUSE = 10;
const LONGEST_PAUSE = 250;

/** Rejects when the work takes longer. */
async function within<T>(ms: number, work: Promise<T>, late: () => Error): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const over = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(late()), ms);
  });
  return Promise.race([work, over]).finally(() => clearTimeout(timer));
}

export interface ClientOptions {
  /** Names the client in owners and in CLIENT LIST; the program's name by default. */
  readonly name?: string;
  /** The lease of all locks that set none, in ms; 30,000 by default. */
  readonly lease?: number;
  /** How long `acquire` waits for locks that set no limit, in ms; for ever by default. */
  readonly wait?: number;
  /** The session grace of all locks that set none, in ms; without one by default. */
  readonly sessionGrace?: number;
  /**
   * The limit of each call that does not wait for a lock, in ms; 2,000 by default. A connection without an answer is given up
   * after a sixth of the lease, if that is less.
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

/** Locks on one server, behind Sentinels, or in a cluster. Use one client per process. */
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
  /** In CLIENT LIST. @internal */
  readonly name: string;
  /** @internal */
  readonly tell: (event: Event) => void;
  /** @internal */
  readonly acquisitions = new Map<string, Acquisition>();
  /** Those that have guards, lost or not, of owners that the caller named. @internal */
  readonly named = new Map<string, Acquisition>();
  /** @internal */
  readonly timers = new Timers(this.clock);
  /** Whether its connections are closed. @internal */
  closed = false;
  readonly #cluster: Cluster | undefined;
  readonly #servers: Cluster | Link;
  readonly #random = randomUUID().replaceAll("-", "");
  readonly #sessions = new Set<Acquisition>();
  /** The last holds that outlast their release: a late message must not end them. */
  readonly #kept = new Set<string>();
  #channels = 0;
  #numbers = 0;
  #closing: Promise<void> | undefined;
  #emptied: () => void = () => undefined;

  protected constructor(
    /** @internal */
    readonly driver: Driver,
    options: ClientOptions,
  ) {
    known("a client", options, ["name", "lease", "wait", "sessionGrace", "responseTimeout", "onEvent"]);
    if (options.onEvent !== undefined && typeof options.onEvent !== "function") throw new Invalid("onEvent is a function");
    this.defaults = times(options, { lease: 30_000, wait: Infinity, grace: 0 });
    const program = basename(process.argv[1] ?? "node").replace(/\.[cm]?[jt]s$/, "");
    this.name = `${word(options.name ?? program, "rlock-client")}@${word(hostname(), "localhost")}:${String(process.pid)}`;
    this.identity = `${this.name}:${this.#random}`;
    this.tell = hook(options.onEvent);
    this.limit = milliseconds("responseTimeout", options.responseTimeout ?? 2_000, 1);
    this.response = options.responseTimeout === undefined ? Math.min(Math.max(this.defaults.lease / 6, 50), this.limit) : this.limit;
    if (driver.seeds) this.#cluster = new Cluster(this);
    this.#servers = this.#cluster ?? new Link(this, driver.server);
  }

  /** Waits for the first connection, and asks whether the server has the module. */
  protected async probe(): Promise<this> {
    // In a cluster the map comes by a connection of its own.
    const patience = Math.max(this.limit, LEAST_TO_CONNECT * (this.#cluster ? 2 : 1));
    // Without arguments it does nothing.
    const ask = () =>
      this.request("", () => ["RLOCK.RENEW"], patience).catch((error: unknown) => {
        if (error instanceof ModuleMissing || error instanceof Unreachable) throw error;
      });
    try {
      // A client that is idle keeps no process alive, one that connects does.
      await within(patience, this.#servers.settled.then(ask), () => this.link("").kept(false));
      return this;
    } catch (error) {
      await this.close();
      throw error;
    }
  }

  /** The lock with this name. The name is the key in the server, without the prefix of your driver client. */
  lock(name: string, options: LockOptions = {}): Lock {
    return new Handle(this, name, "", options, Guard);
  }

  /** The locks with these names as one; the options apply to each of them. */
  lockAll(names: readonly string[], options: LockOptions = {}): LockAll {
    return new LockAll(names, times(options, this.defaults).wait, (name) => this.lock(name, options));
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
   * store the number: use the same number everywhere.
   */
  semaphore(name: string, permits: number, options: ReadOptions = {}): Semaphore {
    if (!Number.isInteger(permits) || permits < 1 || permits > 2 ** 31 - 1) {
      throw new Invalid(`a semaphore has from 1 to ${String(2 ** 31 - 1)} permits, not ${String(permits)}`);
    }
    return new Handle(this, name, "PERMIT", options, Guard, permits);
  }

  /**
   * Ends all waits, marks all locks as lost so that their work ends, waits at most `timeout` ms (a response timeout) until they
   * are released, and closes the connections. Rejects with `Unflushed` if some were not released: they stay held until lease end.
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

  /** A new channel for each subscription. @internal */
  channel(): string {
    this.#channels += 1;
    return `rlock:grants:${this.#random}:${String(this.#channels)}`;
  }

  /** The server that has this lock, as far as it is known. @internal */
  link(lock: string): Link {
    return this.#servers.link(lock);
  }

  /**
   * Acquires a lock; what it leaves in the server when that fails is taken care of. An owner that the caller named has one
   * acquisition of a lock at a time: a later one re-enters it, or waits for its end. With `adopt`, another process holds it. @internal
   */
  async acquire(asked: Order, signal?: AbortSignal, adopt = false): Promise<Acquisition> {
    const key = address(asked);
    const began = this.clock.now();
    let order = asked;
    for (let other = this.acquisitions.get(key); other && !this.#closing; other = this.acquisitions.get(key)) {
      signal?.throwIfAborted();
      if (adopt) throw new Invalid(`this client has an acquisition of the lock ${asked.lock} by the owner ${asked.owner}`);
      if (other.machine.phase === "held" && (await other.level(1))) return other;
      if (asked.wait === 0) throw new Denied("", asked.lock);
      // It changes when it has the lock, and when it ends.
      if (this.acquisitions.get(key) === other) await other.changed(order.wait, signal);
      const waited = this.clock.now() - began;
      if (waited >= asked.wait) throw new Timeout(waited.toFixed(), asked.lock);
      order = { ...asked, wait: asked.wait - waited };
    }
    if (this.#closing) throw new Closed();
    // While a lost one has guards, there is no next: their release would end its hold.
    this.named.get(key)?.check();
    signal?.throwIfAborted();
    const acquisition = new Acquisition(this, order);
    await acquisition.start(signal, adopt);
    if (!order.owner.startsWith(`${this.identity}:`)) this.named.set(key, acquisition);
    if (!signal?.aborted) return acquisition;
    // It was granted in the same moment.
    this.named.delete(key);
    acquisition.guards = 0;
    acquisition.feed((machine) => machine.cancel(signal.reason));
    throw signal.reason;
  }

  /** @internal */
  enter(acquisition: Acquisition): void {
    this.acquisitions.set(address(acquisition.order), acquisition);
    this.timers.enter(acquisition);
    if (acquisition.order.grace !== 0) this.#sessions.add(acquisition);
  }

  /** @internal */
  leave(acquisition: Acquisition): void {
    const key = address(acquisition.order);
    this.#sessions.delete(acquisition);
    this.timers.leave(acquisition);
    // Code that heard of a loss may have acquired the lock anew.
    if (this.acquisitions.get(key) === acquisition) this.acquisitions.delete(key);
    if (this.#closing && !this.#pending()) this.#emptied();
  }

  /** The hold outlasts its release. @internal */
  keep(order: Order): void {
    const [oldest] = this.#kept;
    if (this.#kept.size >= KEPT && oldest !== undefined) this.#kept.delete(oldest);
    this.#kept.add(address(order));
  }

  /** Whether anything is left to be released; without a server, only what is held. */
  #pending(): boolean {
    for (const each of this.acquisitions.values()) if (each.held || each.link.commands.connection) return true;
    return false;
  }

  /** A request that belongs to no machine, to the server that has the lock: an error tells all. @internal */
  async request(lock: string, command: (link: Link) => string[], limit = this.limit): Promise<unknown> {
    const end = this.clock.now() + limit;
    const left = () => Math.max(1, end - this.clock.now());
    let ask: Link | undefined;
    for (let pause = FIRST_PAUSE; ; pause = Math.min(2 * pause, LONGEST_PAUSE)) {
      const link = ask ?? this.link(lock);
      const { commands } = link;
      try {
        if (this.#cluster && !commands.connection) {
          const unsent = (error: RlockError) => Promise.reject(new Unsent(error));
          await within(left(), commands.opened().catch(unsent), () => new Unsent(link.kept(false)));
        }
        if (ask) commands.request(["ASKING"]).catch(() => undefined);
        return await commands.request(command(link), left());
      } catch (cause) {
        const next = this.redirection(cause);
        const { error } = this.failure(lock, cause, link);
        if (this.#closing) throw new Closed();
        if (next === undefined || left() <= pause) throw error;
        ask = next instanceof Link ? next : undefined;
        if (next === "later") await new Promise((resolve) => setTimeout(resolve, pause));
      }
    }
  }

  /** What a failure says of the lock's slot. @internal */
  redirection(cause: unknown): Redirection | undefined {
    const next = this.#cluster?.learn(cause);
    if (next !== undefined || !this.#cluster || !(cause instanceof Unsent)) return next;
    // Another server may have it by now.
    this.#cluster.doubt();
    return "later";
  }

  /** What a failed request means. A server that refuses it because it is a replica is left. @internal */
  failure(lock: string, cause: unknown, link?: Link, server = link?.commands.server ?? ""): ReturnType<typeof failure> {
    const told = failure(lock, cause, server, this.#cluster !== undefined);
    if (cause instanceof ServerError && cause.message.startsWith("READONLY ")) link?.leave(told.error);
    return told;
  }

  async #close(timeout: number): Promise<void> {
    // Waiters leave the queue; holders are notified, and release when their work has ended.
    for (const acquisition of [...this.acquisitions.values()]) {
      acquisition.cancel(new Closed());
      acquisition.feed((machine) => machine.lose("closed"));
    }
    const emptied = new Promise<void>((resolve) => (this.#emptied = resolve));
    if (this.#pending()) await within(timeout, emptied, () => new Closed()).catch(() => undefined);
    this.closed = true;
    this.#servers.close();
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
    let least = Infinity;
    for (const { order } of this.#sessions) least = Math.min(least, order.grace);
    return least;
  }

  /** A command that was sent at that time was answered on the link. @internal */
  alive(link: Link, sentAt: number): void {
    for (const each of this.#sessions) if (each.tied === link) each.feed((machine) => machine.alive(sentAt));
  }

  /** For all whose lock, or session, is at this link. Locks that are held come first: their leases are running. @internal */
  at(link: Link | undefined, act: (acquisition: Acquisition) => void): void {
    const chosen = [...this.acquisitions.values()].filter((each) => [undefined, each.link, each.tied].includes(link));
    const held = (acquisition: Acquisition) => Number(acquisition.machine.phase !== "held");
    for (const acquisition of chosen.sort((a, b) => held(a) - held(b))) act(acquisition);
  }

  /** A link can be used, for some purpose. @internal */
  wake(link: Link): void {
    this.at(link, (each) => each.feed(() => undefined));
  }

  /** A link is down, for some purpose: what cannot do without waits for it, or follows its lock to another server. @internal */
  unlink(link: Link): void {
    this.#cluster?.doubt();
    this.at(link, (each) => each.unlink());
  }

  /** A message that came by this link. `current`: by its present subscription, while both connections led to one server. @internal */
  receive(link: Link, text: string, current: boolean): void {
    const told: Message | undefined = message(text);
    if (!told) return;
    const { claim, notice } = told;
    const key = address(claim);
    const acquisition = this.acquisitions.get(key);
    if (acquisition) return acquisition.feed((machine) => machine.message({ ...told, current: current && acquisition.link === link }));
    // Its wait is over. A named owner may be in use again by the time that the release arrives.
    if (notice !== "granted" || !claim.owner.startsWith(`${this.identity}:`) || this.#kept.has(key)) return;
    const order = { ...claim, lease: 1, wait: 0, renew: false, fair: false, fenced: false, atLeast: 0, maxHold: Infinity, grace: 0 };
    link.commands.request(words("RELEASE", order)).catch(() => undefined);
  }
}
