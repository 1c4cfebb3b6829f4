import { createClient, type RedisClientOptions, type RedisSentinelOptions } from "redis";
import { Client as AnyClient, type ClientOptions } from "./client.js";
import { asReply, withoutPassword } from "./driver.js";
import { Unreachable } from "./errors.js";
import type { Connection, Driver } from "./link.js";

export * from "./index.js";

/** The result of `createClient` or `createCluster`, of any copy of node-redis and with any modules. */
export interface Like {
  duplicate(overrides?: never): unknown;
}

type Sentinels = Pick<
  RedisSentinelOptions,
  "name" | "sentinelRootNodes" | "nodeClientOptions" | "sentinelClientOptions" | "nodeAddressMap"
>;
type Target = string | RedisClientOptions | Sentinels | Like;

type Raw = Pick<ReturnType<typeof createClient>, "connect" | "destroy" | "sendCommand" | "subscribe" | "unref" | "on" | "isOpen">;

interface RawCluster {
  connect(): Promise<unknown>;
  destroy(): void;
  on(event: string, receive: (error: unknown) => void): unknown;
  sendCommand(key: string | undefined, readonly: boolean, words: string[]): Promise<unknown>;
}

/** Nothing is sent twice, late, or under another name. */
const OURS = {
  disableOfflineQueue: true,
  commandsQueueMaxLength: undefined,
  commandOptions: {},
  clientSideCache: undefined,
  emitInvalidate: undefined,
  keyPrefix: undefined,
  pingInterval: undefined,
  readonly: undefined,
  disableClientInfo: true,
  name: undefined,
  maintNotifications: "disabled",
};

class NodeRedisDriver implements Driver {
  readonly server: string;
  readonly cluster: boolean;
  readonly follows: boolean;

  constructor(readonly target: Target) {
    this.cluster = typeof target === "object" && "duplicate" in target && "slots" in target;
    this.follows = typeof target === "object" && "sentinelRootNodes" in target;
    const { url, socket } = this.#settings();
    const { host = "localhost", port = 6379, path } = (socket ?? {}) as { host?: string; port?: number; path?: string };
    const address = url ?? path ?? `${host}:${String(port)}`;
    this.server = this.cluster ? "cluster" : this.follows ? `sentinel ${(target as Sentinels).name}` : withoutPassword(address);
  }

  async open({ timeout, closed }: Parameters<Driver["open"]>[0]): Promise<Connection> {
    if (this.cluster) return this.#openCluster();
    const redis = await this.#connect(await this.#address(timeout), timeout, closed);
    // An idle client keeps no process alive.
    redis.unref();
    return {
      send: (words) => settled(redis.sendCommand(words)),
      subscribe: (channel, receive) => settled(redis.subscribe(channel, receive)),
      close: () => close(redis),
    };
  }

  #settings(): RedisClientOptions {
    const { target } = this;
    if (typeof target === "string") return { url: target };
    if ("sentinelRootNodes" in target) return target.nodeClientOptions ?? {};
    return ("duplicate" in target ? (target as { options?: object }).options : target) ?? {};
  }

  async #connect(address: object, timeout: number, closed: (error: unknown) => void, of = this.#settings()): Promise<Raw> {
    const socket = { ...of.socket, ...address, connectTimeout: timeout, reconnectStrategy: false, socketTimeout: undefined };
    const ours = { ...OURS, socket } as object;
    const { target } = this;
    const redis = (
      typeof target === "object" && "duplicate" in target ? target.duplicate(ours as never) : createClient({ ...of, ...ours })
    ) as Raw;
    let cause: unknown;
    redis.on("error", (error: unknown) => {
      cause = error;
      closed(asReply(error));
    });
    redis.on("end", () => closed(asReply(cause ?? new Error("the connection was closed"))));
    // The driver's own time-out ends when the server accepts, not when it answers.
    const late = setTimeout(() => close(redis), timeout).unref();
    try {
      await redis.connect();
    } catch (error) {
      close(redis);
      throw asReply(cause ?? error);
    } finally {
      clearTimeout(late);
    }
    return redis;
  }

  /** The primary's address, where Sentinels know it. */
  async #address(timeout: number): Promise<object> {
    const { target } = this;
    if (typeof target === "string" || !("sentinelRootNodes" in target)) return {};
    let trouble: unknown = new Error("no Sentinel is given");
    const { sentinelRootNodes: nodes, sentinelClientOptions: of = {} } = target;
    for (const node of nodes) {
      // One that hangs must leave time for the others.
      const share = timeout / (nodes.length + 1);
      let late: NodeJS.Timeout | undefined;
      try {
        const sentinel = await this.#connect(node, share, () => undefined, of as RedisClientOptions);
        late = setTimeout(() => close(sentinel), share);
        const reply: unknown = await sentinel
          .sendCommand(["SENTINEL", "GET-MASTER-ADDR-BY-NAME", target.name])
          .finally(() => close(sentinel));
        if (Array.isArray(reply)) return mapped(target, String(reply[0]), Number(reply[1]));
        trouble = new Error(`the Sentinels know no primary ${target.name}`);
      } catch (error) {
        trouble = error;
      } finally {
        clearTimeout(late);
      }
    }
    throw new Unreachable(trouble);
  }

  async #openCluster(): Promise<Connection> {
    const cluster = (this.target as Like).duplicate() as RawCluster;
    cluster.on("error", () => undefined);
    await settled(cluster.connect());
    return {
      send: (words) => settled(cluster.sendCommand(words[1], false, words)),
      subscribe: () => Promise.reject(new Error("no messages in a cluster")),
      close: () => cluster.destroy(),
    };
  }
}

function mapped(target: Sentinels, host: string, port: number): object {
  const map = target.nodeAddressMap;
  const address = `${host}:${String(port)}`;
  return (typeof map === "function" ? map(address) : map?.[address]) ?? { host, port };
}

async function settled<T>(reply: Promise<T>): Promise<T> {
  try {
    return await reply;
  } catch (error) {
    throw asReply(error);
  }
}

function close(redis: Raw): void {
  if (redis.isOpen) redis.destroy();
}

export class Client extends AnyClient {
  /**
   * Connects by a URL, by settings, or by those of a client of node-redis that you have; the connections are its own. Behind
   * Sentinels, give the settings of `createSentinel`. In a cluster, give the cluster: there it does not wait.
   */
  static connect(target: Target, options: ClientOptions = {}): Promise<Client> {
    return new Client(new NodeRedisDriver(target), options).probe();
  }
}
