import * as ioredis from "ioredis";
import type { RedisOptions } from "ioredis";
import { Client as AnyClient, type ClientOptions } from "./client.js";
import { asReply, withoutPassword } from "./driver.js";
import type { Connection, Driver } from "./link.js";
import { ServerError } from "./wire.js";

export * from "./index.js";

/** A `Redis` or a `Cluster`, of any copy of ioredis. */
export interface Like {
  readonly options: object;
  duplicate(...settings: never[]): unknown;
}

type Target = string | RedisOptions | Like;

/** What is used of a connection: the same in all versions. */
interface Raw {
  readonly stream?: { unref(): void; destroy(): void };
  connect(): Promise<unknown>;
  disconnect(): void;
  call(command: string, ...words: string[]): Promise<unknown>;
  subscribe(channel: string): Promise<unknown>;
  on(event: string, receive: (first: unknown, second: unknown) => void): unknown;
}

type Class = new (...settings: (string | object)[]) => Raw;

// `Redis` is named only in later versions; the default export is the class itself, or has it.
const { Redis, default: loaded } = ioredis as unknown as { Redis?: Class; default: Class & { default?: Class } };
const Constructor = Redis ?? loaded.default ?? loaded;

/** Nothing is sent twice, late, or under another name. */
const OURS = {
  keyPrefix: "",
  lazyConnect: true,
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
  autoResubscribe: false,
  maxRetriesPerRequest: 0,
  retryStrategy: null,
  reconnectOnError: null,
  enableAutoPipelining: false,
  enableReadyCheck: false,
  commandTimeout: undefined,
  socketTimeout: undefined,
  stringNumbers: false,
  readOnly: false,
  monitor: false,
  sentinelRetryStrategy: null,
  failoverDetector: false,
  role: "master",
  disableClientInfo: true,
  connectionName: undefined,
};

class IoredisDriver implements Driver {
  readonly server: string;
  readonly cluster: boolean;
  readonly follows: boolean;
  readonly #target: Target;

  constructor(target: Target) {
    this.#target = target;
    const options = (typeof target === "string" ? {} : "duplicate" in target ? target.options : target) as RedisOptions;
    this.cluster = typeof target === "object" && "isCluster" in target && target.isCluster === true;
    this.follows = Boolean(options.sentinels);
    const address = options.path ?? `${options.host ?? "localhost"}:${String(options.port ?? 6379)}`;
    const sentinel = options.sentinels ? `sentinel ${options.name ?? ""}` : undefined;
    this.server = typeof target === "string" ? withoutPassword(target) : this.cluster ? "cluster" : (sentinel ?? address);
  }

  async open({ timeout, closed }: Parameters<Driver["open"]>[0]): Promise<Connection> {
    const redis = this.#make({ ...OURS, connectTimeout: timeout, sentinelCommandTimeout: timeout / 4 });
    let cause: unknown;
    redis.on("error", (error: unknown) => (cause = error));
    redis.on("end", () => closed(asReply(cause ?? new Error("the connection was closed"))));
    // The driver's own time-out ends when the server accepts, not when it answers.
    const close = () => {
      redis.disconnect();
      // The driver waits for the server to close, too.
      redis.stream?.destroy();
    };
    const late = setTimeout(close, timeout).unref();
    try {
      await redis.connect();
    } catch (error) {
      close();
      throw asReply(cause ?? error);
    } finally {
      clearTimeout(late);
    }
    // An idle client keeps no process alive.
    redis.stream?.unref();
    // Why the connection failed says more than that it is closed.
    const settle = <T>(reply: Promise<T>) =>
      reply.catch((error: unknown) => {
        const told = asReply(error);
        throw told instanceof ServerError ? told : asReply(cause ?? error);
      });
    return {
      send: ([command = "", ...words]) => settle(redis.call(command, ...words)),
      subscribe: async (channel, receive) => {
        redis.on("message", (_, message) => receive(String(message)));
        await settle(redis.subscribe(channel));
      },
      close,
    };
  }

  #make(ours: typeof OURS & { connectTimeout: number; sentinelCommandTimeout: number }): Raw {
    const target = this.#target;
    if (typeof target === "string") return new Constructor(target, ours);
    if (!("duplicate" in target)) return new Constructor({ ...target, ...ours });
    const duplicate = target.duplicate.bind(target) as (...settings: object[]) => Raw;
    if (!this.cluster) return duplicate(ours);
    const { redisOptions } = target.options as { redisOptions?: object };
    const { keyPrefix, lazyConnect, ...nodes } = ours;
    // The cluster's own nodes are found by its own retries; commands in it are not repeated, except to follow a slot.
    return duplicate([], { keyPrefix, lazyConnect, enableAutoPipelining: false, redisOptions: { ...redisOptions, ...nodes } });
  }
}

export class Client extends AnyClient {
  /**
   * Connects by a URL, by settings, or by those of a client of ioredis that you have; the connections are its own. Behind
   * Sentinels, give settings with `sentinels` and `name`. In a cluster, give the `Cluster`: there it does not wait.
   */
  static connect(target: Target, options: ClientOptions = {}): Promise<Client> {
    return new Client(new IoredisDriver(target), options).probe();
  }
}
