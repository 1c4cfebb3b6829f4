import * as ioredis from "ioredis";
import type { Redis as Full, RedisOptions } from "ioredis";
import { Client as AnyClient, type ClientOptions } from "./client.js";
import { Unsupported } from "./errors.js";
import type { Connection, Driver } from "./link.js";
import type { Place, Watch } from "./sentinels.js";
import { addressOf } from "./wire.js";

export * from "./index.js";

/** A `Redis` or a `Cluster`, of any copy of ioredis. */
export interface Like {
  readonly options: object;
  duplicate(...settings: never[]): unknown;
}

type Target = string | RedisOptions | Like;

/** What is used of a connection: the same in all versions. */
type Raw = Pick<Full, "connect" | "disconnect" | "call" | "subscribe" | "on"> & { readonly stream?: Full["stream"] };

type Class = new (...settings: (string | object)[]) => Raw;

// `Redis` is named only in later versions; the default export is the class itself, or has it.
const { Redis, default: loaded } = ioredis as unknown as { Redis?: Class; default: Class & { default?: Class } };
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

function isCluster(target: Target): target is Like {
  return isLike(target) && "isCluster" in target && target.isCluster === true;
}

/** What is different for a server that Sentinels name. */
function named(place: Place | undefined, { enableTLSForSentinelMode, tls }: RedisOptions): object {
  return place ? { ...place, sentinels: undefined, name: undefined, tls: enableTLSForSentinelMode ? tls : undefined } : {};
}

function make(target: Target, timeout: number, more: object): Raw {
  const ours = { ...OURS, connectTimeout: timeout, ...more };
  if (typeof target === "string") return new Constructor(target, ours);
  if (!isLike(target)) return new Constructor({ ...target, ...ours });
  const duplicate = target.duplicate.bind(target) as (...settings: object[]) => Raw;
  if (!isCluster(target)) return duplicate(ours);
  const { redisOptions } = target.options as { redisOptions?: object };
  // The cluster's own nodes are found by its own retries; commands in it are not repeated, except to follow a slot.
  return duplicate([], { keyPrefix: "", lazyConnect: true, enableAutoPipelining: false, redisOptions: { ...redisOptions, ...ours } });
}

function connection(redis: Raw): Connection {
  // Version 4 has no command of Redis 7.
  if (!("lcs" in redis)) throw new Unsupported("this ioredis is too old; update it to 5 or later");
  return {
    connect: () => redis.connect(),
    send: ([command = "", ...words]) => redis.call(command, ...words),
    subscribe(channel, receive) {
      redis.on("message", (_, message) => receive(message));
      return redis.subscribe(channel);
    },
    on: (event, told) => redis.on(event as "error", told),
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

function driver(target: Target): Driver {
  const options: RedisOptions = typeof target === "string" ? {} : isLike(target) ? target.options : target;
  const { path, host = "localhost", port = 6_379 } = options;
  return {
    cluster: isCluster(target),
    server: typeof target === "string" ? addressOf(target) : (path ?? `${host}:${String(port)}`),
    watch: watch(options),
    open: (timeout, place) => connection(make(target, timeout, named(place, options))),
  };
}

export class Client extends AnyClient {
  /**
   * Connects by a URL, by settings, or by those of a client of ioredis that you have; the connections are its own. Behind
   * Sentinels, give settings with `sentinels` and `name`. In a cluster, give the `Cluster`: there it does not wait.
   */
  static connect(target: Target, options: ClientOptions = {}): Promise<Client> {
    return new Client(driver(target), options).probe();
  }
}
