/** Which server is the primary, by all Sentinels that are known: those of the settings, and those that they name. */
import type { Client } from "./client.js";
import { Permission, Unreachable } from "./errors.js";
import { Line, introduce, type Connection, type Link } from "./link.js";
import { ServerError, failure, read, text, type Place } from "./wire.js";

/** What a driver knows of Sentinels. */
export interface Watch {
  /** Of the service. */
  readonly name: string;
  readonly nodes: readonly Place[];
  open(sentinel: Place, timeout: number): Connection;
  /** Where a server is that gives this address. */
  map(place: Place): Place;
}

interface Answer {
  /** Of the configuration. */
  readonly epoch: number;
  /** None: it does not know the service. */
  readonly at: string | undefined;
  readonly place: Place | undefined;
}

/** The answer that counts, and which Sentinel gave it. */
type Named = Answer & { readonly at: string; readonly place: Place; readonly by: string };

/** Heard on one connection, asked on another: a subscribed one takes no questions. */
interface Sentinel {
  readonly at: string;
  readonly lines: readonly Line[];
  readonly asker: Line;
  /** What its user may not ask: asked again, it would fill ACL LOG. */
  readonly refused: Set<string>;
  asking: Promise<Answer> | undefined;
}

/** How many are asked and listened to at most. */
const MOST = 32;
/** After the first answer of one, the others have this time: one that hangs keeps no caller waiting. */
const LATE = 250;
const SWITCH = "+switch-master";

export class Sentinels {
  readonly #client: Client;
  readonly #link: Link;
  readonly #watch: Watch;
  readonly #known = new Map<string, Sentinel>();
  readonly #timer: NodeJS.Timeout;
  #believed: Answer = { epoch: 0, at: undefined, place: undefined };
  #search: Promise<Named> | undefined;

  constructor(client: Client, link: Link, watch: Watch) {
    this.#client = client;
    this.#link = link;
    this.#watch = watch;
    for (const { host, port } of watch.nodes) this.#add({ host, port });
    this.#timer = setInterval(() => {
      if (client.acquisitions.size > 0) this.#look();
    }, 1_000).unref();
  }

  /** The primary, and which Sentinel names it. A connection to another server ends: that one is older than this news. */
  primary(timeout: number): Promise<Named> {
    const believe = (best: Named) => {
      this.#believed = best;
      this.#link.follow(best.at, best.by, true);
      return best;
    };
    return (this.#search ??= this.#find(timeout)
      .then(believe)
      .finally(() => (this.#search = undefined)));
  }

  close(): void {
    clearInterval(this.#timer);
    for (const { lines } of this.#known.values()) for (const line of lines) line.close();
  }

  #add(place: Place): void {
    const at = text(place);
    if (this.#known.has(at) || this.#known.size >= MOST) return;
    const client = this.#client;
    const refused = new Set<string>();
    const open = (timeout: number) => this.#watch.open(place, timeout);
    const quiet = { ready: () => undefined, down: () => undefined };
    const ask = (line: Line) => {
      refused.clear();
      return introduce(line);
    };
    const hear = async (line: Line) => {
      await introduce(line);
      await line.subscribe(SWITCH, (message) => this.#heard(message, at));
    };
    // Whatever the leases and graces of locks are.
    const asker = new Line(client, at, ["HELLO", "PING"], open, { ...quiet, up: ask }, client.limit);
    const ears = new Line(client, at, ["PING"], open, { ...quiet, up: hear }, client.limit);
    this.#known.set(at, { at, lines: [asker, ears], asker, refused, asking: undefined });
  }

  #heard(message: string, by: string): void {
    const [name, , , host = "", port] = message.split(" ");
    if (name === this.#watch.name && port !== undefined) this.#link.follow(text(this.#watch.map({ host, port: Number(port) })), by);
  }

  /** Asks all of them whether the primary is another one. */
  #look(): void {
    for (const one of this.#known.values()) {
      const told = (answer: Answer) => {
        const { epoch, at } = answer;
        if (epoch <= this.#believed.epoch || at === undefined) return;
        this.#link.follow(at, one.at);
        this.#believed = answer;
      };
      this.#ask(one).then(told, () => undefined);
    }
  }

  #ask(one: Sentinel): Promise<Answer> {
    return (one.asking ??= this.#question(one).finally(() => (one.asking = undefined)));
  }

  async #question({ asker, refused, at: by }: Sentinel): Promise<Answer> {
    await asker.opened();
    const ask = async (word: string) => {
      if (refused.has(word)) return undefined;
      try {
        return await asker.request(["SENTINEL", word, this.#watch.name]);
      } catch (cause) {
        if (!(cause instanceof ServerError)) throw cause;
        const { error } = failure("", cause, by);
        if (error instanceof Permission) refused.add(word);
        return error;
      }
    };
    // In this order: during a fail-over the epoch is new before the address is, and the address must not be older.
    const [primary, others, address] = await Promise.all(["MASTER", "SENTINELS", "GET-MASTER-ADDR-BY-NAME"].map(ask));
    if (address instanceof Permission) throw address;
    const listed = Array.isArray(others) ? (others.map(read) as { ip?: string; port?: unknown }[]) : [];
    for (const { ip, port } of listed) if (ip !== undefined) this.#add(this.#watch.map({ host: ip, port: Number(port) }));
    const { configEpoch } = (read(primary) ?? {}) as { configEpoch?: unknown };
    const place = Array.isArray(address) ? this.#watch.map({ host: String(address[0]), port: Number(address[1]) }) : undefined;
    return { epoch: Number(configEpoch ?? 0), at: place && text(place), place };
  }

  #find(timeout: number): Promise<Named> {
    const asked = new Map<Sentinel, Answer | Error | undefined>();
    const end = performance.now() + timeout;
    return new Promise((resolve, reject) => {
      const decide = () => {
        clearTimeout(late);
        try {
          resolve(this.#choose(asked));
        } catch (error) {
          reject(error as Error);
        }
      };
      let late = setTimeout(decide, timeout).unref();
      let answered = false;
      const told = (one: Sentinel, answer: Answer | Error) => {
        asked.set(one, answer);
        // An older configuration than the one that is known of keeps the time for those that know it.
        if (!answered && !(answer instanceof Error) && answer.epoch >= this.#believed.epoch) {
          answered = true;
          clearTimeout(late);
          late = setTimeout(decide, Math.min(LATE, end - performance.now())).unref();
        }
        next();
      };
      const next = () => {
        for (const one of this.#known.values()) {
          if (asked.has(one)) continue;
          asked.set(one, undefined);
          // Not an answer that is on its way: it may be older than the news that led here.
          this.#question(one).then(
            (answer) => told(one, answer),
            (error: unknown) => told(one, error as Error),
          );
        }
        if ([...asked.values()].every((answer) => answer !== undefined)) decide();
      };
      next();
    });
  }

  #choose(asked: Map<Sentinel, Answer | Error | undefined>): Named {
    const answers = [...asked].flatMap(([one, answer]) =>
      answer === undefined || answer instanceof Error ? [] : [{ ...answer, by: one.at }],
    );
    const votes = (at: string | undefined) => answers.filter((each) => each.at === at).length;
    const [best] = answers.filter(({ at }) => at !== undefined).sort((a, b) => b.epoch - a.epoch || votes(b.at) - votes(a.at));
    if (best?.place === undefined || best.at === undefined) throw this.#trouble(asked, answers.length);
    this.#link.reached = true;
    // Sentinels that were set up anew have lower epochs, and so has one that was cut off: the others decide.
    if (best.epoch < this.#believed.epoch && 2 * answers.length <= asked.size) {
      throw new Unreachable(`is the primary of an earlier time (named by the Sentinel ${best.by})`, "", undefined, best.at);
    }
    return best as Named;
  }

  #trouble(asked: Map<Sentinel, Answer | Error | undefined>, answers: number): Error {
    const errors = [...asked.values()].filter((answer) => answer instanceof Error);
    const [first] = errors;
    if (first && errors.length === asked.size && errors.every((error) => error instanceof Permission)) return first;
    const servers = [...asked.keys()].slice(0, 3).map(({ at }) => at);
    const why = first ? first.message.replace(/; .*/, "") : `${servers.join(", ")}: no reply in time`;
    const what = answers > 0 ? `is unknown to the Sentinels ${servers.join(", ")}` : `is unknown: no Sentinel answers (${why})`;
    return new Unreachable(what, "", first, this.#watch.name);
  }
}
