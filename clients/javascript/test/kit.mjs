// A server of its own for each file of tests, and the drivers in their oldest and newest versions.
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import Module, { createRequire } from "node:module";
import { createConnection, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { after } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

export { sleep };

const root = resolve(import.meta.dirname, "../../..");

export function serverProgram() {
  if (process.env.RLOCK_TEST_SERVER) return process.env.RLOCK_TEST_SERVER;
  if (process.env.REDIS_SERVER) return process.env.REDIS_SERVER;
  const env = join(root, ".deps/env");
  const named = existsSync(env) && /REDIS_SERVER:-([^}"]+)/.exec(readFileSync(env, "utf8"));
  return named ? named[1] : "redis-server";
}

const programs = new Set();

/** Starts a server or a Sentinel, which ends with this process at the latest. */
export function start(words, options) {
  const program = spawn(serverProgram(), words, options);
  programs.add(program.once("exit", () => programs.delete(program)));
  return program;
}

process.on("exit", () => {
  for (const program of programs) program.kill("SIGKILL");
});

// A client or a server that a failed test leaves open would keep the process alive for ever.
after(() => {
  const report = () => {
    console.error("10 s after the last test something is still open, which keeps this process alive");
    process.exit(1);
  };
  setTimeout(report, 10_000).unref();
});

/** Below the ports of outgoing connections, as a cluster's bus, 10,000 above: one of those can take that of a server before it begins. */
export function freePort() {
  const port = 10_000 + Math.floor(Math.random() * 12_700);
  return new Promise((done) => {
    const probe = createServer().on("error", () => done(freePort()));
    probe.listen(port, "127.0.0.1", () => probe.close(() => done(port)));
  });
}

export async function startServer(...more) {
  const target = process.env.CARGO_TARGET_DIR ?? join(root, "target");
  const module = process.env.RLOCK_MODULE ?? resolve(root, target, "release/librlock.so");
  const port = await freePort();
  const dir = mkdtempSync(join(tmpdir(), "rlock-js-"));
  const load = more.includes("--without-module") ? [] : ["--loadmodule", module];
  const words = more.filter((word) => word !== "--without-module");
  const options = ["--port", String(port), "--save", "", "--dir", dir, "--enable-debug-command", "yes", ...words, ...load];
  let log = "";
  const process_ = start(options, { stdio: ["ignore", "pipe", "pipe"] });
  process_.stdout.on("data", (data) => (log += data));
  const kill = () =>
    new Promise((done) => {
      if (process_.exitCode !== null || process_.signalCode !== null) return done();
      process_.once("exit", done);
      process_.kill("SIGCONT");
      process_.kill("SIGKILL");
    });
  for (let tries = 0; ; tries++) {
    if (process_.exitCode !== null) throw new Error(`the server ended:\n${log}`);
    if (await answers(port)) break;
    if (tries === 200) throw new Error(`the server does not answer:\n${log}`);
    await sleep(25);
  }
  return {
    port,
    url: `redis://127.0.0.1:${port}`,
    pause: () => process_.kill("SIGSTOP"),
    resume: () => process_.kill("SIGCONT"),
    kill,
    stop: async () => {
      await kill();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

export function answers(port) {
  return new Promise((done) => {
    const socket = createConnection({ port, host: "127.0.0.1" }, () => socket.write("PING\r\n"));
    socket.on("data", (data) => {
      socket.destroy();
      // A password is needed: it runs.
      done(/PONG|NOAUTH/.test(String(data)));
    });
    socket.on("error", () => done(false));
  });
}

/** A connection that sends any command and reads any reply, for the tests' own look at the server. */
export class Raw {
  #socket;
  #buffer = "";
  #waiting = [];
  constructor(port) {
    this.#socket = createConnection({ port, host: "127.0.0.1" });
    this.#socket.setEncoding("latin1").on("data", (data) => this.#read(data));
    // A server that is demoted closes its connections: a test that asks then gets no answer.
    this.#socket.on("error", () => {});
  }
  send(...words) {
    this.#socket.write(`*${words.length}\r\n` + words.map((word) => `$${Buffer.byteLength(String(word))}\r\n${word}\r\n`).join(""));
    return new Promise((done) => this.#waiting.push(done));
  }
  close() {
    this.#socket.destroy();
  }
  #read(data) {
    this.#buffer += data;
    for (;;) {
      const parsed = parse(this.#buffer, 0);
      if (!parsed) return;
      this.#buffer = this.#buffer.slice(parsed[1]);
      this.#waiting.shift()?.(parsed[0]);
    }
  }
}

export function parse(text, from) {
  const end = text.indexOf("\r\n", from);
  if (end < 0) return undefined;
  const [kind, line, next] = [text[from], text.slice(from + 1, end), end + 2];
  if (kind === ":") return [Number(line), next];
  if (kind === "$") {
    if (line === "-1") return [null, next];
    const stop = next + Number(line);
    return text.length < stop + 2 ? undefined : [text.slice(next, stop), stop + 2];
  }
  if (kind !== "*") return [kind === "-" ? new Error(line) : line, next];
  if (line === "-1") return [null, next];
  const items = [];
  let at = next;
  for (let n = 0; n < Number(line); n++) {
    const item = parse(text, at);
    if (!item) return undefined;
    items.push(item[0]);
    at = item[1];
  }
  return [items, at];
}

const require = createRequire(import.meta.url);

/** RLOCK_DRIVERS=oldest tests the package for require() with the oldest supported drivers, which have other names here. */
export const oldest = process.env.RLOCK_DRIVERS === "oldest";
if (oldest) {
  const usual = Module._resolveFilename;
  Module._resolveFilename = (name, ...more) => usual(name === "ioredis" || name === "redis" ? `${name}-5` : name, ...more);
}

const load = (name) => (oldest ? require(name) : import(name));

/** The package, as applications with this driver see it. */
export const packages = { ioredis: await load("rlock-client/ioredis"), redis: await load("rlock-client/node-redis") };

/** The drivers themselves, for applications that have a client already. */
export const peers = { ioredis: await load("ioredis"), redis: await load("redis") };

export async function drivers() {
  const { Client: Ioredis } = packages.ioredis;
  const { Client: NodeRedis } = packages.redis;
  return [
    { name: `ioredis ${version("ioredis")}`, connect: (...settings) => Ioredis.connect(...settings) },
    { name: `node-redis ${version("redis")}`, connect: (...settings) => NodeRedis.connect(...settings) },
  ];
}

function version(name) {
  return JSON.parse(readFileSync(join(import.meta.dirname, "../node_modules", oldest ? `${name}-5` : name, "package.json"), "utf8"))
    .version;
}

/** Polls for so long at most, and for longer where the machine is busy. */
export async function until(what, is, ms = 5_000) {
  const end = performance.now() + ms;
  while (!(await is())) {
    if (performance.now() > end + stall()) throw new Error(`not in time: ${what}`);
    await sleep(5);
  }
}

export async function waiters(raw, lock) {
  const info = await raw.send("RLOCK.INFO", lock);
  return info[info.indexOf("waiter-count") + 1];
}

let worst = 0;
let last = performance.now();
setInterval(() => {
  worst = Math.max(worst, performance.now() - last - 10);
  last = performance.now();
}, 10).unref();

/** How long this process stood still at most, twice: what else runs on the machine must fail no test of promptness. */
export function stall() {
  return 2 * worst;
}
