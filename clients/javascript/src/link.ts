/** Connections of the client's own, kept up for ever: one for commands, one for the messages of the server. */
import { Closed, Permission, RlockError, Unreachable } from "./errors.js";
import { ServerError, Unsent, failure } from "./wire.js";

/** A connection of the driver that repeats nothing and queues nothing while it is down. */
export interface Connection {
  /** Rejects with a `ServerError` for an error reply, with anything else if the outcome is unknown. */
  send(words: string[]): Promise<unknown>;
  subscribe(channel: string, receive: (message: string) => void): Promise<void>;
  close(): void;
}

export interface Driver {
  /** For people. */
  readonly server: string;
  readonly cluster: boolean;
  /** Whether the driver finds another server that becomes the primary. */
  readonly follows: boolean;
  open(options: { timeout: number; closed: (error: unknown) => void }): Promise<Connection>;
}

const FIRST_PAUSE = 10;
const LONGEST_PAUSE = 1_000;
const LEAST_TO_CONNECT = 1_000;

/** One connection, opened again whenever it is lost. */
export class Line {
  #connection: Connection | undefined;
  #error: RlockError | undefined;
  #closed = false;
  /** Ends the connection that is up, or being set up. */
  #fail: ((error: unknown) => void) | undefined;
  #answered = true;
  readonly #pause = { ms: FIRST_PAUSE, timer: undefined as NodeJS.Timeout | undefined };

  constructor(
    readonly driver: Driver,
    readonly response: number,
    readonly prepare: (connection: Connection) => Promise<void>,
    readonly on: { up(): void; down(error: RlockError): void },
  ) {
    this.#open();
  }

  get up(): boolean {
    return this.#connection !== undefined;
  }

  /** Sends at once, or not at all. */
  async request(words: string[]): Promise<unknown> {
    const connection = this.#connection;
    if (!connection) throw new Unsent(this.#error ?? new Unreachable(new Error("no connection yet")));
    const [command = ""] = words;
    // What an idle client sends keeps no process alive.
    const reply = await this.#within(connection.send(words), command, command !== "PING" && command !== "PUBSUB");
    this.#answered = true;
    return reply;
  }

  /** The server on the other end is not the one that is looked for. */
  doubt(error: unknown): void {
    this.#fail?.(error);
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#pause.timer);
    this.#fail?.(new Closed());
  }

  /** A driver's own time-outs do not end a command that was sent. A connection that leaves one unanswered is given up. */
  async #within<T>(reply: Promise<T>, what: string, keepsAlive: boolean, ms = this.response): Promise<T> {
    let timer: NodeJS.Timeout | undefined;
    let over = false;
    const fail = this.#fail;
    const late = new Promise<never>((_, reject) => {
      const expire = () => {
        const error = new Error(`${what}: no reply within ${String(ms)} ms`);
        reject(error);
        if (!this.driver.cluster && !over) fail?.(error);
      };
      // After a loop that was blocked, timers run before what has arrived is read.
      timer = setTimeout(() => setImmediate(expire), ms);
      if (!keepsAlive) timer.unref();
    });
    try {
      return await Promise.race([reply, late]);
    } finally {
      over = true;
      clearTimeout(timer);
    }
  }

  #open(): void {
    let over = false;
    let connection: Connection | undefined;
    const ping = setInterval(() => {
      if (!this.#answered) this.request(["PING"]).catch(() => undefined);
      this.#answered = false;
    }, this.response / 2);
    ping.unref();
    const fail = (cause: unknown) => {
      if (over) return;
      over = true;
      clearInterval(ping);
      connection?.close();
      this.#fail = undefined;
      this.#connection = undefined;
      if (this.#closed) return;
      const { error } = failure("", cause);
      this.#error = error;
      this.on.down(error);
      this.#pause.timer = setTimeout(() => this.#open(), this.#pause.ms * (0.5 + Math.random() / 2)).unref();
      this.#pause.ms = Math.min(this.#pause.ms * 2, LONGEST_PAUSE);
    };
    this.#fail = fail;
    // A handshake takes several round trips, with TLS some more, and may be the first of a busy process.
    const timeout = Math.max(this.response, LEAST_TO_CONNECT);
    const opening = this.driver.open({ timeout, closed: fail }).then(async (opened) => {
      connection = opened;
      if (over) return opened.close();
      await this.prepare(opened);
    });
    this.#within(opening, "connecting", false, timeout).then(() => {
      if (over || !connection) return;
      this.#connection = connection;
      this.#pause.ms = FIRST_PAUSE;
      this.on.up();
    }, fail);
  }
}

export interface LinkEvents {
  /** `heard`: messages arrive too. */
  up(heard: boolean): void;
  /** `all`: commands cannot be sent either. */
  down(all: boolean): void;
  disconnected(error: RlockError): void;
  reconnected(after: number): void;
  /** The server will not let this user wait, or in at all. */
  refused(error: RlockError, all: boolean): void;
  message(text: string): void;
}

/** Both connections. */
export class Link {
  readonly #commands: Line;
  #messages: Line | undefined;
  /** Whether the server that grants is the one whose messages are heard. */
  #heard = false;
  #epoch = 0;
  #lostAt: number | undefined;
  #settle: ((error?: RlockError) => void) | undefined;
  /** Of the first attempt to connect. */
  readonly settled: Promise<void>;

  constructor(
    readonly driver: Driver,
    readonly name: string,
    readonly response: number,
    readonly channel: string,
    readonly on: LinkEvents,
  ) {
    this.settled = new Promise((resolve, reject) => {
      this.#settle = (error) => (error ? reject(error) : resolve());
    });
    this.settled.catch(() => undefined);
    this.#commands = new Line(driver, response, (connection) => this.#introduce(connection), {
      up: () => {
        this.#settle?.();
        this.#reconnected();
        on.up(false);
        this.#verify();
      },
      down: (error) => {
        this.#settle?.(error);
        this.#disconnected(error, true);
      },
    });
  }

  request(words: string[]): Promise<unknown> {
    return this.#commands.request(words);
  }

  /** Whether commands can be sent and, if `heard`, messages arrive. */
  ready(heard: boolean): boolean {
    return this.#commands.up && (!heard || this.#heard);
  }

  /** Opens the connection for messages, once. */
  listen(): void {
    this.#messages ??= new Line(this.driver, this.response, (connection) => this.#subscribe(connection), {
      up: () => {
        this.#reconnected();
        this.#verify();
      },
      down: (error) => this.#disconnected(error, false),
    });
  }

  /** The server became a replica: look for the primary. */
  doubt(error: RlockError): void {
    this.#commands.doubt(error);
    this.#messages?.doubt(error);
  }

  close(): void {
    this.#commands.close();
    this.#messages?.close();
    this.#epoch += 1;
  }

  async #introduce(connection: Connection): Promise<void> {
    if (this.driver.cluster) return;
    for (const words of [
      ["SETNAME", this.name],
      ["SETINFO", "LIB-NAME", "rlock-client"],
    ]) {
      // Servers before 7.2 know only one of them, and not every user may.
      await connection.send(["CLIENT", ...words]).catch((error: unknown) => {
        if (!(error instanceof ServerError) || !/^(ERR|NOPERM) /.test(error.message)) throw error;
      });
    }
  }

  async #subscribe(connection: Connection): Promise<void> {
    await this.#introduce(connection);
    await connection.subscribe(this.channel, (text) => this.on.message(text));
  }

  #disconnected(error: RlockError, all: boolean): void {
    this.#epoch += 1;
    this.#heard = false;
    if (this.#lostAt === undefined) {
      this.#lostAt = performance.now();
      this.on.disconnected(error);
    }
    this.on.down(all);
    if (error instanceof Permission) this.on.refused(error, all);
  }

  #reconnected(): void {
    if (this.#lostAt === undefined || !this.#commands.up || this.#messages?.up === false) return;
    this.on.reconnected(performance.now() - this.#lostAt);
    this.#lostAt = undefined;
  }

  /** After a fail-over the two connections may lead to two servers, and a subscription may be half-open. */
  #verify(): void {
    if (!this.#commands.up || !this.#messages?.up) return;
    this.#epoch += 1;
    const epoch = this.#epoch;
    this.request(["PUBSUB", "NUMSUB", this.channel]).then(
      (reply) => {
        if (epoch !== this.#epoch) return;
        if (!Array.isArray(reply) || Number(reply[1]) !== 1)
          return this.#messages?.doubt(new Error("the subscription is on another server"));
        this.#heard = true;
        this.on.up(true);
      },
      (cause: unknown) => {
        const { failure: kind, error } = failure("", cause);
        if (epoch !== this.#epoch || kind === "unanswered" || kind === "unsent") return;
        if (kind === "final") this.on.refused(error, false);
        this.#messages?.doubt(error);
      },
    );
  }
}
