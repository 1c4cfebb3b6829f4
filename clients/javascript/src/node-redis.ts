import * as noderedis from "redis";
import type { RedisClientOptions, RedisSentinelOptions } from "redis";
import { Client as AnyClient, type ClientOptions } from "./client.js";
import { Unsupported } from "./errors.js";
import type { Connection, Driver } from "./link.js";
import type { Place, Watch } from "./sentinels.js";
import { addressOf } from "./wire.js";

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

/** What is used of a connection: the same in all versions. */
interface Raw extends Pick<Connection, "connect" | "subscribe" | "on" | "unref"> {
  readonly isOpen: boolean;
  destroy(): void;
  sendCommand(words: string[]): Promise<unknown>;
}

interface RawCluster extends Pick<Connection, "connect" | "on"> {
  destroy(): void;
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
  maintNotifications: "disabled",
};

function isLike(target: Target): target is Like {
  return typeof target === "object" && "duplicate" in target;
}

function isSentinels(target: Target): target is Sentinels {
  return typeof target === "object" && "sentinelRootNodes" in target;
}

/** A client of these settings, or of those of the application's client, for this address. */
function single(settings: RedisClientOptions, timeout: number, address: object, like?: Like): Connection {
  const socket = { ...settings.socket, ...address, connectTimeout: timeout, reconnectStrategy: false, socketTimeout: undefined };
  const ours = { ...OURS, socket } as object;
  const redis = (like ? like.duplicate(ours as never) : noderedis.createClient({ ...settings, ...ours })) as Raw;
  const end = () => (redis.isOpen ? redis.destroy() : undefined);
  let made = false;
  redis.on("connect", () => (made = true));
  return {
    connect: () => redis.connect(),
    send: (words) => redis.sendCommand(words),
    subscribe: (channel, receive) => redis.subscribe(channel, receive),
    on: (event, told) => redis.on(event, told),
    unref: () => redis.unref(),
    // Destroyed while its socket connects, it would stay open.
    close: () => (made ? end() : redis.on("connect", end)),
  };
}

function clustered(target: Like): Connection {
  const cluster = target.duplicate() as RawCluster;
  return {
    connect: () => cluster.connect(),
    send: (words) => cluster.sendCommand(words[1], false, words),
    subscribe: () => Promise.reject(new Error("no messages in a cluster")),
    // It replaces the connections to its nodes itself.
    on: (event) => cluster.on(event, () => undefined),
    unref: () => undefined,
    close: () => cluster.destroy(),
  };
}

function watch({ name, sentinelRootNodes, sentinelClientOptions: settings = {}, nodeAddressMap: map }: Sentinels): Watch {
  return {
    name,
    nodes: sentinelRootNodes as Place[],
    open: (place, timeout) => single(settings as RedisClientOptions, timeout, place),
    map(place) {
      const at = `${place.host}:${String(place.port)}`;
      return (typeof map === "function" ? map(at) : map?.[at]) ?? place;
    },
  };
}

/** The address of these settings. */
function place(target: Target): string {
  if (typeof target === "string") return addressOf(target);
  const { url, socket = {} } = ((isLike(target) ? (target as { options?: object }).options : target) ?? {}) as RedisClientOptions;
  const { host = "localhost", port = 6_379, path } = socket as { host?: string; port?: number; path?: string };
  return path ?? (url === undefined ? `${host}:${String(port)}` : addressOf(url));
}

function driver(target: Target): Driver {
  const cluster = isLike(target) && "slots" in target;
  return {
    cluster,
    server: cluster ? "of the cluster" : isSentinels(target) ? target.name : place(target),
    watch: isSentinels(target) ? watch(target) : undefined,
    open(timeout, at = {} as Place) {
      // Version 4 has neither. Version 3 would connect as soon as it is made.
      if (isLike(target) ? !("destroy" in target) : !("createSentinel" in noderedis)) {
        throw new Unsupported("this node-redis is too old; update it to 5 or later");
      }
      if (typeof target === "string") return single({ url: target }, timeout, {});
      if (isSentinels(target)) return single(target.nodeClientOptions ?? {}, timeout, at);
      if (!isLike(target)) return single(target, timeout, {});
      return cluster ? clustered(target) : single((target as { options?: RedisClientOptions }).options ?? {}, timeout, {}, target);
    },
  };
}

export class Client extends AnyClient {
  /**
   * Connects by a URL, by settings, or by those of a client of node-redis that you have; the connections are its own. Behind
   * Sentinels, give the settings of `createSentinel`. In a cluster, give the cluster: there it does not wait.
   */
  static connect(target: Target, options: ClientOptions = {}): Promise<Client> {
    return new Client(driver(target), options).probe();
  }
}
