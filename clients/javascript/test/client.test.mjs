// What needs no server, and what a stranger would try.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { Clock } from "../dist/esm/clock.js";
import { Timers } from "../dist/esm/timers.js";
import { slotOf } from "../dist/esm/cluster.js";
import { endpoint, failure, info, message, ServerError } from "../dist/esm/wire.js";
import { Raw, packages, sleep, startServer, until } from "./kit.mjs";

const { Client } = packages.ioredis;
let server;
before(async () => (server = await startServer()));
after(() => server.stop());

const unhandled = [];
process.on("unhandledRejection", (error) => unhandled.push(error));
after(() => assert.deepEqual(unhandled, []));

test("the clock goes on in suspend, and never back", () => {
  let precise = 1_000;
  let coarse = 5_000;
  const clock = new Clock(
    () => precise,
    () => Math.floor(coarse / 10) * 10,
  );
  let last = clock.now();
  for (let step = 0; step < 1_000; step++) {
    precise += 3.3;
    coarse += 3.3 + (step === 500 ? 60_000 : 0);
    const now = clock.now();
    assert(now >= last);
    last = now;
  }
  assert(last > 1_000 + 3_300 + 59_980 && last < 1_000 + 3_300 + 60_020, String(last));
  assert.equal(clock.slack, 20);
  assert.equal(new Clock(() => 1, undefined).now(), 1);
});

test("4,000 wake-ups at one moment: none too early, all as soon as they can, and the loop is kept for 10 ms at a time", (t) => {
  let now = 0;
  let next;
  t.mock.method(globalThis, "setTimeout", (act, ms) => (next = { act, at: now + ms }));
  const timers = new Timers({ now: () => now });
  const woken = [];
  for (let number = 0; number < 4_000; number++) {
    const wakeAt = 2_000 + (number % 2);
    const tick = () => {
      assert(now >= wakeAt);
      now += 0.25;
      woken.push(number);
      timers.leave(each);
    };
    const each = { place: -1, wakeAt, machine: { phase: "queued" }, tick };
    timers.enter(each);
  }
  let longest = 0;
  while (woken.length < 4_000) {
    const { act, at } = next;
    now = Math.max(now, at);
    const began = now;
    act();
    longest = Math.max(longest, now - began);
  }
  assert.equal(new Set(woken).size, 4_000);
  assert(longest < 11, `${longest} ms`);
  assert(now < 2_000 + 1_000 + 2, `at ${now}`);
});

test("messages are read, and unknown ones skipped", () => {
  const told = (notice, lock, owner, mode = "", lease = 0, token = 0) => ({ notice, claim: { owner, lock, mode }, lease, token });
  assert.deepEqual(message("granted 0 me:1 invoice:7 1 5000 9"), told("granted", "invoice:7", "me:1", "", 5_000, 9));
  assert.deepEqual(message("granted 3 a%20b%25 %C3%BC{x} 1 1 0 read more"), told("granted", "ü{x}", "a b%", "READ", 1));
  assert.deepEqual(message("timeout 0 me:1 k write"), told("timeout", "k", "me:1", "WRITE"));
  assert.deepEqual(message("dropped 0 me:1 k moved read"), told("dropped", "k", "me:1", "READ"));
  for (const other of ["later 0 me:1 k", "granted 0 me:1", "granted 0 m%2 k", "granted 0 m%zz k", "granted 0 %FF k 1 1 0", ""]) {
    assert.equal(message(other), undefined, other);
  }
});

test("URLs of several servers and of sockets", () => {
  const read = (url) => {
    const { kind, nodes, name, tls, database, access } = endpoint(url);
    return [kind, nodes.map(({ host, port }) => `${host} ${port}`).join(), name, tls, database, ...Object.values(access)];
  };
  assert.deepEqual(read("redis+sentinel://u:p%40@a:1,b/main/3"), ["sentinel", "a 1,b 26379", "main", false, 3, "u", "p@"]);
  assert.deepEqual(read("valkeys+cluster://:p@[::1]:7,b"), ["cluster", "::1 7,b 6379", "", true, 0, "p"]);
  assert.deepEqual(read("unix://u:p@/run/redis.sock?db=2").slice(2), ["/run/redis.sock", false, 2, "u", "p"]);
  assert.equal(endpoint("redis://a"), undefined);
  for (const url of [
    "redis+sentinel://a",
    "redis+cluster://",
    "redis+cluster:///",
    "unix://host/path",
    "redis+other://a",
    "redis+sentinel://a/b/c",
  ]) {
    assert.throws(
      () => endpoint(`${url}?x=secret`),
      (error) => error.name === "Invalid" && !error.message.includes("secret"),
    );
  }
});

test("keys have the slots that servers say", () => {
  // CLUSTER KEYSLOT of Redis 7.0.15.
  const known = { 123456789: 12_739, lock: 8_718, "{lock}2": 8_718, "a{b}c{d}": 3_300, "{}lock": 6_348, "{lock": 4_983, "": 0 };
  for (const [key, slot] of Object.entries(known)) assert.equal(slotOf(key), slot, key);
});

test("by a socket with a database, and by Valkey's URL", async () => {
  const socket = join(tmpdir(), `rlock-js-${process.pid}.sock`);
  const other = await startServer("--unixsocket", socket);
  const raw = new Raw(other.port);
  await raw.send("SELECT", "3");
  for (const [name, { Client: Any }] of Object.entries(packages)) {
    const client = await Any.connect(`unix://${socket}?db=3`);
    await client.lock(name).run(async () => assert.equal(await raw.send("EXISTS", name), 1));
    await client.close();
    const second = await Any.connect(`valkey://127.0.0.1:${other.port}/3`);
    await second.lock(name).run(async () => assert.equal(await raw.send("EXISTS", name), 1));
    await second.close();
  }
  raw.close();
  await other.stop();
});

test("replies of INFO in each shape that drivers have", () => {
  const holder = ["owner", "me", "mode", null, "holds", 1, "lease-ms", 5];
  const flat = ["kind", "mutex", "lease-ms", 5, "token", 0, "holder-count", 1, "waiter-count", 0, "holders", [holder], "queue", []];
  const pairs = (list) => list.flatMap((name, n) => (n % 2 === 0 ? [[name, list[n + 1]]] : []));
  const shaped = (make) =>
    make(pairs(flat).map(([name, value]) => [name, name === "holders" ? value.map((item) => make(pairs(item))) : value]));
  const expected = info(flat);
  assert.equal(expected.holders[0].owner, "me");
  assert.equal(expected.holderCount, 1);
  assert.deepEqual(info(shaped((list) => new Map(list))), expected);
  assert.deepEqual(info(shaped(Object.fromEntries)), expected);
  assert.equal(info(["kind", "none", "lease-ms", -2]).lease, null);
  for (const other of [null, "OK", 1, [], [1]]) assert.throws(() => info(other), { name: "Unsupported" });
});

test("errors of servers say whether to try again", () => {
  const kind = (text) => failure("a", new ServerError(text), "b:1").failure;
  assert.equal(kind("LOADING Redis is loading"), "passing");
  assert.equal(kind("READONLY You can't write"), "passing");
  assert.equal(kind("ERR the server is being drained: rlock.accept is no"), "draining");
  assert.equal(kind("WRONGLOCK it is"), "gone");
  const { error } = failure("a", new ServerError("ERR unknown command 'RLOCK.RENEW'"), "b:1");
  assert.deepEqual([error.name, error.server, error.message.includes("b:1")], ["ModuleMissing", "b:1", true]);
  assert.match(failure("a", new ServerError("MOVED 1 b:1"), "b:1").error.message, /cluster client/);
  assert.equal(failure("a", new Error("socket"), "b:1").failure, "unanswered");
});

test("a guard that is forgotten and collected keeps its lock, as the process lives", async () => {
  setFlagsFromString("--expose-gc");
  const gc = runInNewContext("gc");
  const client = await Client.connect(server.url, { lease: 900, responseTimeout: 500 });
  const lock = client.lock("forgotten");
  let collected = false;
  const registry = new FinalizationRegistry(() => (collected = true));
  await (async () => registry.register(await lock.acquire(), 1))();
  for (let turn = 0; turn < 20; turn++) {
    gc();
    await sleep(100);
  }
  assert.equal(collected, true);
  assert.equal(await lock.locked(), true);
  await assert.rejects(client.close({ timeout: 0 }), { name: "Unflushed" });
});

test("a hook that uses the client, and listeners that do", async () => {
  const seen = [];
  let held;
  const client = await Client.connect(server.url, {
    lease: 600,
    responseTimeout: 500,
    onEvent: async (event) => {
      seen.push(event.type);
      if (event.type === "lost") {
        await held.release().catch((error) => seen.push(error.why));
        await client.close();
        seen.push("closed");
      }
    },
  });
  held = await client.lock("hooked").acquire();
  held.signal.addEventListener("abort", () => {
    held.release().catch((error) => seen.push(error.why));
    client
      .lock("hooked")
      .tryAcquire()
      .catch(() => undefined);
  });
  await client.lock("hooked").forceRelease();
  await until("it is closed", () => seen.includes("closed"), 10_000);
  assert(seen.filter((word) => word === "taken").length === 2);
});

for (const { entry, peer, client } of [
  { entry: "ioredis", peer: "ioredis", client: "new old(URL, { lazyConnect: true })" },
  { entry: "node-redis", peer: "redis", client: "old.createClient({ url: URL })" },
]) {
  test(`a driver that is too old is named: ${entry} 4`, async () => {
    for (const target of ["URL", client]) {
      const script = `
        const URL = "${server.url}";
        const Module = require("node:module");
        const usual = Module._resolveFilename;
        Module._resolveFilename = (name, ...more) => usual(name === "${peer}" ? "${peer}-4" : name, ...more);
        const old = require("${peer}");
        const { Client } = require("rlock-client/${entry}");
        Client.connect(${target}).catch((error) => console.log(error.name + ": " + error.message));`;
      const { stdout } = await promisify(execFile)(process.execPath, ["-e", script], {
        cwd: join(import.meta.dirname, ".."),
        timeout: 10_000,
      });
      assert.equal(stdout, `Unsupported: this ${entry} is too old; update it to 5 or later\n`);
    }
  });
}

test("10,000 races of acquiring, aborting and releasing leave nothing behind", { timeout: 120_000 }, async () => {
  const client = await Client.connect(server.url);
  const raw = new Raw(server.port);
  const lock = client.lock("raced");
  let inside = 0;
  for (let round = 0; round < 100; round++) {
    await Promise.all(
      Array.from({ length: 100 }, async (_, number) => {
        const stop = new AbortController();
        if (number % 2) setTimeout(() => stop.abort(), number % 7);
        try {
          const held = await lock.acquire({ signal: stop.signal });
          inside += 1;
          assert.equal(inside, 1);
          held.check();
          inside -= 1;
          await held.release();
        } catch (error) {
          if (error.name !== "AbortError") throw error;
        }
      }),
    );
  }
  await until("nothing is left", async () => (await raw.send("DBSIZE")) === 0);
  const list = await raw.send("RLOCK.LIST", "0");
  assert.deepEqual(list[1], []);
  await client.close();
  raw.close();
});

test("a hold is tied to the connection that proves its life, by whatever link it is re-entered", async () => {
  const client = await Client.connect(server.url);
  const raw = new Raw(server.port);
  const lock = client.lock("re-entered", { sessionGrace: 5_000 });
  const tie = async () => (await lock.info()).holders[0]?.session;
  const held = await lock.acquire();
  const first = await tie();
  const { acquisition } = held;
  // As in a cluster where the slot moves while a command of the hold is under way.
  const other = new (client.link(lock.name).constructor)(client, client.driver.server);
  await other.settled;
  client.link = () => other;
  acquisition.machine.pending = -1;
  const inner = await held.reenter();
  // By another link it ended the tie. The answer to what was under way counts no more, and a renewal ties it anew.
  assert.notEqual(acquisition.machine.pending, -1);
  await until("it is tied anew", async () => (await tie()) === first);
  // The server is another one as soon as none is under way.
  await until("it follows", () => acquisition.follow() ?? acquisition.link === other);
  await until("it is tied to the other connection", async () => (await tie()) > first);
  const second = await tie();
  const innermost = await inner.reenter();
  assert.equal(await tie(), second);
  await raw.send("CLIENT", "KILL", "ID", String(second));
  await until("it is tied to the next connection", async () => (await tie().catch(() => 0)) > second);
  for (const guard of [innermost, inner, held]) await guard.release();
  delete client.link;
  assert.equal(await lock.locked(), false);
  other.close();
  await client.close();
  raw.close();
});
