/** Connections of the client's own to a server, kept up for ever: one for commands, one for the messages of the server. */
import type { Client } from "./client.js";
import { Closed, Permission, Unreachable, Unsupported, type RlockError } from "./errors.js";
import { Sentinels, type Watch } from "./sentinels.js";
import { ServerError, Unsent, demoted, failure, isReplica, silent, type Place } from "./wire.js";

/** A connection of the driver that repeats nothing and queues nothing while it is down. */
export interface Connection {
  connect(): Promise<unknown>;
  send(words: string[]): Promise<unknown>;
  /** `sharded`: by SSUBSCRIBE. */
  subscribe(channel: string, receive: (message: string) => void, sharded: boolean): Promise<unknown>;
  /** `error` or `end`: it is of no more use, or its channel has moved. */
  on(event: string, told: (error?: unknown) => void): unknown;
  unref(): void;
  close(): void;
}

export interface Driver {
  /** Of a cluster, some of its servers. */
  readonly seeds?: readonly Place[] | undefined;
  /** Where a server of a cluster is that gives this address. */
  map?(place: Place): Place;
  /** The address of the settings. */
  readonly server: string;
  readonly watch?: Watch | undefined;
  /** To this address, where Sentinels or a cluster name it. */
  open(timeout: number, place?: Place): Connection;
}

const FIRST_PAUSE = 10;
const LONGEST_PAUSE = 1_000;
/** A handshake takes several round trips, with TLS some more, and may be the first of a busy process. */
export const LEAST_TO_CONNECT = 1_000;
/** What an idle client sends keeps no process alive. */
const IDLE = ["PING", "HELLO", "PUBSUB", "SENTINEL"];

/** Servers' replies, whatever class a copy of the driver has for them, begin with a word in capitals. */
export function asReply(error: unknown): unknown {
  return error instanceof Error && /^[A-Z]{2,} /.test(error.message) ? new ServerError(error.message) : error;
}

/** Names the connection. Servers before 7.2 know only one of these, and not every user may. */
export async function introduce(line: Line): Promise<void> {
  const tell = (...words: string[]) =>
    line.request(["CLIENT", ...words]).catch((error: unknown) => {
      if (!(error instanceof ServerError) || !/^(ERR|NOPERM) /.test(error.message)) throw error;
    });
  await Promise.all([tell("SETNAME", line.client.name), tell("SETINFO", "LIB-NAME", "rlock-client")]);
}

interface On {
  up(line: Line): Promise<unknown>;
  ready(): void;
  alive?(sentAt: number, reply: unknown): void;
  down(error: RlockError): void;
}

/** One connection, opened again whenever it is lost. */
export class Line {
  /** The one that is up. */
  connection: Connection | undefined;
  /** Whether all is done that comes before its use. */
  ready = false;
  #error: RlockError;
  /** Ends the connection that is up, or being set up; another one follows. */
  fail: (cause: unknown) => void = () => undefined;
  #pause = FIRST_PAUSE;
  /** The next attempt to connect, or the next heartbeat, and when that is due. */
  #next: NodeJS.Timeout | undefined;
  #beatAt = Infinity;
  /** What asks by the connection whether the server is there; undefined before the first connection. */
  #pulses: string[] | undefined;
  /** Callers of the attempt to connect that comes next, or is under way. */
  #callers: { resolve: () => void; reject: (error: RlockError) => void }[] = [];
  #pausing = false;

  constructor(
    readonly client: Client,
    /** The address that it leads to. */
    public server: string,
    /** What asks whether the server is there; the next one where it is refused, and nothing after the last. */
    readonly pulses: readonly string[],
    readonly open: (timeout: number, line: Line) => Connection | Promise<Connection>,
    readonly on: On,
    /** How long a reply may take. */
    readonly response = client.response,
  ) {
    this.#error = silent(server, new Error("no answer while connecting"));
    void this.#open();
  }

  /** Connects now, unless it is up; rejects if that fails. */
  opened(): Promise<void> {
    if (this.ready) return Promise.resolve();
    return new Promise((resolve, reject) => {
      this.#callers.push({ resolve, reject });
      if (!this.#pausing) return;
      clearTimeout(this.#next);
      void this.#open();
    });
  }

  /** Why it does not answer. */
  kept(): RlockError {
    return this.connection ? silent(this.server, new Error("no reply in time")) : this.#error;
  }

  /** Sends at once, or not at all. Rejects with a `ServerError` for an error reply; otherwise the outcome is unknown. */
  async request(words: string[], patience = this.response): Promise<unknown> {
    const { connection } = this;
    if (!connection) throw new Unsent(this.#error);
    try {
      return await this.#within(patience, connection.send(words), words[0] ?? "", IDLE.includes(words[0] ?? ""));
    } catch (error) {
      const told = asReply(error);
      // Why the connection failed says more than that it is closed.
      throw told instanceof ServerError || connection === this.connection ? told : this.#error;
    }
  }

  async subscribe(channel: string, receive: (message: string) => void, sharded = false): Promise<void> {
    if (!this.connection) throw new Unsent(this.#error);
    await this.#within(this.response, this.connection.subscribe(channel, receive, sharded), "SUBSCRIBE", true);
  }

  /**
   * Asks after a pause whether the server is there, and again. A session's grace has room for the pause, the answer, and a quarter
   * in which its holds are tied to another connection.
   */
  beat(grace = this.#grace()): void {
    const { connection, client } = this;
    const pause = Math.min(this.response / 2, grace / 4);
    const at = client.clock.now() + pause;
    // One that is due sooner, or under way, is not put off.
    const [pulse] = this.#pulses ?? [];
    if (!connection || pulse === undefined || at >= this.#beatAt) return;
    const ask = async () => {
      const sentAt = client.clock.now();
      const asked = this.request([pulse], Math.min(this.response, this.#grace() / 2));
      // An error is an answer too.
      const reply: unknown = await asked.catch((error: unknown) => (error instanceof ServerError ? error : undefined));
      if (connection !== this.connection) return;
      // What the server refuses is not repeated: it would fill ACL LOG.
      if (reply instanceof ServerError) this.#pulses?.shift();
      if (reply !== undefined) this.on.alive?.(sentAt, reply);
      this.#beatAt = Infinity;
      this.beat();
    };
    clearTimeout(this.#next);
    this.#beatAt = at;
    this.#next = setTimeout(() => void ask(), pause).unref();
  }

  close(): void {
    this.#error = new Closed();
    this.fail(this.#error);
    this.#pausing = false;
    for (const { reject } of this.#callers.splice(0)) reject(this.#error);
    clearTimeout(this.#next);
  }

  /** A driver's own time-outs do not end a command that was sent. A connection that leaves one unanswered is given up. */
  async #within<T>(ms: number, reply: Promise<T>, what: string, idle: boolean): Promise<T> {
    const fail = this.fail;
    let timer: NodeJS.Timeout | undefined;
    let over = false;
    const late = new Promise<never>((_, reject) => {
      const expire = () => {
        const error = new Error(`${what}: no reply within ${String(ms)} ms`);
        if (!over) fail(error);
        reject(error);
      };
      // After a loop that was blocked, timers run before what has arrived is read.
      timer = setTimeout(() => setImmediate(expire), ms);
      if (idle) timer.unref();
    });
    try {
      return await Promise.race([reply, late]);
    } finally {
      over = true;
      clearTimeout(timer);
    }
  }

  /** The shortest of the sessions that end with this connection: none ends with the first. */
  #grace(): number {
    return this.#pulses && this.on.alive ? this.client.grace() : Infinity;
  }

  async #open(): Promise<void> {
    const { client } = this;
    const began = client.clock.now();
    this.#pausing = false;
    let connection: Connection | undefined;
    const fail = (cause: unknown) => {
      if (this.fail !== fail) return;
      this.fail = () => undefined;
      connection?.close();
      this.connection = undefined;
      this.ready = false;
      if (this.#error instanceof Closed) return;
      // One that was lost at once must not be replaced at once, for ever.
      if (client.clock.now() - began > LONGEST_PAUSE) this.#pause = FIRST_PAUSE;
      this.#error = failure("", asReply(cause), this.server).error;
      for (const { reject } of this.#callers.splice(0)) reject(this.#error);
      clearTimeout(this.#next);
      this.#pausing = true;
      this.#next = setTimeout(() => void this.#open(), this.#pause * (0.5 + Math.random() / 2)).unref();
      this.#pause = Math.min(this.#pause * 2, LONGEST_PAUSE, this.#grace() / 8);
      this.on.down(this.#error);
    };
    this.fail = fail;
    // Holds that are tied to the last connection must be tied to this one within their grace.
    const timeout = Math.min(Math.max(this.response, LEAST_TO_CONNECT), this.#grace() / 2);
    const connect = async () => {
      connection = await this.open(timeout, this);
      connection.on("error", fail);
      connection.on("end", () => fail(new Error("the connection was closed")));
      if (this.fail === fail) await connection.connect();
      else connection.close();
      return connection;
    };
    try {
      const opened = await this.#within(timeout, connect(), "connecting", true);
      if (this.fail !== fail) return;
      opened.unref();
      this.connection = opened;
      this.#beatAt = Infinity;
      this.#pulses = [...this.pulses];
      this.beat();
      await this.on.up(this);
      if (this.fail !== fail) return;
      this.ready = true;
      for (const { resolve } of this.#callers.splice(0)) resolve();
      this.on.ready();
    } catch (error) {
      fail(error);
    }
  }
}

/** A server and both connections to it, and those to Sentinels. */
export class Link {
  readonly commands: Line;
  /** The channel of the present subscription. */
  channel = "";
  /** Whether the server that grants is the one whose messages are heard. */
  heard = false;
  /** Whether a server was found at the address, if not the primary. */
  reached = false;
  #messages: Line | undefined;
  #sentinels: Sentinels | undefined;
  /** The connection whose user may not ask for leases. */
  #blind: Connection | undefined;
  #lostAt: number | undefined;
  #settle: (error?: RlockError) => void = () => undefined;
  /** Of the first connection, or the first attempt that finds no server. */
  readonly settled: Promise<void>;

  constructor(
    readonly client: Client,
    readonly server: string,
    /** In a cluster, its place, the hash tag of a slot that it has, and whether it has that of a channel. */
    readonly node?: { readonly place: Place; tag(): string; has(channel: string): boolean },
  ) {
    this.settled = new Promise((resolve, reject) => {
      this.#settle = (error) => (error ? reject(error) : resolve());
    });
    this.settled.catch(() => undefined);
    this.commands = new Line(client, server, ["HELLO", "PING"], (...how) => this.#open(...how), {
      up: (line) => {
        // Before anything else: what is held is tied to this connection.
        client.wake(this);
        return introduce(line);
      },
      ready: () => this.#verify(),
      alive: (sentAt, reply) => {
        if (isReplica(reply)) return this.leave(demoted(this.commands.server));
        client.alive(this, sentAt);
      },
      down: (error) => this.#down(error),
    });
  }

  /** The server of all locks. */
  link(): this {
    return this;
  }

  /** Whether a machine can send, and if it `waits`, hear. */
  ready(waits: boolean): boolean {
    return this.commands.connection !== undefined && (!waits || this.heard);
  }

  /** Opens the connection for messages, once. */
  listen(): void {
    const { client, node, server } = this;
    this.#messages ??= new Line(client, server, ["PING"], (...how) => this.#open(...how), {
      up: async (line) => {
        const { connection } = line;
        await introduce(line);
        // Of each connection its own: nothing that is sent to an earlier one is taken for heard.
        const channel = client.channel() + (node ? `:{${node.tag()}}` : "");
        const receive = (text: string) => client.receive(this, text, this.heard && this.#messages?.connection === connection);
        await line.subscribe(channel, receive, node !== undefined);
        this.channel = channel;
      },
      ready: () => this.#verify(),
      down: (error) => this.#down(error),
    });
  }

  /** The server is not, or no longer, the primary: its address is asked for and resolved anew. */
  leave(error: RlockError): void {
    this.commands.fail(error);
    this.listenAnew(error);
  }

  /** The channel is of no more use here; the next subscription has another one. */
  listenAnew(error: unknown): void {
    this.#messages?.fail(error);
  }

  /** A Sentinel names this primary: connections to another server end; with `up`, not those that are being made. */
  follow(at: string, by: string, up = false): void {
    for (const line of [this.commands, this.#messages]) {
      // Not the first attempt to connect.
      if (!line || !this.reached || line.server === at || (up && !line.connection)) continue;
      line.fail(new Unreachable(`is no longer the primary: the Sentinel ${by} names ${at}`, "", undefined, line.server));
    }
  }

  /** How long another owner's lease can last. */
  async look(lock: string): Promise<unknown> {
    const { connection } = this.commands;
    if (!connection || this.#blind === connection) return undefined;
    try {
      return await this.commands.request(["PTTL", lock]);
    } catch (error) {
      // Asked again, where this user may not, it would fill ACL LOG.
      if (error instanceof ServerError && error.message.startsWith("NOPERM ")) this.#blind = connection;
      return undefined;
    }
  }

  /** What keeps the server from answering, or its messages from coming. */
  kept(messages: boolean): RlockError {
    const deaf = messages && this.commands.connection && !this.heard ? this.#messages : undefined;
    return (deaf ?? this.commands).kept();
  }

  /** To a server that says it is the primary, wherever its address comes from. */
  async #open(timeout: number, line: Line): Promise<Connection> {
    const { client, node } = this;
    const { driver } = client;
    if (driver.watch) this.#sentinels ??= new Sentinels(client, this, driver.watch);
    const { place = node?.place, at, by } = (await this.#sentinels?.primary(timeout / 2)) ?? {};
    if (at !== undefined) line.server = at;
    const connection = driver.open(timeout, place);
    const connect = async () => {
      await connection.connect();
      const role = await connection.send(["HELLO"]).catch((error: unknown) => {
        // An older server, or a proxy; or this user is not admitted, as the first command will say.
        if (!(asReply(error) instanceof ServerError)) throw error;
      });
      this.reached ||= isReplica(role);
      if (isReplica(role)) throw demoted(`${line.server}${by === undefined ? "" : ` (named by the Sentinel ${by})`}`);
    };
    return { ...connection, connect };
  }

  close(): void {
    this.commands.close();
    this.#messages?.close();
    this.#sentinels?.close();
  }

  #down(error: RlockError): void {
    const { client } = this;
    if (!this.reached || error instanceof Permission) this.#settle(error);
    this.heard = false;
    if (this.#lostAt === undefined) client.tell({ type: "disconnected", error });
    this.#lostAt ??= performance.now();
    client.unlink(this);
    // The server will not let this user wait, or in at all; or the driver cannot.
    if (error instanceof Permission || error instanceof Unsupported)
      client.at(this, (each) => each.link === this && !this.ready(each.machine.waits) && each.cancel(error));
  }

  #verify(): void {
    if (this.commands.ready) this.#settle();
    if (!this.commands.ready || this.#messages?.ready === false) return;
    if (this.#lostAt !== undefined) this.client.tell({ type: "reconnected", after: performance.now() - this.#lostAt });
    this.#lostAt = undefined;
    if (this.#messages) void this.#hear(this.#messages);
  }

  /** After a fail-over the two connections may lead to two servers; in a cluster the server knows whether it has the channel's slot. */
  async #hear(messages: Line): Promise<void> {
    const { client, commands } = this;
    const pair = [commands.connection, messages.connection];
    const same = () => commands.connection === pair[0] && messages.connection === pair[1];
    try {
      const reply = this.node ? [this.channel, 1] : await commands.request(["PUBSUB", "NUMSUB", this.channel]);
      if (!same()) return;
      if (!Array.isArray(reply) || Number(reply[1]) < 1) throw new Error("the subscription is on another server");
      this.heard = true;
      client.wake(this);
    } catch (cause) {
      if (!same()) return;
      const { failure: kind, error } = client.failure("", cause, this);
      if (kind === "final") client.at(this, (each) => each.link === this && each.machine.waits && each.cancel(error));
      messages.fail(cause);
    }
  }
}
