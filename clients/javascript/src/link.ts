/** Connections of the client's own, kept up for ever: one for commands, one for the messages of the server. */
import type { Acquisition } from "./acquisition.js";
import type { Client } from "./client.js";
import { Closed, Permission, RlockError, Unreachable } from "./errors.js";
import type { Machine } from "./machine.js";
import { ServerError, Unsent, failure } from "./wire.js";

/** A connection of the driver that repeats nothing and queues nothing while it is down. */
export interface Connection {
  connect(): Promise<unknown>;
  send(words: string[]): Promise<unknown>;
  subscribe(channel: string, receive: (message: string) => void): Promise<unknown>;
  /** `error` or `end`: it is of no more use. */
  on(event: string, told: (error?: unknown) => void): unknown;
  unref(): void;
  close(): void;
}

export interface Driver {
  readonly cluster: boolean;
  /** Whether the driver finds another server that becomes the primary. */
  readonly follows: boolean;
  open(timeout: number): Connection | Promise<Connection>;
}

const FIRST_PAUSE = 10;
const LONGEST_PAUSE = 1_000;
/** A handshake takes several round trips, with TLS some more, and may be the first of a busy process. */
const LEAST_TO_CONNECT = 1_000;
const UNKNOWN = new Unreachable("", "", new Error("no connection yet"));

/** Servers' replies, whatever class a copy of the driver has for them, begin with a word in capitals. */
function asReply(error: unknown): unknown {
  return error instanceof Error && /^[A-Z]{2,} /.test(error.message) ? new ServerError(error.message) : error;
}

/** One connection, opened again whenever it is lost. */
export class Line {
  /** The one that is up. */
  connection: Connection | undefined;
  /** Whether all is done that comes before its use. */
  ready = false;
  #error: RlockError = UNKNOWN;
  /** Ends the connection that is up, or being set up; another one follows. */
  fail: (cause: unknown) => void = () => undefined;
  #pause = FIRST_PAUSE;
  /** The next attempt to connect, or the next heartbeat, and when that is due. */
  #next: NodeJS.Timeout | undefined;
  #beatAt = Infinity;

  constructor(
    readonly driver: Driver,
    readonly client: Client,
    readonly on: { up(line: Line): Promise<unknown>; ready(): void; alive?(sentAt: number): void; down(error: RlockError): void },
  ) {
    void this.#open();
  }

  /** Sends at once, or not at all. Rejects with a `ServerError` for an error reply; otherwise the outcome is unknown. */
  async request(words: string[], patience = this.client.response): Promise<unknown> {
    const { connection } = this;
    if (!connection) throw new Unsent(this.#error);
    // What an idle client sends keeps no process alive.
    const idle = words[0] === "PING" || words[0] === "PUBSUB";
    try {
      return await this.#within(patience, connection.send(words), words[0] ?? "", idle);
    } catch (error) {
      const told = asReply(error);
      // Why the connection failed says more than that it is closed.
      throw told instanceof ServerError || connection === this.connection ? told : this.#error;
    }
  }

  async subscribe(channel: string, receive: (message: string) => void): Promise<void> {
    if (!this.connection) throw new Unsent(this.#error);
    await this.#within(this.client.response, this.connection.subscribe(channel, receive), "SUBSCRIBE", true);
  }

  /**
   * Asks after a pause whether the server is there, and again. A session's grace has room for the pause, the answer, and a quarter
   * in which its holds are tied to another connection.
   */
  beat(grace = this.client.grace()): void {
    const { connection, client } = this;
    const pause = Math.min(client.response / 2, grace / 4);
    const at = client.clock.now() + pause;
    // One that is due sooner, or under way, is not put off.
    if (!connection || at >= this.#beatAt) return;
    const ask = async () => {
      const sentAt = client.clock.now();
      const reply = this.request(["PING"], Math.min(client.response, client.grace() / 2));
      // An error is an answer too.
      const answered = await reply.then(() => true).catch((error: unknown) => error instanceof ServerError);
      if (connection !== this.connection) return;
      if (answered) this.on.alive?.(sentAt);
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
        if (!over && !this.driver.cluster) fail(error);
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

  async #open(): Promise<void> {
    const { client } = this;
    const began = client.clock.now();
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
      this.#error = failure("", asReply(cause)).error;
      clearTimeout(this.#next);
      this.#next = setTimeout(() => void this.#open(), this.#pause * (0.5 + Math.random() / 2)).unref();
      this.#pause = Math.min(this.#pause * 2, LONGEST_PAUSE, client.grace() / 8);
      this.on.down(this.#error);
    };
    this.fail = fail;
    // Holds that are tied to the last connection must be tied to this one within their grace.
    const timeout = Math.min(Math.max(client.response, LEAST_TO_CONNECT), client.grace() / 2);
    const connect = async () => {
      connection = await this.driver.open(timeout);
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
      this.beat();
      await this.on.up(this);
      if (this.fail !== fail) return;
      this.ready = true;
      this.on.ready();
    } catch (error) {
      fail(error);
    }
  }
}

const waits = (each: Acquisition) => each.machine.waits;
const up = (machine: Machine) => machine.linkUp();

/** Both connections. */
export class Link {
  readonly commands: Line;
  /** Whether the server that grants is the one whose messages are heard. */
  heard = false;
  #messages: Line | undefined;
  #lostAt: number | undefined;
  #settle: (error?: RlockError) => void = () => undefined;
  /** Of the first attempt to connect. */
  readonly settled: Promise<void>;

  constructor(
    readonly driver: Driver,
    readonly client: Client,
    readonly name: string,
  ) {
    this.settled = new Promise((resolve, reject) => {
      this.#settle = (error) => (error ? reject(error) : resolve());
    });
    this.settled.catch(() => undefined);
    this.commands = new Line(driver, client, {
      up: (line) => {
        // Before anything else: what is held is tied to this connection.
        client.each((each) => !each.machine.waits, up);
        return this.#introduce(line);
      },
      ready: () => this.#verify(),
      alive: (sentAt) =>
        client.each(
          ({ order }) => order.grace > 0,
          (machine) => machine.alive(sentAt),
        ),
      down: (error) => this.#down(error, () => true),
    });
  }

  /** Opens the connection for messages, once. */
  listen(): void {
    const { client } = this;
    this.#messages ??= new Line(this.driver, client, {
      up: async (line) => {
        await this.#introduce(line);
        await line.subscribe(client.channel, (text) => client.receive(text));
      },
      ready: () => this.#verify(),
      down: (error) => this.#down(error, waits),
    });
  }

  /** The server became a replica: look for the primary. */
  doubt(error: RlockError): void {
    this.commands.fail(error);
    this.#messages?.fail(error);
  }

  close(): void {
    this.commands.close();
    this.#messages?.close();
  }

  async #introduce(line: Line): Promise<void> {
    if (this.driver.cluster) return;
    const tell = (...words: string[]) =>
      line.request(["CLIENT", ...words]).catch((error: unknown) => {
        // Servers before 7.2 know only one of them, and not every user may.
        if (!(error instanceof ServerError) || !/^(ERR|NOPERM) /.test(error.message)) throw error;
      });
    await Promise.all([tell("SETNAME", this.name), tell("SETINFO", "LIB-NAME", "rlock-client")]);
  }

  #down(error: RlockError, concerns: (each: Acquisition) => boolean): void {
    this.#settle(error);
    this.heard = false;
    if (this.#lostAt === undefined) this.client.tell({ type: "disconnected", error });
    this.#lostAt ??= performance.now();
    this.client.each(concerns, (machine) => machine.linkDown());
    // The server will not let this user wait, or in at all.
    if (error instanceof Permission) this.client.each(concerns, (machine) => machine.cancel(error));
  }

  #verify(): void {
    if (this.commands.ready) this.#settle();
    if (!this.commands.ready || this.#messages?.ready === false) return;
    if (this.#lostAt !== undefined) this.client.tell({ type: "reconnected", after: performance.now() - this.#lostAt });
    this.#lostAt = undefined;
    if (this.#messages) void this.#hear(this.#messages);
  }

  /** After a fail-over the two connections may lead to two servers, and a subscription may be half-open. */
  async #hear(messages: Line): Promise<void> {
    const { client, commands } = this;
    const pair = [commands.connection, messages.connection];
    const same = () => commands.connection === pair[0] && messages.connection === pair[1];
    try {
      const reply = await commands.request(["PUBSUB", "NUMSUB", client.channel]);
      if (!same()) return;
      // A connection before it that the server has not given up yet counts too.
      if (!Array.isArray(reply) || Number(reply[1]) < 1) throw new Error("the subscription is on another server");
      this.heard = true;
      client.each(waits, up);
    } catch (cause) {
      if (!same()) return;
      const { failure: kind, error } = failure("", cause);
      if (kind === "final") client.each(waits, (machine) => machine.cancel(error));
      messages.fail(cause);
    }
  }
}
