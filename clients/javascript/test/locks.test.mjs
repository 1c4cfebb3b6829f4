// Locks on a real server, with both drivers.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { Raw, drivers, packages, peers, sleep, stall, startServer, until, waiters } from "./kit.mjs";

const { Closed, Denied, Invalid, LockLost, Timeout, Unflushed } = packages.ioredis;

let server;
let raw;
before(async () => {
  server = await startServer();
  raw = new Raw(server.port);
});
after(async () => {
  raw.close();
  await server.stop();
});

const unhandled = [];
process.on("unhandledRejection", (error) => unhandled.push(error));
after(() => assert.deepEqual(unhandled, []));

/** Both packages are loaded: their errors are the same classes only within one of them. */
const is = (Class, more = {}) => ({ name: Class.name, ...more });

for (const driver of await drivers()) {
  describe(driver.name, { timeout: 120_000 }, () => {
    let number = 0;
    const fresh = () => `${driver.name}:${++number}`;
    const using = async (options, work) => {
      const events = [];
      const client = await driver.connect(server.url, { onEvent: (event) => events.push(event), ...options });
      try {
        await work(client, events);
      } finally {
        await client.close();
      }
    };

    test("a lock excludes, is handed on, and is free in the end", () =>
      using({}, async (client, events) => {
        const lock = client.lock(fresh());
        const held = await lock.acquire();
        assert(held.check() > 29_000 && held.check() <= 30_000 && !held.signal.aborted && held.token === 0);
        // It leads to this process: docs/OPERATIONS.md.
        assert.match(held.owner, new RegExp(`^[\\w.-]+@[\\w.-]+:${process.pid}:[0-9a-f]{32}:\\d+$`));
        await assert.rejects(lock.tryAcquire(), is(Denied));
        const waiting = lock.acquire();
        await until("somebody waits", async () => (await waiters(raw, lock.name)) === 1);
        await held.release();
        await held.release();
        assert.throws(() => held.check(), is(LockLost, { why: "released" }));
        const next = await waiting;
        assert.notEqual(next.owner, held.owner);
        assert.equal(await lock.locked(), true);
        await next.release();
        assert.equal(await lock.locked(), false);
        // The next holder may have the lock before the last one has the answer to its release.
        const [first, denied, ...others] = events.map((event) => event.type);
        assert.deepEqual([first, denied, ...others.sort()], ["acquired", "denied", "acquired", "released", "released"]);
        assert(events.findLast((event) => event.type === "acquired").waited > 0 && events[4].held >= 0);
      }));

    for (const wait of [300, 8_000]) {
      test(`a wait of ${wait} ms lasts ${wait} ms, whatever the application's time-outs are`, async () => {
        const [impatient, close] = impatientClient(driver.name);
        const client = await driver.connect(impatient);
        const lock = client.lock(fresh());
        const held = await lock.acquire();
        const start = performance.now();
        await assert.rejects(lock.acquire({ timeout: wait }), is(Timeout, { lock: lock.name }));
        const waited = performance.now() - start;
        assert(waited >= wait && waited < wait + 250 + stall(), `waited ${waited} ms`);
        await until("nobody waits", async () => (await waiters(raw, lock.name)) === 0);
        await held.release();
        await client.close();
        close();
      });
    }

    test("a downgrade keeps the reader for a time, and not the writer", () =>
      using({}, async (client) => {
        const both = client.readWriteLock(fresh());
        const reader = await (await both.write({ atLeast: 60_000 }).acquire()).downgrade();
        // The writer is gone at once, and the reader is kept.
        await (await both.read().tryAcquire()).release();
        await reader.release();
        await assert.rejects(both.write().tryAcquire(), is(Denied));
      }));

    test("a guard beside another one is not detached, and the release of one that was detached does nothing", () =>
      using({}, async (client) => {
        const lock = client.lock(fresh(), { fenced: true });
        const held = await lock.acquire();
        const inner = await held.reenter();
        await assert.rejects(held.detach(), is(Invalid));
        await inner.release();
        const { owner } = await held.detach();
        assert.throws(() => held.check(), is(LockLost, { why: "released" }));
        await held.release();
        await (await lock.adopt(owner)).release();
      }));

    test("several locks as one", () =>
      using({ lease: 1_200 }, async (client) => {
        const names = [fresh(), fresh(), fresh()];
        const all = client.lockAll([...names].reverse());
        const [a, b, c] = [...names].sort().map((name) => client.lock(name));
        const other = await b.acquire();
        await assert.rejects(all.acquire({ timeout: 200 }), is(Timeout, { lock: b.name }));
        const stop = new AbortController();
        const given = all.acquire({ signal: stop.signal });
        await until("it waits for one", async () => (await waiters(raw, b.name)) === 1);
        stop.abort();
        await assert.rejects(given, { name: "AbortError" });
        for (const lock of [a, c]) assert.equal(await lock.locked(), false);
        await until("nobody waits", async () => (await waiters(raw, b.name)) === 0);
        const waiting = all.run(async (held) => {
          assert.deepEqual(held.names, [...names].sort());
          await a.forceRelease();
          await until("it is lost", () => held.signal.aborted);
        });
        await until("it waits for one", async () => (await waiters(raw, b.name)) === 1);
        await other.release();
        await assert.rejects(waiting, is(LockLost, { why: "taken" }));
      }));

    test("a thousand waits with one signal end together, without a warning", () =>
      using({}, async (client) => {
        const warnings = [];
        const warn = (warning) => warnings.push(warning);
        process.on("warning", warn);
        const lock = client.lock(fresh());
        const held = await lock.acquire();
        const { signal } = new AbortController();
        const waits = Array.from({ length: 1_000 }, () => lock.acquire({ timeout: 2_000, signal }).catch(({ name }) => name));
        assert.deepEqual([...new Set(await Promise.all(waits))], ["Timeout"]);
        process.off("warning", warn);
        assert.deepEqual(warnings, []);
        await held.release();
      }));

    test("two guards that are released at once: neither is told that the other was", () =>
      using({}, async (client) => {
        const lock = client.lock(fresh());
        const outer = await lock.acquire();
        const inner = await outer.reenter();
        await Promise.all([inner.release(), outer.release()]);
        assert.equal(await lock.locked(), false);
      }));

    test("a named owner acquires beside the release of its last guard", () =>
      using({}, async (client) => {
        const lock = client.lock(fresh(), { owner: "cron" });
        const held = await lock.acquire();
        const next = lock.acquire();
        const once = assert.rejects(lock.tryAcquire(), is(Denied));
        await held.release();
        await once;
        (await next).check();
        await (await next).release();
        assert.equal(await lock.locked(), false);
      }));

    test("a named owner that acquires anew as it is told of a loss", () =>
      using({ lease: 1_500 }, async (client) => {
        const lock = client.lock(fresh(), { owner: "cron" });
        const held = await lock.acquire();
        const next = new Promise((resolve) => {
          held.signal.addEventListener("abort", () => {
            held.release().catch(() => undefined);
            resolve(lock.acquire());
          });
        });
        await lock.forceRelease();
        const again = await next;
        await sleep(2_000);
        again.check();
        await again.release();
        assert.equal(await lock.locked(), false);
      }));

    // The new acquisition went out before the late release, which ended its hold: two owners believed that they had the lock.
    test("a named owner that acquires anew as its late release finds the loss", () =>
      using({}, async (client) => {
        const lock = client.lock(fresh(), { owner: "cron", lease: 300, renew: false });
        const held = await lock.acquire();
        let again;
        held.signal.addEventListener("abort", () => (again = assert.rejects(lock.tryAcquire(), is(LockLost))));
        const end = performance.now() + 400;
        while (performance.now() < end);
        await assert.rejects(held.release(), is(LockLost));
        await again;
        const next = await lock.acquire();
        assert.equal((await lock.info()).holders[0].owner, "cron");
        await next.release();
      }));

    test("run: the work's result, its error, a loss, and the loss that an error hides", () =>
      using({ lease: 900, responseTimeout: 2_000 }, async (client) => {
        const lock = client.lock(fresh());
        assert.equal(await lock.run((held) => (held.check() > 0 ? 7 : 0)), 7);
        await assert.rejects(
          lock.run(() => Promise.reject(new Error("mine"))),
          /mine/,
        );
        assert.equal(await lock.locked(), false);
        const lose = async (held) => {
          await lock.forceRelease();
          await until("it is lost", () => held.signal.aborted);
        };
        await assert.rejects(lock.run(lose), is(LockLost));
        await assert.rejects(
          lock.run(async (held) => {
            await lose(held);
            throw new Error("mine");
          }),
          /mine/,
        );
      }));

    test("aborted before, while asking, and in the moment of the grant", () =>
      using({}, async (client) => {
        const lock = client.lock(fresh());
        const reason = new Error("enough");
        await assert.rejects(lock.acquire({ signal: AbortSignal.abort(reason) }), reason);
        for (let turn = 0; turn < 40; turn++) {
          const stop = new AbortController();
          const acquired = lock.acquire({ signal: stop.signal }).catch((error) => error);
          if (turn % 4 === 1) await null;
          if (turn % 4 === 2) await sleep(0);
          if (turn % 4 === 3) await sleep(turn / 10);
          stop.abort(reason);
          const held = await acquired;
          if (held !== reason) await held.release();
          await until("nothing is left", async () => (await raw.send("EXISTS", lock.name)) === 0);
        }
        const holder = await lock.acquire();
        // The grant and the abort cross.
        const stop = new AbortController();
        const acquired = lock.acquire({ signal: stop.signal });
        await until("it waits", async () => (await waiters(raw, lock.name)) === 1);
        const released = holder.release();
        stop.abort(reason);
        await Promise.all([released, assert.rejects(acquired, reason)]);
        await until("nothing is left", async () => (await raw.send("EXISTS", lock.name)) === 0);
        const again = await lock.acquire({ signal: AbortSignal.timeout(20_000), timeout: 10_000 });
        await assert.rejects(lock.acquire({ signal: AbortSignal.timeout(30) }), { name: "TimeoutError" });
        await again.release();
      }));

    test("closing: waits end, holds are lost and released, and nothing can be asked any more", async () => {
      const client = await driver.connect(server.url);
      const lock = client.lock(fresh());
      const running = lock.run(async (held) => {
        await new Promise((done) => held.signal.addEventListener("abort", done));
      });
      await until("it is held", () => lock.locked());
      const waits = Array.from({ length: 20 }, () => lock.acquire());
      const ended = Promise.all(waits.map((wait) => assert.rejects(wait, is(Closed))));
      await until("they wait", async () => (await waiters(raw, lock.name)) === 20);
      const start = performance.now();
      const lost = assert.rejects(running, is(LockLost, { why: "closed" }));
      await Promise.all([client.close(), client.close(), ended, lost]);
      assert(performance.now() - start < 1_000 + stall());
      await until("nothing is left", async () => (await raw.send("EXISTS", lock.name)) === 0);
      for (const call of [
        () => lock.acquire(),
        () => lock.tryAcquire(),
        () => lock.info(),
        () => lock.locked(),
        () => lock.forceRelease(),
      ]) {
        await assert.rejects(call(), is(Closed));
      }
      // A guard that nobody releases does not hold up the end for ever.
      const other = await driver.connect(server.url);
      const forgotten = await other.lock(fresh()).acquire();
      await assert.rejects(other.close({ timeout: 100 }), is(Unflushed));
      assert.throws(() => forgotten.check(), is(LockLost, { why: "closed" }));
      await forgotten.release().catch(() => undefined);
    });

    test("bad input gets a clear error", () =>
      using({}, async (client) => {
        const name = fresh();
        const lock = client.lock(name);
        const wrong = [
          () => client.lock(7),
          () => client.lock(""),
          () => client.lock("x".repeat(1_025)),
          () => client.lockAll([]),
          () => client.lockAll("ab"),
          ...[0, 2 ** 31, 1.5, Number.NaN].map((permits) => () => client.semaphore("a", permits)),
          () => client.semaphore("a", 2, { fenced: true }),
          () => client.lock(name, { atLeast: -1 }),
          () => client.lock(name, { maxHold: "1" }),
          () => client.lock(name, { lease: 99 }),
          () => client.lock(name, { lease: "30s" }),
          () => client.lock(name, { wait: -1 }),
          () => client.lock(name, { wait: NaN }),
          () => client.lock(name, { owner: "" }),
          () => client.lock(name, { owner: 7 }),
          () => client.lock(name, { owner: "x".repeat(513) }),
          () => client.lock(name, { sessionGrace: 99 }),
          () => client.lock(name, { sessionGrace: "1s" }),
          () => client.lock(name, { ttl: 5 }),
          () => client.readWriteLock(name).read({ fenced: true }),
          () => client.readWriteLock(name).write({ fair: true }),
        ];
        for (const call of wrong) assert.throws(call, is(Invalid), String(call));
        await assert.rejects(lock.acquire({ timeout: -1 }), is(Invalid));
        await assert.rejects(lock.acquire({ wait: 5 }), is(Invalid));
        await assert.rejects(async () => driver.connect(server.url, { prefix: "x" }), is(Invalid));
        await assert.rejects(async () => driver.connect(server.url, { onEvent: "x" }), is(Invalid));
        assert.equal(await lock.locked(), false);
      }));

    test("names are any text, and are used literally", async () => {
      const [prefixed, close] = prefixedClient(driver.name);
      const client = await driver.connect(prefixed);
      for (const name of ["a b%c", "ü{x}\u0000\r\n", "{tag}:1"]) {
        const lock = client.lock(`${driver.name}${name}`);
        const held = await lock.acquire();
        assert.equal(await raw.send("EXISTS", lock.name), 1);
        const waiting = lock.acquire({ timeout: 5_000 });
        await until("it waits", async () => (await lock.info()).waiterCount === 1);
        await held.release();
        await (await waiting).release();
      }
      await client.close();
      close();
    });

    test("what the application's hook does is nothing to the locks", async () => {
      const warnings = [];
      const listen = (warning) => warnings.push(warning.name);
      process.on("warning", listen);
      for (const onEvent of [
        () => {
          throw new Error("hook");
        },
        () => Promise.reject(new Error("hook")),
      ]) {
        const client = await driver.connect(server.url, { onEvent });
        await client.lock(fresh()).run(() => undefined);
        await client.close();
      }
      await until("it is warned", () => warnings.includes("RlockWarning"));
      process.off("warning", listen);
    });
  });
}

/** An application's client with short time-outs and retries. */
function impatientClient(name) {
  if (name.startsWith("ioredis")) {
    const Redis = peers.ioredis.default?.default ?? peers.ioredis.default ?? peers.ioredis;
    const redis = new Redis(server.url, { commandTimeout: 200, socketTimeout: 300, maxRetriesPerRequest: 5 });
    redis.on("error", () => undefined);
    return [redis, () => redis.disconnect()];
  }
  const redis = peers.redis.createClient({ url: server.url, socket: { socketTimeout: 300 }, commandOptions: { timeout: 100 } });
  return [redis, () => undefined];
}

/** An application's client with a prefix for its keys. */
function prefixedClient(name) {
  if (!name.startsWith("ioredis")) return [{ url: server.url, keyPrefix: "app:" }, () => undefined];
  const Redis = peers.ioredis.default?.default ?? peers.ioredis.default ?? peers.ioredis;
  const redis = new Redis(server.url, { keyPrefix: "app:", lazyConnect: true });
  return [redis, () => redis.disconnect()];
}
