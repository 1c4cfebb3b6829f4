import * as ioredis from "ioredis";
import type { Redis as Full, RedisOptions } from "ioredis";
import { Client as AnyClient, type ClientOptions } from "./client.js";
import { Unsupported } from "./errors.js";
import type { Connection, Driver } from "./link.js";
import type { Watch } from "./sentinels.js";
import { addressOf, endpoint, plain, text, type Place } from "./wire.js";

export * from "./index.js";

/** A `Redis` or a `Cluster`, of any copy of ioredis. */
export interface Like {
  readonly options: object;
  duplicate(...settings: never[]): unknown;
}

type Target = string | RedisOptions | Like;

/** What is used of a connection: the same in all versions. */
type Raw = Pick<Full, "connect" | "disconnect" | "call" | "subscribe" | "ssubscribe" | "on"> & { readonly stream?: Full["stream"] };

type Class = new (...settings: (string | object)[]) => Raw;

// `Redis` is named only in later versions; the default export is the class itself, or has it.
const {
  Redis,
  Command,
  default: loaded,
} = ioredis as unknown as {
  Redis?: Class;
  Command?: { FLAGS?: { ENTER_SUBSCRIBER_MODE?: string[] } };
  default: Class & { default?: Class };
};
const Constructor = Redis ?? loaded.default ?? loaded;

/** Nothing is sent twice, late, or under another name. */
const OURS = {
  lazyConnect: true,
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
  autoResubscribe: false,
  maxRetriesPerRequest: 0,
  retryStrategy: null,
  reconnectOnError: null,
  enableReadyCheck: false,
  enableAutoPipelining: false,
  commandTimeout: undefined,
  socketTimeout: undefined,
  keyPrefix: "",
  stringNumbers: false,
  readOnly: false,
};

function isLike(target: Target): target is Like {
  return typeof target === "object" && "duplicate" in target;
}

interface ClusterSettings {
  readonly redisOptions?: RedisOptions;
  readonly natMap?: RedisOptions["natMap"];
}

type Seed = string | number | { readonly host?: string; readonly port?: number };

function isCluster(target: Target): target is Like & { readonly startupNodes: readonly Seed[]; readonly options: ClusterSettings } {
  return isLike(target) && "isCluster" in target && target.isCluster === true;
}

/** What is different for a server that Sentinels name. */
function named(place: Place | undefined, { enableTLSForSentinelMode, tls }: RedisOptions): object {
  return place ? { ...place, sentinels: undefined, name: undefined, tls: enableTLSForSentinelMode ? tls : undefined } : {};
}

function make(target: Target, more: object): Raw {
  if (typeof target === "string") return new Constructor(target, { ...OURS, ...more });
  if (!isLike(target)) return new Constructor({ ...target, ...OURS, ...more });
  return (target.duplicate.bind(target) as (settings: object) => Raw)({ ...OURS, ...more });
}

function connection(redis: Raw): Connection {
  // Version 4 has no command of Redis 7.
  if (!("lcs" in redis)) throw new Unsupported("this ioredis is too old; update it to 5 or later");
  return {
    connect: () => redis.connect(),
    send: ([command = "", ...words]) => redis.call(command, ...words),
    subscribe(channel, receive, sharded) {
      redis.on(sharded ? "smessage" : "message", (_: string, message: string) => receive(message));
      if (!sharded) return redis.subscribe(channel);
      if (Command?.FLAGS?.ENTER_SUBSCRIBER_MODE?.includes("ssubscribe")) return redis.ssubscribe(channel);
      throw new Unsupported("this ioredis is too old to wait in a cluster; update it, or use tryAcquire");
    },
    on(event, told) {
      redis.on(event as "error", told);
      // Its channel is elsewhere.
      if (event === "end") redis.on("moved" as "end", told);
    },
    unref: () => redis.stream?.unref(),
    close() {
      redis.disconnect();
      // The driver waits for the server to close, too.
      redis.stream?.destroy();
    },
  };
}

function watch(options: RedisOptions): Watch | undefined {
  const { sentinels, name, sentinelUsername: username, sentinelPassword: password, sentinelTLS: tls, family, natMap } = options;
  if (!sentinels) return undefined;
  return {
    name: name ?? "",
    nodes: sentinels.map(({ host = "localhost", port = 26_379 }) => ({ host, port })),
    open: (place, connectTimeout) =>
      connection(
        new Constructor({ ...OURS, ...place, username: username ?? "", password: password ?? "", tls: tls ?? "", family, connectTimeout }),
      ),
    map(place) {
      const at = `${place.host}:${String(place.port)}`;
      return (typeof natMap === "function" ? natMap(at) : natMap?.[at]) ?? place;
    },
  };
}

/** Of a cluster, with these servers to ask first. */
function cluster(seeds: readonly Place[], { redisOptions = {}, natMap }: ClusterSettings): Driver {
  return {
    server: seeds.map(text).join(", "),
    seeds,
    map: (place) => (typeof natMap === "function" ? natMap(text(place)) : natMap?.[text(place)]) ?? place,
    open: (connectTimeout, place) => connection(make(redisOptions, { ...place, connectTimeout })),
  };
}

/** The server that a cluster of ioredis asks first. */
function seed(node: Seed): Place {
  if (typeof node === "object") return { host: node.host ?? "127.0.0.1", port: node.port ?? 6_379 };
  const [host = "", port = "6379"] = addressOf(typeof node === "number" ? `127.0.0.1:${String(node)}` : node).split(/:(?=\d+$)/);
  return { host: host.replace(/[[\]]/g, ""), port: Number(port) };
}

/** The settings in a URL. */
function settings(url: string): string | RedisOptions | Driver {
  const read = endpoint(url);
  if (!read) return plain(url);
  const { kind, nodes, name, tls, database: db, access, sentinelPassword } = read;
  const all = { ...access, ...(tls && { tls: {} }) };
  if (kind === "cluster") return cluster(nodes, { redisOptions: all });
  if (kind === "socket") return { path: name, db, ...access };
  const secure = tls && { enableTLSForSentinelMode: true, sentinelTLS: {} };
  return { sentinels: [...nodes], name, db, ...all, ...secure, ...(sentinelPassword && { sentinelPassword }) };
}

function driver(target: Target): Driver {
  if (isCluster(target)) return cluster(target.startupNodes.map(seed), target.options);
  const given = typeof target === "string" ? settings(target) : target;
  if (typeof given === "object" && "open" in given) return given;
  const options: RedisOptions = typeof given === "string" ? {} : isLike(given) ? given.options : given;
  const { path, host = "localhost", port = 6_379 } = options;
  return {
    server: typeof given === "string" ? addressOf(given) : (path ?? `${host}:${String(port)}`),
    watch: watch(options),
    open: (connectTimeout, place) => connection(make(given, { connectTimeout, ...named(place, options) })),
  };
}

export class Client extends AnyClient {
  /**
   * Connects by a URL, by settings, or by those of your ioredis client. The new client opens its own connections. Behind
   * Sentinels, give settings with `sentinels` and `name`, or `redis+sentinel://host:port,host:port/name`. In a cluster, give the
   * `Cluster`, or `redis+cluster://host:port,host:port`.
   */
  static async connect(target: Target, options: ClientOptions = {}): Promise<Client> {
    return new Client(driver(target), options).probe();
  }
}
