// Locks on a real server, with both drivers.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { Raw, drivers, packages, peers, sleep, stall, startServer, until, waiters } from "./kit.mjs";

const { Closed, Denied, Invalid, LockLost, NotALock, Timeout, Unflushed } = packages.ioredis;

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
        assert.match(held.owner, /^[\w.-]+@[\w.-]+:\d+:[0-9a-f]{32}:\d+$/);
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

    test("tokens grow", () =>
      using({}, async (client) => {
        const lock = client.lock(fresh(), { fenced: true });
        const first = await lock.acquire();
        const waiting = lock.acquire();
        await until("somebody waits", async () => (await waiters(raw, lock.name)) === 1);
        const again = await first.reenter();
        assert(again.token > 0 && again.token === first.token);
        await again.release();
        await first.release();
        const second = await waiting;
        assert(second.token > first.token, `${second.token} after ${first.token}`);
        assert.equal((await lock.info()).token, second.token);
        await second.release();
      }));

    test("kept for a time after its release, and no longer than a time", () =>
      using({ lease: 900 }, async (client, events) => {
        const kept = client.lock(fresh(), { atLeast: 1_200 });
        const start = performance.now();
        await (await kept.acquire()).release();
        await assert.rejects(kept.tryAcquire(), is(Denied));
        const next = await kept.acquire();
        assert(performance.now() - start > 1_150, "it was kept");
        next.check();
        const hung = await client.lock(fresh(), { maxHold: 1_000 }).acquire();
        await until("it is lost", () => hung.signal.aborted);
        assert.throws(() => hung.check(), is(LockLost, { why: "overdue" }));
        await assert.rejects(hung.release(), is(LockLost, { why: "overdue" }));
        await next.release();
        const both = client.readWriteLock(fresh());
        const reader = await (await both.write({ atLeast: 60_000 }).acquire()).downgrade();
        // The writer is gone at once, and the reader is kept.
        await (await both.read().tryAcquire()).release();
        await reader.release();
        await assert.rejects(both.write().tryAcquire(), is(Denied));
        assert(events.some((event) => event.type === "lost" && event.why === "overdue"));
        for (const options of [{ atLeast: -1 }, { maxHold: "1" }, { lease: 99 }]) {
          assert.throws(() => client.lock("a", options), is(Invalid));
        }
        for (const name of ["", undefined]) assert.throws(() => client.lock(name), is(Invalid));
        assert.throws(() => client.semaphore("a", 2, { fenced: true }), is(Invalid));
      }));

    test("detached, and adopted by another client", () =>
      using({}, (client) =>
        using({ lease: 1_500 }, async (other) => {
          const lock = client.lock(fresh(), { fenced: true, sessionGrace: 2_000 });
          const held = await lock.acquire();
          const inner = await held.reenter();
          await assert.rejects(held.detach(), is(Invalid));
          await inner.release();
          const { owner, left } = await held.detach();
          assert(left > 29_000 && owner === held.owner);
          assert.throws(() => held.check(), is(LockLost, { why: "released" }));
          await held.release();
          const adopted = await other.lock(lock.name).adopt(owner);
          assert(adopted.check() > 1_000 && adopted.owner === owner);
          await sleep(2_000);
          adopted.check();
          await assert.rejects(lock.tryAcquire(), is(Denied));
          await adopted.release();
          assert.equal(await lock.locked(), false);
          await assert.rejects(other.lock(lock.name).adopt(owner), is(LockLost, { why: "taken" }));
          assert.throws(() => other.lock(lock.name, { owner: "" }), is(Invalid));
        }),
      ));

    test("several locks as one", () =>
      using({ lease: 1_200 }, async (client) => {
        const names = [fresh(), fresh(), fresh()];
        const all = client.lockAll([...names].reverse());
        const [a, b, c] = [...names].sort().map((name) => client.lock(name));
        const other = await b.acquire();
        await assert.rejects(all.tryAcquire(), is(Denied, { lock: b.name }));
        await assert.rejects(all.acquire({ timeout: 200 }), is(Timeout, { lock: b.name }));
        const stop = new AbortController();
        const given = all.acquire({ signal: stop.signal });
        await until("it waits for one", async () => (await waiters(raw, b.name)) === 1);
        // Those before it are held, those after it are free.
        assert.deepEqual([await a.locked(), await c.locked()], [true, false]);
        stop.abort();
        await assert.rejects(given, { name: "AbortError" });
        for (const lock of [a, c]) assert.equal(await lock.locked(), false);
        await until("nobody waits", async () => (await waiters(raw, b.name)) === 0);
        const waiting = all.run(async (held) => {
          assert.deepEqual(held.names, [...names].sort());
          await sleep(1_500);
          assert(held.check() > 0);
          await a.forceRelease();
          await until("it is lost", () => held.signal.aborted);
          assert.throws(() => held.check(), is(LockLost, { why: "taken" }));
        });
        await until("it waits for one", async () => (await waiters(raw, b.name)) === 1);
        await other.release();
        await assert.rejects(waiting, is(LockLost, { why: "taken" }));
        for (const lock of [a, b, c]) assert.equal(await lock.locked(), false);
        assert.throws(() => client.lockAll([]), is(Invalid));
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

    test("re-entry by the guard, and by a named owner", () =>
      using({}, async (client) => {
        const lock = client.lock(fresh());
        const held = await lock.acquire();
        const inner = await held.reenter();
        assert.equal((await lock.info()).holders[0].holds, 2);
        await held.release();
        inner.check();
        await assert.rejects(lock.tryAcquire(), is(Denied));
        await inner.release();
        assert.equal(await lock.locked(), false);

        const cron = client.lock(fresh(), { owner: "cron" });
        const [one, other] = await Promise.all([cron.acquire(), cron.acquire()]);
        assert.equal((await cron.info()).holders[0].holds, 2);
        assert.equal(one.owner, "cron");
        await one.release();
        other.check();
        await other.release();
        assert.equal(await cron.locked(), false);
        await (await cron.acquire()).release();
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

    test("readers together, a writer alone, and a downgrade", () =>
      using({}, async (client) => {
        const both = client.readWriteLock(fresh());
        const readers = await Promise.all([both.read().acquire(), both.read().acquire()]);
        await assert.rejects(both.write().tryAcquire(), is(Denied));
        const waiting = both.write({ fenced: true }).acquire();
        await until("a writer waits", async () => (await waiters(raw, both.name)) === 1);
        await Promise.all(readers.map((reader) => reader.release()));
        const writer = await waiting;
        assert(writer.token > 0);
        await assert.rejects(both.read().acquire({ timeout: 50 }), is(Timeout));
        const reader = await writer.downgrade();
        assert.throws(() => writer.check(), is(LockLost));
        const another = await both.read().tryAcquire();
        assert.equal((await both.read().info()).mode ?? "read", "read");
        await reader.release();
        await another.release();
        await assert.rejects(client.lock((await hash(), "a hash")).acquire(), is(NotALock));
      }));

    test("as many owners of a semaphore as it has permits", () =>
      using({}, async (client) => {
        const printers = client.semaphore(fresh(), 2);
        const [one, two] = await Promise.all([printers.acquire(), printers.acquire()]);
        await assert.rejects(printers.tryAcquire(), is(Denied));
        assert.equal((await printers.info()).holderCount, 2);
        // Entering it again takes no second permit.
        const again = await one.reenter();
        await one.release();
        again.check();
        const waiting = printers.acquire();
        await until("one waits", async () => (await waiters(raw, printers.name)) === 1);
        await two.release();
        await (await waiting).release();
        await again.release();
        assert.equal(await printers.locked(), false);
        for (const permits of [0, 2 ** 31, 1.5, Number.NaN]) assert.throws(() => client.semaphore("a", permits), is(Invalid));
      }));

    const hash = () => raw.send("HSET", "a hash", "a", "1", "b", "2");

    test("fair waiters", () =>
      using({}, async (client) => {
        const lock = client.lock(fresh(), { fair: true });
        const order = [];
        const held = await lock.acquire();
        const all = [1, 2, 3].map(async (number) => {
          await sleep(number * 30);
          await lock.run(() => order.push(number));
        });
        await sleep(200);
        await held.release();
        await Promise.all(all);
        assert.deepEqual(order, [1, 2, 3]);
      }));

    test("renewals outlast many leases while the application is busy with others", () =>
      using({ lease: 1_500, responseTimeout: 400 }, async (client, events) => {
        const locks = Array.from({ length: 50 }, () => client.lock(fresh()));
        const all = await Promise.all(locks.map((lock) => lock.acquire()));
        for (let turn = 0; turn < 60; turn++) {
          const stop = performance.now() + 60;
          while (performance.now() < stop);
          await sleep(40);
          for (const held of all) held.check();
        }
        await Promise.all(all.map((held) => held.release()));
        assert(events.filter((event) => event.type === "renewed").length >= 50 * 10);
      }));

    test("a fixed lease is not renewed", () =>
      using({}, async (client, events) => {
        const lock = client.lock(fresh(), { lease: 300, renew: false });
        const start = performance.now();
        const held = await lock.acquire();
        const lost = await new Promise((done) => held.signal.addEventListener("abort", () => done(held.signal.reason)));
        const after_ = performance.now() - start;
        assert(after_ < 300 + stall() && after_ > 200, `lost after ${after_} ms`);
        assert(lost.name === "LockLost" && lost.why === "expired" && lost.lock === lock.name);
        await assert.rejects(held.release(), lost);
        assert.deepEqual(
          events.map((event) => event.type),
          ["acquired", "lost"],
        );
      }));

    test("a forced release is a loss, told by the next renewal", () =>
      using({ lease: 900, responseTimeout: 600 }, async (client) => {
        const lock = client.lock(fresh());
        const held = await lock.acquire();
        assert.equal(await lock.forceRelease(), true);
        assert.equal(await lock.forceRelease(), false);
        await until("it is lost", () => held.signal.aborted, 900);
        assert.throws(() => held.check(), is(LockLost, { why: "taken" }));
        await assert.rejects(held.release(), is(LockLost, { why: "taken" }));
        await assert.rejects(held.reenter(), is(LockLost));
        // The same without a renewal in between.
        const other = await lock.acquire();
        await lock.forceRelease();
        await assert.rejects(other.release(), is(LockLost, { why: "taken" }));
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

    test("a loop that is blocked beyond the lease loses the lock, and check() says so at once", () =>
      using({ lease: 300, responseTimeout: 2_000 }, async (client) => {
        const lock = client.lock(fresh());
        const held = await lock.acquire();
        const stop = performance.now() + 400;
        while (performance.now() < stop);
        assert.throws(() => held.check(), is(LockLost, { why: "expired" }));
        assert(held.signal.aborted);
        await assert.rejects(held.release(), is(LockLost));
        await until("it is free", async () => !(await lock.locked()));
      }));

    test("aborted at each step: before, while asking, queued, and in the moment of the grant", () =>
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
        for (let turn = 0; turn < 20; turn++) {
          const stop = new AbortController();
          const acquired = lock.acquire({ signal: stop.signal });
          await until("it waits", async () => (await waiters(raw, lock.name)) === 1);
          stop.abort(reason);
          await assert.rejects(acquired, reason);
          await until("nobody waits", async () => (await waiters(raw, lock.name)) === 0);
        }
        holder.check();
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

    test("500 waits on one link, first come, first served", () =>
      using({ name: "crowd" }, async (client) => {
        const lock = client.lock(fresh());
        const held = await lock.acquire();
        const order = [];
        const all = Array.from({ length: 500 }, (_, number) => lock.run(() => order.push(number)));
        await until("all wait", async () => (await waiters(raw, lock.name)) === 500);
        const clients = await raw.send("CLIENT", "LIST");
        assert.equal(clients.split("\n").filter((line) => line.includes("name=crowd@")).length, 2);
        await held.release();
        await Promise.all(all);
        assert.deepEqual(
          order,
          Array.from({ length: 500 }, (_, number) => number),
        );
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

    test("nothing of a client is left on the server after close()", async () => {
      const client = await driver.connect(server.url, { name: "leaver" });
      await (await client.lock(fresh()).acquire()).release();
      await client.close();
      await until("its connections are gone", async () => !(await raw.send("CLIENT", "LIST")).includes("name=leaver@"));
    });

    test("bad input gets a clear error", () =>
      using({}, async (client) => {
        const name = fresh();
        const lock = client.lock(name);
        const wrong = [
          () => client.lock(7),
          () => client.lock(name, { lease: 0 }),
          () => client.lock(name, { lease: "30s" }),
          () => client.lock(name, { wait: -1 }),
          () => client.lock(name, { wait: NaN }),
          () => client.lock(name, { owner: "" }),
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

    test("two clients never share an owner", async () => {
      const all = await Promise.all([1, 2].map(() => driver.connect(server.url)));
      const lock = fresh();
      const held = await all[0].lock(lock).acquire();
      await assert.rejects(all[1].lock(lock).tryAcquire(), is(Denied));
      assert.notEqual(all[0].identity, all[1].identity);
      await held.release();
      await Promise.all(all.map((client) => client.close()));
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
