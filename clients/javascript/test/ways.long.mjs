// docs/clients/from-redlock.md beside the old libraries: as a program of its own, it counts under one lock for some seconds.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { startServer } from "./kit.mjs";

const folder = join(import.meta.dirname, ".ways");
const page = readFileSync(join(import.meta.dirname, "../../../docs/clients/from-redlock.md"), "utf8");
const code = [...page.matchAll(/^```js\n(.*?)^```$/gms)].map(([, block]) => block).join("");

const program = `${code}
import assert from "node:assert/strict";
import Redis from "ioredis";
import Redlock from "redlock";
import Redlock4 from "redlock-4";
import { Mutex } from "redis-semaphore";

const servers = process.env.SERVERS.split(" ").map((url) => new Redis(url));
const [app] = servers;
// Few tries: between them it keeps the servers that it got, so that with three of them nobody gets a majority.
const settings = { retryCount: 2, retryDelay: 10, retryJitter: 5 };
const [redlock, redlock4] = [Redlock, Redlock4].map((Old) => new Old(servers, settings));
const mutex = (lockTimeout) => new Mutex(app, "ways", { lockTimeout, acquireTimeout: 30_000, retryInterval: 10, refreshInterval: 0 });
const key = "mutex:ways"; // of redis-semaphore's mutex "ways"

const sides = {
  redlock: (work) => redlock.using([key], 10_000, work),
  redlock4: async (work) => {
    const lock = await redlock4.lock(key, 10_000);
    await work();
    await lock.unlock();
  },
  semaphore: async (work) => {
    const lock = mutex(10_000);
    await lock.acquire();
    await work();
    await lock.release();
  },
  one: async (work) => {
    const held = await acquireBesideOld(client.lock(key), 30_000);
    await work();
    await held.release();
  },
  both: (work) => withBoth(redlock, key, work),
  alone: (work) => client.lock("rlock:" + key).run(work),
};

const once = { retryCount: 0 };

async function contend(side) {
  const end = performance.now() + 3_000;
  let holds = 0;
  while (holds < 5 || performance.now() < end) {
    const work = async () => {
      const count = Number(await app.get("count"));
      await sleep(2);
      await app.set("count", count + 1);
      holds++;
    };
    await sides[side](work).catch((error) => assert.match(error.name, /^(Execution|Lock)Error$/)); // of Redlock: tries again
    await sleep(20 * Math.random());
  }
  console.log("holds", holds);
}

/** What each library says about a key of the other. */
async function facts() {
  const mine = client.lock(key);
  const old = await redlock.acquire([key], 10_000);
  const calls = [() => mine.tryAcquire(), () => mine.acquire(), () => mine.locked(), () => acquireBesideOld(mine, 100)];
  for (const call of calls) await assert.rejects(call, NotALock);
  await app.pexpire(key, 50); // as if it had not been extended
  const held = await acquireBesideOld(mine, 5_000);
  const reasons = [];
  redlock.on("error", (error) => reasons.push(error.message.split(" ")[0]));
  for (const call of [() => redlock.extend(old, 300, once), () => redlock.release(old, once), () => redlock.acquire([key], 300, once)])
    await assert.rejects(call, { name: "ExecutionError" });
  assert.deepEqual(reasons.slice(0, 3), ["WRONGTYPE", "WRONGTYPE", "The"]);
  assert.equal(await new Mutex(app, "ways", { acquireTimeout: 50 }).tryAcquire(), false);
  await held.release();
  const late = mutex(10_000);
  await late.acquire();
  await app.pexpire(key, 50);
  const next = await acquireBesideOld(mine, 5_000);
  await assert.rejects(late.release(), /WRONGTYPE/);
  next.check();
  await next.release();
}

await (process.argv[2] === "facts" ? facts() : contend(process.argv[2]));
await client.close();
servers.forEach((server) => server.disconnect());
`;

/** Several programs beside each other: the counter has missed no hold. */
async function run(servers, ...sides) {
  const urls = servers.map((server) => server.url);
  const env = { ...process.env, REDIS_URL: urls[0], SERVERS: urls.join(" ") };
  const one = (side) => promisify(execFile)(process.execPath, [file, side], { env, timeout: 60_000 });
  if (sides[0] === "facts") return one("facts");
  const printed = await Promise.all(sides.map(one));
  const holds = printed.map(({ stdout }) => Number(/holds (\d+)/.exec(stdout)?.[1]));
  const { default: Redis } = await import("ioredis");
  const app = new Redis(urls[0]);
  const count = Number(await app.getdel("count"));
  app.disconnect();
  console.log(`${sides} held ${holds}`);
  assert.equal(
    count,
    holds.reduce((all, one) => all + one),
    "two programs were at work at the same time",
  );
}

mkdirSync(folder, { recursive: true });
const file = join(folder, "program.mjs");
writeFileSync(file, program);

test("old and new programs at one name exclude each other, on one server", { timeout: 90_000 }, async () => {
  const server = await startServer();
  try {
    await run([server], "facts");
    await run([server], "redlock", "redlock4", "semaphore", "one", "one");
  } finally {
    await server.stop();
  }
});

test("two steps: Redlock on three servers beside programs with both locks, and those beside rlock alone", { timeout: 90_000 }, async () => {
  const servers = [await startServer(), await startServer("--without-module"), await startServer("--without-module")];
  try {
    await run(servers, "redlock", "redlock", "both", "both");
    await run(servers, "both", "both", "alone", "alone");
  } finally {
    await Promise.all(servers.map((server) => server.stop()));
    rmSync(folder, { recursive: true });
  }
});
