/** Which server of a cluster has a lock: a map of slots, and a link for each server that is used. */
import type { Client } from "./client.js";
import { Unreachable } from "./errors.js";
import { LEAST_TO_CONNECT, Link, asReply } from "./link.js";
import { ServerError, silent, text, type Place } from "./wire.js";

const SLOTS = 16_384;
/** The pause after the map was read; each next is twice as long while nothing is new. */
const FIRST_PAUSE = 50;
const LONGEST_PAUSE = 1_000;
/** How often the map is read while nothing is in doubt, and how long a link is kept that is not used. */
const AT_LEAST_EVERY = 60_000;
/** How many servers are asked at a time; the first answer counts. */
const ASKED = 3;
/** How often a command follows a slot at once, in how many ms: servers that disagree need a moment. */
const AT_ONCE = 2;
const SETTLES = 250;

/** A step of CRC-16/XMODEM for each byte. */
const CRC = Uint16Array.from({ length: 256 }, (_, byte) => {
  let sum = byte << 8;
  for (let bit = 0; bit < 8; bit++) sum = (sum << 1) ^ (sum & 0x8000 ? 0x1021 : 0);
  return sum;
});

/** The slot of a key: of its hash tag, if it has one. */
export function slotOf(key: string): number {
  const tag = /^[^{]*\{([^}]+)\}/.exec(key)?.[1] ?? key;
  return Buffer.from(tag).reduce((sum, byte) => ((sum << 8) & 0xffff) ^ (CRC[(sum >> 8) ^ byte] ?? 0), 0) % SLOTS;
}

/** What a refusal says of a slot: it has moved; or ask again later; or ask this server, this once. */
export type Redirection = "moved" | "later" | Link;

/** The address of each slot. */
type Slots = (string | undefined)[];

function placeOf(address: string): Place {
  const colon = address.lastIndexOf(":");
  return { host: address.slice(0, colon), port: Number(address.slice(colon + 1)) };
}

export class Cluster {
  readonly #client: Client;
  #slots: Slots = [];
  readonly #links = new Map<string, { readonly link: Link; used: number }>();
  /** The slot that a refusal has moved last, when, and how often in a row. */
  #moved = { slot: -1, at: 0, times: 0 };
  #looking = false;
  #doubtful = false;
  #pause = FIRST_PAUSE;
  #timer: NodeJS.Timeout | undefined;
  readonly #regular = setInterval(() => this.doubt(), AT_LEAST_EVERY).unref();
  #settle: (error?: unknown) => void = () => undefined;
  /** Of the first map, or the first attempt that finds no server. */
  readonly settled: Promise<void>;

  constructor(client: Client) {
    this.#client = client;
    this.settled = new Promise((resolve, reject) => {
      this.#settle = (error) => (error ? reject(error as Error) : resolve());
    });
    this.settled.catch(() => undefined);
    this.doubt();
  }

  /** The server that has this lock, as far as it is known; else another, which will say where it is. */
  link(lock: string): Link {
    return this.#at(this.#slots[slotOf(lock)] ?? this.#slots.find((at) => at !== undefined) ?? this.#seeds()[0] ?? "");
  }

  /** What an error says of a slot; nothing, if it is about something else. */
  learn(error: unknown): Redirection | undefined {
    const reply = error instanceof ServerError ? error.message : "";
    const [, word, number, address = ""] = /^(MOVED|ASK) (\d+) (\S*:\d+)/.exec(reply) ?? [];
    if (word === undefined) {
      if (!/^(CLUSTERDOWN|TRYAGAIN) /.test(reply)) return undefined;
      this.doubt();
      return "later";
    }
    // Other slots are likely to have moved as well.
    this.doubt();
    const slot = Number(number);
    const before = this.#slots[slot];
    // Without a host it is that of the server which had the slot.
    const at = this.#mapped(address.startsWith(":") ? placeOf(before ?? "").host + address : address);
    if (word === "ASK") return this.#at(at);
    if (before === at) return "moved";
    this.#slots[slot] = at;
    const now = performance.now();
    const again = this.#moved.slot === slot && now - this.#moved.at < SETTLES;
    this.#moved = { slot, at: now, times: again ? this.#moved.times + 1 : 1 };
    return this.#moved.times > AT_ONCE ? "later" : "moved";
  }

  /** The map may be out of date. */
  doubt(): void {
    this.#doubtful = true;
    if (!this.#looking) void this.#look();
  }

  close(): void {
    this.#looking = true;
    clearInterval(this.#regular);
    clearTimeout(this.#timer);
    for (const { link } of this.#links.values()) link.close();
    this.#settle();
  }

  #seeds(): string[] {
    return (this.#client.driver.seeds ?? []).map(text);
  }

  #mapped(address: string): string {
    const place = placeOf(address);
    return text(this.#client.driver.map?.(place) ?? place);
  }

  #at(address: string): Link {
    const known = this.#links.get(address);
    const used = performance.now();
    if (known) {
      known.used = used;
      return known.link;
    }
    const has = (key: string) => this.#slots[slotOf(key)] === address || !this.#slots.includes(address);
    const tag = () => {
      let tag = 0;
      while (!has(String(tag))) tag += 1;
      return String(tag);
    };
    const link = new Link(this.#client, address, { place: placeOf(address), tag, has });
    this.#links.set(address, { link, used });
    return link;
  }

  async #look(): Promise<void> {
    this.#looking = true;
    this.#doubtful = false;
    try {
      this.#pause = this.#install(await this.#ask()) ? FIRST_PAUSE : Math.min(this.#pause * 2, LONGEST_PAUSE);
      this.#settle();
    } catch (error) {
      this.#settle(error);
      this.#doubtful = true;
      this.#pause = Math.min(this.#pause * 2, LONGEST_PAUSE);
    }
    // Clients that lost the same server must not come back in step.
    const pause = this.#pause * (0.5 + Math.random() / 2);
    const next = () => {
      this.#looking = false;
      if (this.#doubtful) void this.#look();
      else this.#pause = FIRST_PAUSE;
    };
    if (!this.#client.closed) this.#timer = setTimeout(next, pause).unref();
  }

  /** Asks those first to which there is a connection, some at a time. */
  async #ask(): Promise<Slots> {
    const others = new Set([...this.#slots.filter((at) => at !== undefined), ...this.#seeds()]);
    const asks = [
      ...[...this.#links.values()]
        .map(({ link }) => link.commands)
        .filter(({ connection }) => connection)
        .map((commands) => async () => this.#read(await commands.request(["CLUSTER", "SLOTS"]), commands.server)),
      ...[...others].map((at) => () => this.#dial(at)),
    ];
    let why: unknown;
    for (let first = 0; first < asks.length; first += ASKED) {
      try {
        return await Promise.any(asks.slice(first, first + ASKED).map((ask) => ask()));
      } catch (errors) {
        [why] = (errors as AggregateError).errors as unknown[];
      }
    }
    throw why;
  }

  /** Asks by a connection for this only. */
  async #dial(at: string): Promise<Slots> {
    const { response, driver } = this.#client;
    const timeout = Math.max(response, LEAST_TO_CONNECT);
    let late: NodeJS.Timeout | undefined;
    const connection = driver.open(timeout, placeOf(at));
    const over = new Promise<never>((_, reject) => {
      late = setTimeout(() => reject(new Error("no reply in time")), timeout).unref();
      connection.on("error", reject);
    });
    try {
      const asked = connection.connect().then(() => (this.#client.closed ? [] : connection.send(["CLUSTER", "SLOTS"])));
      return this.#read(await Promise.race([asked, over]), at);
    } catch (cause) {
      const error = asReply(cause);
      throw error instanceof ServerError ? this.#client.failure("", error, undefined, at).error : silent(at, error);
    } finally {
      clearTimeout(late);
      connection.close();
    }
  }

  #read(reply: unknown, asked: string): Slots {
    const slots: Slots = Array.from({ length: SLOTS });
    for (const [first, last, primary] of Array.isArray(reply) ? (reply as [number, number, [string | null, number]][]) : []) {
      const [host, port] = primary;
      // A server that knows no name of its own is where it was asked.
      const at =
        host === null || host === "" || host === "?" ? `${placeOf(asked).host}:${String(port)}` : this.#mapped(`${host}:${String(port)}`);
      slots.fill(at, first, last + 1);
    }
    if (!slots.some((at) => at !== undefined)) throw new Unreachable("names no server that has slots", "", undefined, asked);
    return slots;
  }

  /** Takes the map over; whether it is news. */
  #install(slots: Slots): boolean {
    if (this.#client.closed) return false;
    const same = slots.every((at, slot) => at === this.#slots[slot]);
    this.#slots = slots;
    const used = new Set(slots);
    const busy = new Set<Link>();
    this.#client.at(undefined, (each) => busy.add(each.link).add(each.tied));
    for (const [at, { link, used: last }] of this.#links) {
      if (link.node?.has(link.channel) === false) link.listenAnew(new Error("the slot of its channel has moved"));
      if (used.has(at) || busy.has(link) || performance.now() - last < AT_LEAST_EVERY) continue;
      link.close();
      this.#links.delete(at);
    }
    if (!same) this.#client.at(undefined, (each) => each.follow());
    return !same;
  }
}
