// The driver program of the conformance suite: JSON lines in, JSON lines out (clients/conformance/PROTOCOL.md).
//
//     node conformance/driver.mjs [ioredis | node-redis]
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const [, , entry = "ioredis"] = process.argv;
const { Client, Invalid, RlockError } = await import(`rlock-client/${entry}`);
const require = createRequire(import.meta.url);
const peer = entry === "ioredis" ? "ioredis" : "redis";

const CAPABILITIES = [
  ...["read_write", "downgrade", "fair", "fenced", "reenter", "owner", "cancel", "info", "force_release", "hook", "busy"],
  ...["sentinel", "cluster", "semaphore", "session", "one_trip", "cluster_waits", "at_least", "max_hold", "detach", "lock_all"],
  "session_moves",
];

/** The fields of each request; `?`: optional. */
const FIELDS = {
  hello: { protocol: "number" },
  connect: { client: "string", url: "string", name: "string?", lease_ms: "number?", response_ms: "number?" },
  acquire: {
    ...{ client: "string", guard: "string", lock: "string", kind: "string?", try: "boolean?", timeout_ms: "number?" },
    ...{ lease_ms: "number?", fair: "boolean?", fenced: "boolean?", owner: "string?", permits: "number?", session_ms: "number?" },
    ...{ at_least_ms: "number?", max_hold_ms: "number?" },
  },
  acquire_all: { client: "string", guard: "string", locks: "object", try: "boolean?", timeout_ms: "number?" },
  cancel: { acquire: "number" },
  check: { guard: "string" },
  reenter: { guard: "string", as: "string" },
  release: { guard: "string" },
  downgrade: { guard: "string", as: "string" },
  detach: { guard: "string" },
  adopt: { client: "string", guard: "string", lock: "string", owner: "string", kind: "string?", session_ms: "number?" },
  locked: { client: "string", lock: "string", kind: "string?" },
  info: { client: "string", lock: "string", kind: "string?" },
  force_release: { client: "string", lock: "string", kind: "string?" },
  busy: { ms: "number" },
  close: { client: "string", within_ms: "number?" },
  exit: {},
};

const CANCELLED = Symbol("cancelled");
const clients = new Map();
const guards = new Map();
const used = new Set();
const acquiring = new Map();

const stamp = () => Number(process.hrtime.bigint());
const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
const snake = (name) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

function invalid(text) {
  throw new Invalid(text);
}

function checked(request) {
  const fields = Object.hasOwn(FIELDS, request.do) ? FIELDS[request.do] : invalid(`unknown request ${request.do}`);
  for (const name of Object.keys(request)) {
    if (name !== "id" && name !== "do" && !Object.hasOwn(fields, name)) invalid(`unknown field ${name}`);
  }
  for (const [name, type] of Object.entries(fields)) {
    const optional = type.endsWith("?");
    if (request[name] === undefined ? !optional : typeof request[name] !== type.replace("?", "")) invalid(`${name} is ${type}`);
  }
}

const client = (handle) => clients.get(handle) ?? invalid(`no client ${handle}`);
const guard = (handle) => guards.get(handle)?.guard ?? invalid(`no guard ${handle}`);

function fresh(handle) {
  if (used.has(handle)) invalid(`the handle ${handle} was used before`);
  used.add(handle);
}

function keep(handle, held) {
  const told = () => {
    const { why } = held.signal.reason;
    say({ event: "lost", guard: handle, why, at: stamp() });
    // A closing client waits until the work under its guards has ended: here, with the client.
    if (why === "closed") held.release().catch(() => undefined);
  };
  if (held.signal.aborted) told();
  held.signal.addEventListener("abort", told);
  guards.set(handle, { guard: held, forget: () => held.signal.removeEventListener("abort", told) });
}

async function end(handle, work) {
  const entry = guards.get(handle) ?? invalid(`no guard ${handle}`);
  guards.delete(handle);
  try {
    return await work(entry.guard);
  } finally {
    entry.forget();
  }
}

function handle({ client: name, lock, kind = "lock", permits = 1 }, options = {}) {
  if (kind === "permit") return client(name).semaphore(lock, permits, options);
  if (kind === "lock") return client(name).lock(lock, options);
  if (kind === "read") return client(name).readWriteLock(lock).read(options);
  return kind === "write" ? client(name).readWriteLock(lock).write(options) : invalid(`unknown kind ${kind}`);
}

const OPTIONS = {
  fair: "fair",
  fenced: "fenced",
  owner: "owner",
  session_ms: "sessionGrace",
  at_least_ms: "atLeast",
  max_hold_ms: "maxHold",
};

function options(request) {
  const given = Object.entries(OPTIONS).filter(([field]) => field in request);
  return Object.fromEntries(given.map(([field, option]) => [option, request[field]]));
}

const DO = {
  hello: () => ({
    protocol: 1,
    client: "javascript",
    version: JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")).version,
    driver: `${entry} ${require(`${peer}/package.json`).version}`,
    capabilities: CAPABILITIES,
  }),
  async connect({ client: name, url, name: called, lease_ms: lease, response_ms: responseTimeout }) {
    fresh(name);
    const onEvent = ({ type, lock }) =>
      say({ event: "hook", client: name, name: snake(type), ...(lock !== undefined && { lock }), at: stamp() });
    const settings = { name: called, lease, responseTimeout };
    const given = Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== undefined));
    const made = await Client.connect(url, { ...given, onEvent });
    clients.set(name, made);
    return { identity: made.identity };
  },
  async acquire(request) {
    if (request.try && request.timeout_ms !== undefined) invalid("try and timeout_ms exclude each other");
    const fixed = request.lease_ms === undefined ? {} : { lease: request.lease_ms, renew: false };
    const lock = handle(request, { ...options(request), ...fixed });
    fresh(request.guard);
    const stop = new AbortController();
    acquiring.set(request.id, stop);
    try {
      const { signal } = stop;
      const timeout = request.timeout_ms === undefined ? {} : { timeout: request.timeout_ms };
      const held = await (request.try ? lock.tryAcquire({ signal }) : lock.acquire({ ...timeout, signal }));
      keep(request.guard, held);
      return { token: held.token, owner: held.owner };
    } finally {
      acquiring.delete(request.id);
    }
  },
  async acquire_all({ client: name, guard: held, locks, try: once, timeout_ms: timeout }) {
    if (once && timeout !== undefined) invalid("try and timeout_ms exclude each other");
    if (!Array.isArray(locks) || locks.some((lock) => typeof lock !== "string")) invalid("locks is a list of names");
    const all = client(name).lockAll(locks);
    fresh(held);
    keep(held, await (once ? all.tryAcquire() : all.acquire(timeout === undefined ? {} : { timeout })));
  },
  cancel: ({ acquire }) => void acquiring.get(acquire)?.abort(CANCELLED),
  check: ({ guard: name }) => ({ left_ms: Math.floor(guard(name).check()) }),
  async reenter({ guard: name, as }) {
    const outer = guard(name);
    fresh(as);
    const held = await outer.reenter();
    keep(as, held);
    return { token: held.token };
  },
  release: ({ guard: name }) => end(name, (held) => held.release()),
  async downgrade({ guard: name, as }) {
    if (!guard(name).downgrade) invalid(`${name} is not the guard of a write lock`);
    fresh(as);
    keep(as, await end(name, (held) => held.downgrade()));
  },
  detach: ({ guard: name }) =>
    end(name, async (held) => {
      const { owner, left } = await held.detach();
      return { owner, left_ms: Math.floor(left) };
    }),
  async adopt(request) {
    const { owner, ...rest } = request;
    const lock = handle(request, options(rest));
    fresh(request.guard);
    keep(request.guard, await lock.adopt(owner));
  },
  locked: async (request) => ({ value: await handle(request).locked() }),
  async info(request) {
    const { holderCount, waiterCount } = await handle(request).info();
    return { holders: holderCount, waiters: waiterCount };
  },
  force_release: async (request) => ({ value: await handle(request).forceRelease() }),
  busy({ ms }) {
    const until = performance.now() + ms;
    while (performance.now() < until);
  },
  close: ({ client: name, within_ms: timeout }) => client(name).close(timeout === undefined ? {} : { timeout }),
  exit: () => undefined,
};

async function serve(request, from) {
  const { id } = request;
  try {
    checked(request);
    const answer = await DO[request.do](request);
    say({ id, ok: true, from, at: stamp(), ...answer });
  } catch (error) {
    const at = stamp();
    const name = error === CANCELLED ? "Cancelled" : error instanceof RlockError ? error.name : undefined;
    if (name === undefined) throw error;
    const more = name === "LockLost" ? { why: error.why } : {};
    if (name === "Timeout" && error.cause?.code === "UNREACHABLE") more.cause = "unreachable";
    say({ id, ok: false, from, at, error: name, ...more, message: error.message ?? "cancelled" });
  }
  // Whatever it holds: the process ends, as one that needs no close.
  if (request.do === "exit") process.stdout.write("", () => process.exit(0));
}

const lines = createInterface({ input: process.stdin });
lines.on("line", (line) => {
  const from = stamp();
  let request;
  try {
    request = JSON.parse(line);
  } catch {
    request = undefined;
  }
  if (typeof request !== "object" || request === null || Array.isArray(request)) process.exit(2);
  serve(request, from);
});
lines.on("close", () => process.exit(0));
