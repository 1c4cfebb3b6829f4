// The scenarios of docs/clients/ioredis.md and docs/clients/node-redis.md, for the code that each page links to. A driver has that code,
// clients of RESP2 and RESP3, the example of its page, and its own ways to send a command and to lose patience.

import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";

export async function check(name, driver) {
  setTimeout(() => assert.fail("not done in time"), 90_000).unref();
  const { clients } = driver;
  await Promise.all(clients.flatMap((client, number) => [
    scenario(driver, client, `page:${name}:${number}`),
    aWaitOf8Seconds(driver, client, `page:${name}:wait:${number}`),
    renewals(driver, client, `page:${name}:renewed:${number}`),
  ]));
  assert.equal(await driver.example(clients[0]), "done");
  await aServerThatStops(driver, clients[0], `page:${name}:stops`);
  console.log(`${name}, RESP2 and RESP3: ok`);
}

async function scenario({ Locks, call }, client, key) {
  const locks = await new Locks(client).connect();

  // Another owner is denied; a repeated command adds no hold.
  const held = await locks.acquire(key, { fenced: true });
  const left = await call(client, "PTTL", key);
  assert(held.check() && held.token > 0 && left > 0 && left <= 30_000);
  assert.equal(await locks.acquire(key), null);
  assert.equal((await call(client, "RLOCK.ACQUIRE", key, held.owner, "30000", "HOLDS", "1"))[0], 1);

  // The release hands the lock to the waiter, with a larger token.
  const waiting = locks.acquire(key, { waitMs: 20_000, fenced: true });
  while ((await waiters(call, client, key)) === 0) await sleep(5);
  assert(await held.release());
  const other = await waiting;
  assert(other.check() && other.token > held.token && !other.lost.aborted);
  assert(!(await held.release()) && !held.lost.aborted);
  assert((await other.release()) && (await call(client, "EXISTS", key)) === 0);
  locks.close();
}

/** The time-outs of the application's own connections are shorter. */
async function aWaitOf8Seconds({ Locks, call, impatient }, client, key) {
  const locks = await new Locks(impatient(client)).connect();
  const held = await locks.acquire(key);
  const start = performance.now();
  assert.equal(await locks.acquire(key, { waitMs: 8_000 }), null);
  const waited = performance.now() - start;
  assert(waited >= 7_999 && waited < 9_000, `waited ${waited}`);
  assert.equal(await waiters(call, client, key), 0);
  assert(await held.release());
  locks.close();
}

/** Renewals keep the lock for several leases; a forced release is noticed within a third of a lease. */
async function renewals({ Locks, call }, client, key) {
  const locks = await new Locks(client, 2_000).connect();
  const held = await locks.acquire(key);
  for (let i = 0; i < 70; i++) {
    await sleep(100);
    assert(held.check() && !held.lost.aborted);
  }
  assert.equal(await call(client, "RLOCK.FORCERELEASE", key), 1);
  const start = performance.now();
  await lost(held);
  assert(performance.now() - start < 2_000 / 3 + 1_000);
  assert(!held.check() && !(await held.release()));
  locks.close();
}

async function aServerThatStops({ Locks, call }, client, key) {
  const locks = await new Locks(client, 3_000).connect();
  const held = await locks.acquire(key);
  const pause = () => call(client, "CLIENT", "PAUSE", "20000", "WRITE");
  const goOn = () => call(client, "CLIENT", "UNPAUSE");

  // A pause shorter than the lease: renewals fail, and the lock is kept.
  await pause();
  await sleep(1_800);
  assert(held.check());
  await goOn();
  await sleep(2_000);
  assert(held.check() && !held.lost.aborted);

  // A longer pause: the local deadline reports the loss before the server grants the lock to another owner.
  const start = performance.now();
  await pause();
  await lost(held);
  const told = performance.now() - start;
  assert(!held.check() && told > 1_800 && told < 3_500, `told after ${told}`);
  // A call that fails now may still take effect later; at most, its hold lasts one lease.
  await assert.rejects(locks.acquire(`${key}:fails`, { waitMs: 1_000 }));
  await assert.rejects(held.release());
  await goOn();
  assert(!(await eventually(() => held.release())));
  assert(await (await eventually(() => locks.acquire(`${key}:fails`, { waitMs: 10_000 }))).release());
  locks.close();
}

const lost = (held) => new Promise((done) => (held.lost.aborted ? done() : held.lost.addEventListener("abort", done)));

/** Retries until the client is connected again. */
async function eventually(call) {
  for (let i = 0; i < 50; i++) {
    try {
      return await call();
    } catch {
      await sleep(50);
    }
  }
  return call();
}

/** INFO is a map in RESP3, and a list of names and values in RESP2. */
async function waiters(call, client, key) {
  const info = await call(client, "RLOCK.INFO", key);
  return Array.isArray(info) ? info[info.indexOf("waiter-count") + 1] : info["waiter-count"];
}
