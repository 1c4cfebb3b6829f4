// One process that is measured: told by lines on its standard input, answering by lines, as lab/src/clients/process.rs says.
//
//     node worker.mjs rlock-client | redlock | redlock-universal | redis-semaphore URL
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
const LEASE = 30_000;
const [, , contender, url] = process.argv;

/** Ways to acquire, as long as it takes, and to release; everything else as each library has it. Only the contender is loaded. */
const CONTENDERS = {
  "rlock-client": async () => {
    const { Client } = await import("../../../clients/javascript/dist/esm/ioredis.js");
    const client = await Client.connect(url, { lease: LEASE });
    return { acquire: (key) => client.lock(key).acquire(), release: (held) => held.release() };
  },
  redlock: async () => {
    const { default: Redlock } = await import("redlock");
    const redlock = new Redlock([new Redis(url)], { retryCount: -1 });
    return { acquire: (key) => redlock.lock(key, LEASE), release: (held) => held.unlock() };
  },
  "redlock-universal": async () => {
    const { createLock, IoredisAdapter } = await import("redlock-universal");
    const adapter = new IoredisAdapter(new Redis(url));
    const acquire = async (key) => {
      const lock = createLock({ adapter, key, ttl: LEASE, retryAttempts: Number.MAX_SAFE_INTEGER });
      const held = await lock.acquire();
      return () => lock.release(held);
    };
    return { acquire, release: (held) => held() };
  },
  "redis-semaphore": async () => {
    const { Mutex } = await import("redis-semaphore");
    const redis = new Redis(url);
    const acquire = async (key) => {
      const mutex = new Mutex(redis, key, { lockTimeout: LEASE, acquireTimeout: Infinity });
      await mutex.acquire();
      return mutex;
    };
    return { acquire, release: (held) => held.release() };
  },
};

const now = () => process.hrtime.bigint();

function cpu() {
  const { user, system } = process.cpuUsage();
  return BigInt(user + system) * 1_000n;
}

let held;
let crowd;

const WORK = {
  async pairs({ acquire, release }, count, key) {
    const [wall, used] = [now(), cpu()];
    for (let n = 0; n < count; n++) await release(await acquire(key));
    console.log(`${now() - wall} ${cpu() - used}`);
  },
  async take({ acquire }, _, key) {
    held = await acquire(key);
    console.log(`${now()} 0`);
  },
  async give({ release }) {
    const released = now();
    await release(held);
    console.log(`${released} 0`);
  },
  async wait({ acquire, release }, count, key) {
    const order = [];
    crowd = { first: await acquire(key), order, waiters: [] };
    for (let n = 0; n < count; n++) {
      const wait = async () => {
        const held = await acquire(key);
        const acquired = now();
        await sleep(1);
        order.push({ n, times: `${acquired} ${now()}` });
        await release(held);
      };
      crowd.waiters.push(wait());
      await sleep(1);
    }
    await sleep(300);
    console.log("0 0");
  },
  async open({ release }) {
    const { first, order, waiters } = crowd;
    console.log(`0 ${now()}`);
    await release(first);
    await Promise.all(waiters);
    console.log(order.map(({ times }) => times).join("\n"));
    const overtaken = order.map(({ n }, place) => order.slice(0, place).filter((other) => other.n > n).length);
    console.log(`${Math.max(...overtaken)} 0`);
  },
};

const ways = await CONTENDERS[contender]();
for await (const line of createInterface({ input: process.stdin })) {
  const [work, count, key] = line.split(" ");
  await WORK[work](ways, Number(count), key);
}
process.exit(0);
