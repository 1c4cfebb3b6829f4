// One process that is measured: told by lines on its standard input, answering by lines, as lab/src/clients/process.rs says.
//
//     node worker.mjs rlock-client | redlock | redis-semaphore URL
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { Mutex } from "redis-semaphore";
import Redlock from "redlock";
import { Client } from "../../../clients/javascript/dist/esm/ioredis.js";

const LEASE = 30_000;
const [, , contender, url] = process.argv;

/** Ways to acquire, as long as it takes, and to release; everything else as each library has it. */
const CONTENDERS = {
  "rlock-client": async () => {
    const client = await Client.connect(url, { lease: LEASE });
    return { acquire: (key) => client.lock(key).acquire(), release: (held) => held.release() };
  },
  redlock: () => {
    const redlock = new Redlock([new Redis(url)], { retryCount: -1 });
    return { acquire: (key) => redlock.lock(key, LEASE), release: (held) => held.unlock() };
  },
  "redis-semaphore": () => {
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

const WORK = {
  async pairs({ acquire, release }, count, key) {
    const [wall, used] = [now(), cpu()];
    for (let n = 0; n < count; n++) await release(await acquire(key));
    console.log(`${now() - wall} ${cpu() - used}`);
  },
  async turns({ acquire, release }, count, key) {
    const times = [];
    for (let n = 0; n < count; n++) {
      const held = await acquire(key);
      const acquired = now();
      await sleep(1);
      times.push(`${acquired} ${now()}`);
      await release(held);
    }
    console.log(times.join("\n"));
  },
  async crowd({ acquire, release }, count, key) {
    const first = await acquire(key);
    const order = [];
    const waiters = [];
    for (let n = 0; n < count; n++) {
      const wait = async () => {
        const held = await acquire(key);
        order.push([n, now()]);
        await sleep(1);
        await release(held);
      };
      waiters.push(wait());
      await sleep(1);
    }
    await sleep(300);
    const opened = now();
    await release(first);
    await Promise.all(waiters);
    const overtaken = order.map(([n], place) => order.slice(0, place).filter(([other]) => other > n).length);
    console.log(`${order[count - 1][1] - opened} ${Math.max(...overtaken)}`);
  },
};

const ways = await CONTENDERS[contender]();
for await (const line of createInterface({ input: process.stdin })) {
  const [work, count, key] = line.split(" ");
  await WORK[work](ways, Number(count), key);
}
process.exit(0);
