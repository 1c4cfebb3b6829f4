import * as noderedis from "redis";
import type { createClient } from "redis";
import { Client as AnyClient, type ClientOptions } from "./client.js";
import { Unsupported } from "./errors.js";
import type { Connection, Driver } from "./link.js";
import type { Watch } from "./sentinels.js";
import { addressOf, endpoint, plain, text, type Place } from "./wire.js";

export * from "./index.js";

/** The result of `createClient`, `createCluster` or `createSentinel`, of any copy of node-redis and with any modules. */
export interface Like {
  duplicate(overrides?: never): unknown;
}

type Mapping = Readonly<Record<string, Place>> | ((address: string) => Place | undefined);

/** The settings of `createSentinel`, as far as they count here. */
export interface SentinelSettings {
  readonly name: string;
  readonly sentinelRootNodes: readonly Place[];
  readonly nodeClientOptions?: Settings;
  readonly sentinelClientOptions?: Settings;
  readonly nodeAddressMap?: Mapping;
}

/** The settings of `createCluster`, as far as they count here. */
export interface ClusterSettings {
  readonly rootNodes: readonly Settings[];
  readonly defaults?: Settings;
  readonly nodeAddressMap?: Mapping;
}

/** Settings of a connection: not all versions export their type, nor with the same parameters. */
type Settings = Omit<NonNullable<Parameters<typeof createClient>[0]>, "modules" | "functions" | "scripts" | "RESP" | "commandOptions">;
type Target = string | Settings | SentinelSettings | ClusterSettings | Like;

/** What is used of a connection: the same in all versions. */
interface Raw extends Pick<Connection, "connect" | "on" | "unref"> {
  readonly isOpen: boolean;
  destroy(): void;
  sendCommand(words: string[]): Promise<unknown>;
  subscribe(channel: string, receive: (message: string) => void): Promise<unknown>;
  sSubscribe(channel: string, receive: (message: string) => void): Promise<unknown>;
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

/** The settings that a cluster or a Sentinel client of node-redis has: what it would make a copy of itself with. */
function settingsOf(target: Like): SentinelSettings | ClusterSettings {
  let found: SentinelSettings | ClusterSettings | undefined;
  const constructor = function (settings: SentinelSettings | ClusterSettings) {
    found = settings;
  };
  target.duplicate.call(Object.create(Object.create(target, { constructor: { value: constructor } }) as object));
  if (!found) throw new Unsupported("the settings of this client are unknown; give its settings instead of it");
  return found;
}

/** A client that never connects: to make its class, with all commands, stops the process for 80 ms, and its copies have it. */
const template = (settings: Settings): Like => noderedis.createClient({ ...settings, socket: { ...settings.socket } } as Settings);

const optionsOf = (like: Like) => (like as { options?: Settings }).options ?? {};

/** A copy of this client, for this address. */
function single(like: Like, timeout: number, address: object): Connection {
  const socket = { ...optionsOf(like).socket, ...address, connectTimeout: timeout, reconnectStrategy: false, socketTimeout: undefined };
  const redis = like.duplicate({ ...OURS, socket } as never) as Raw;
  const end = () => (redis.isOpen ? redis.destroy() : undefined);
  let made = false;
  redis.on("connect", () => (made = true));
  return {
    connect: () => redis.connect(),
    send: (words) => redis.sendCommand(words),
    subscribe: (channel, receive, sharded) => (sharded ? redis.sSubscribe(channel, receive) : redis.subscribe(channel, receive)),
    on(event, told) {
      redis.on(event, told);
      // Its channel is elsewhere.
      if (event === "end") redis.on("sharded-channel-moved", () => told());
    },
    unref: () => redis.unref(),
    // Destroyed while its socket connects, it would stay open.
    close: () => (made ? end() : redis.on("connect", end)),
  };
}

const mapped = (map: Mapping | undefined, place: Place) => (typeof map === "function" ? map(text(place)) : map?.[text(place)]) ?? place;

/** The address of these settings. */
function place({ url, socket = {} }: Settings): Place & { readonly path?: string } {
  const { host = "localhost", port = 6_379, path } = socket as { host?: string; port?: number; path?: string };
  if (path !== undefined) return { path, host, port };
  const [name = host, number = port] = url === undefined ? [] : addressOf(url).split(/:(?=\d+$)/);
  return { host: name.replace(/[[\]]/g, ""), port: Number(number) };
}

/** The settings in a URL. */
function settings(url: string): Settings | SentinelSettings | ClusterSettings {
  const read = endpoint(url);
  if (!read) return { url: plain(url) };
  const { kind, nodes, name, tls, database, access, sentinelPassword: password } = read;
  if (kind === "socket") return { ...access, database, socket: { path: name, tls: false } };
  const secure = tls && { socket: { tls: true as const } };
  const client = { ...access, database, ...secure };
  if (kind === "cluster") return { rootNodes: nodes.map((node) => ({ socket: { ...node } })), defaults: client };
  const sentinelClientOptions = { ...secure, ...(password && { password }) };
  return { name, sentinelRootNodes: nodes, nodeClientOptions: client, sentinelClientOptions };
}

/** Whose connections these settings describe. */
function read(target: Target): Exclude<Target, string> {
  if (typeof target === "string") return settings(target);
  if (isLike(target))
    return "slots" in target || "sentinelRootNodes" in target || "getSentinelNode" in target ? settingsOf(target) : target;
  // A Sentinel client of the first versions.
  if ("sendCommand" in target) throw new Unsupported("this client has no settings to use; give the settings of createSentinel instead");
  return target;
}

function driver(target: Target): Driver {
  // Version 4 has neither. Version 3 would connect as soon as it is made.
  if (typeof target === "object" && isLike(target) ? !("destroy" in target) : !("createSentinel" in noderedis)) {
    throw new Unsupported("this node-redis is too old; update it to 5 or later");
  }
  const given = read(target);
  if ("sentinelRootNodes" in given) {
    const { name, sentinelRootNodes: nodes, nodeClientOptions = {}, sentinelClientOptions = {}, nodeAddressMap } = given;
    const [sentinel, client] = [template(sentinelClientOptions), template(nodeClientOptions)];
    const watch: Watch = {
      name,
      nodes,
      open: (at, timeout) => single(sentinel, timeout, at),
      map: (at) => mapped(nodeAddressMap, at),
    };
    return { server: name, watch, open: (timeout, at) => single(client, timeout, at ?? {}) };
  }
  if ("rootNodes" in given) {
    const { rootNodes, defaults = {}, nodeAddressMap } = given;
    const seeds = rootNodes.map(place);
    const client = template(defaults);
    return {
      server: seeds.map(text).join(", "),
      seeds,
      map: (at) => mapped(nodeAddressMap, at),
      open: (timeout, at) => single(client, timeout, at ?? {}),
    };
  }
  const client = isLike(given) ? given : template(given);
  const at = place(optionsOf(client));
  return { server: at.path ?? text(at), open: (timeout) => single(client, timeout, {}) };
}

export class Client extends AnyClient {
  /**
   * Connects by a URL, by settings, or by those of your node-redis client. The new client opens its own connections. Behind
   * Sentinels, give the client or the settings of `createSentinel`, or `redis+sentinel://host:port,host:port/name`. In a cluster, give
   * the client or the settings of `createCluster`, or `redis+cluster://host:port,host:port`.
   */
  static async connect(target: Target, options: ClientOptions = {}): Promise<Client> {
    return new Client(driver(target), options).probe();
  }
}
