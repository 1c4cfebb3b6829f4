// What goes wrong between a client and its server, with both drivers.
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { createConnection, createServer } from "node:net";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { promisify } from "node:util";
import { Raw, drivers, freePort, packages, sleep, startServer, until, waiters } from "./kit.mjs";

const { ModuleMissing, Permission, Timeout, Unreachable } = packages.ioredis;
const is = (Class, more = {}) => ({ name: Class.name, ...more });

const unhandled = [];
process.on("unhandledRejection", (error) => unhandled.push(error));
after(() => assert.deepEqual(unhandled, []));

/** Passes bytes on, and cuts, holds or swallows them when told. */
async function proxy(port) {
  const sockets = new Set();
  const state = { swallow: undefined, refuse: false, seen: "" };
  const listener = createServer((socket) => {
    if (state.refuse) return socket.destroy();
    const server = createConnection({ port, host: "127.0.0.1" });
    sockets.add(socket);
    for (const [from, to] of [
      [socket, server],
      [server, socket],
    ]) {
      from.on("error", () => undefined);
      from.on("close", () => {
        sockets.delete(socket);
        to.destroy();
      });
    }
    let eats = false;
    socket.on("data", (data) => {
      state.seen += data;
      // The reply to this command is lost.
      if (state.swallow && String(data).includes(state.swallow)) eats = true;
      server.write(data);
    });
    server.on("data", (data) => (eats ? undefined : socket.write(data)));
  });
  await new Promise((done) => listener.listen(0, "127.0.0.1", done));
  return Object.assign(state, {
    url: `redis://127.0.0.1:${listener.address().port}`,
    cut: () => sockets.forEach((socket) => socket.destroy()),
    close: () => {
      sockets.forEach((socket) => socket.destroy());
      listener.close();
    },
  });
}

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

const PACE = { lease: 3_000, responseTimeout: 500 };

for (const driver of await drivers()) {
  describe(driver.name, { timeout: 120_000 }, () => {
    let number = 0;
    const fresh = () => `${driver.name}:${++number}`;
    const through = async (work, options = {}) => {
      const way = await proxy(server.port);
      const events = [];
      let client;
      try {
        client = await driver.connect(way.url, { ...PACE, onEvent: (event) => events.push(event), ...options });
        await work(client, way, events);
      } finally {
        server.resume();
        way.swallow = undefined;
        way.refuse = false;
        await client?.close().catch(() => undefined);
        way.close();
      }
    };

    test("connections that are cut while a lock is held: it stays held, and is renewed at once", () =>
      through(async (client, way, events) => {
        const held = await client.lock(fresh()).acquire();
        for (let turn = 0; turn < 5; turn++) {
          way.cut();
          await sleep(100);
          held.check();
        }
        await until("it is renewed", () => events.some((event) => event.type === "renewed"), 900);
        await until("it is told", () => events.some((event) => event.type === "reconnected" && event.after > 0));
        assert(events.some((event) => event.type === "disconnected"));
        await held.release();
      }));

    test("atLeast, and the lock was taken: a late grant is released", () =>
      through(async (client) => {
        const lock = client.lock(fresh(), { atLeast: 60_000 });
        await raw.send("RLOCK.ACQUIRE", lock.name, "other", "60000");
        const waiting = lock.acquire();
        await until("it waits", async () => (await waiters(raw, lock.name)) === 1);
        await raw.send("RLOCK.RELEASE", lock.name, "other");
        const held = await waiting;
        await raw.send("RLOCK.FORCERELEASE", lock.name);
        await assert.rejects(held.release(), { name: "LockLost" });
        await raw.send("RLOCK.ACQUIRE", lock.name, held.owner, "60000");
        for (const channel of await raw.send("PUBSUB", "CHANNELS", "rlock:grants:*")) {
          await raw.send("PUBLISH", channel, `granted 0 ${held.owner} ${encodeURIComponent(lock.name)} 1 60000 0`);
        }
        await until("it is released", async () => (await raw.send("EXISTS", lock.name)) === 0, 1_500);
      }));

    test("heartbeats of a session are not put off by others that begin", () =>
      through(async (client) => {
        const held = await client.lock(fresh(), { lease: 30_000, sessionGrace: 1_500 }).acquire();
        const end = performance.now() + 3_000;
        while (performance.now() < end) {
          await client.lock(fresh(), { sessionGrace: 1_500 }).run(() => sleep(20));
          held.check();
        }
        await held.release();
      }));

    test("connections that are cut while waiting: the wait goes on in its place", () =>
      through(async (client, way) => {
        const lock = client.lock(fresh());
        await raw.send("RLOCK.ACQUIRE", lock.name, "other", "60000");
        const waiting = lock.acquire();
        await until("it waits", async () => (await waiters(raw, lock.name)) === 1);
        for (let turn = 0; turn < 3; turn++) {
          way.cut();
          await sleep(150);
        }
        // Granted while nobody hears of it: the repeated request gets it.
        way.refuse = true;
        way.cut();
        await raw.send("RLOCK.RELEASE", lock.name, "other");
        await sleep(100);
        way.refuse = false;
        const held = await waiting;
        held.check();
        await held.release();
        assert.equal(await raw.send("EXISTS", lock.name), 0);
      }));

    test("several locks: the caller's own limit and signal win while the server stands still", () =>
      through(
        async (client) => {
          const names = [fresh(), fresh()].sort();
          await raw.send("RLOCK.ACQUIRE", names[1], "other", "60000");
          const stop = new AbortController();
          const ends = [
            [{ timeout: 1_500 }, is(Timeout)],
            [{ signal: stop.signal }, { name: "AbortError" }],
          ];
          for (const [options, error] of ends) {
            const waiting = client.lockAll(names).acquire(options);
            const ended = assert.rejects(waiting, error);
            await until("it waits", async () => (await waiters(raw, names[1])) === 1);
            server.pause();
            const start = performance.now();
            if (options.signal) stop.abort();
            await ended;
            assert(performance.now() - start < 8_000, `${performance.now() - start} ms`);
            server.resume();
            await until("nothing is left", async () => (await raw.send("EXISTS", names[0])) + (await waiters(raw, names[1])) === 0);
          }
        },
        { lease: 60_000, responseTimeout: 10_000 },
      ));

    test("a server that accepts and never answers: attempts to connect do not pile up, and end with the client", async () => {
      const other = await startServer();
      const sockets = () => process.getActiveResourcesInfo().filter((name) => name === "TCPSocketWrap" || name === "TCPConnectWrap").length;
      const before_ = sockets();
      const client = await driver.connect(other.url, { lease: 1_200, responseTimeout: 300 });
      const held = await client.lock("a").acquire();
      other.pause();
      let most = 0;
      for (let turn = 0; turn < 60; turn++) {
        await sleep(50);
        most = Math.max(most, sockets() - before_);
      }
      assert(most <= 6, `${most} sockets`);
      assert(held.signal.aborted);
      await client.close({ timeout: 100 }).catch(() => undefined);
      await until("nothing is left", () => sockets() <= before_);
      await other.stop();
    });

    test("a half-open subscription does not end a wait", () =>
      through(async (client, way) => {
        const lock = client.lock(fresh());
        await raw.send("RLOCK.ACQUIRE", lock.name, "other", "60000");
        // From now on nothing comes back on the connection for messages.
        way.swallow = "SUBSCRIBE";
        const waiting = lock.acquire();
        await sleep(1_000);
        way.swallow = undefined;
        await until("it waits", async () => (await waiters(raw, lock.name)) === 1);
        await raw.send("RLOCK.RELEASE", lock.name, "other");
        await (await waiting).release();
      }));

    test("what is wrong with a server or a user is said at once", async () => {
      const refused = `redis://127.0.0.1:${await freePort()}`;
      await assert.rejects(driver.connect(refused), is(Unreachable));
      await assert.rejects(driver.connect("redis://nobody:wrong@127.0.0.1:" + server.port), is(Permission));
      const plain = await startServer("--without-module");
      await assert.rejects(driver.connect(plain.url), is(ModuleMissing));
      await plain.stop();
      const locked = await startServer("--requirepass", "secret");
      await assert.rejects(driver.connect(locked.url), is(Permission));
      const admitted = await driver.connect(`redis://default:secret@127.0.0.1:${locked.port}`);
      await admitted.lock("a").run(() => undefined);
      await admitted.close();
      await locked.stop();
    });

    test("a user who may lock and not wait: the error names the rule", async () => {
      const named = ["acquire", "release", "renew", "cancel", "info"].map((name) => `+rlock.${name}`);
      const user = `${driver.name.split(" ")[0]}-user`;
      await raw.send("ACL", "SETUSER", user, "on", ">pw", "~*", "+ping", "+info", "resetchannels", ...named);
      const client = await driver.connect(`redis://${user}:pw@127.0.0.1:${server.port}`);
      await (await client.lock(fresh()).tryAcquire()).release();
      await assert.rejects(
        client.lock(fresh()).acquire(),
        (error) => error.name === "Permission" && /\+subscribe \+pubsub\|numsub &rlock:grants:\*/.test(error.message),
      );
      await raw.send("ACL", "SETUSER", user, "+subscribe", "+pubsub|numsub", "&rlock:grants:*");
      await client.lock(fresh()).run(() => undefined);
      await client.close();
    });

    test("a user who may not ask for its subscription: the connection is not made again and again", async () => {
      const user = `${driver.name.split(" ")[0]}-deaf`;
      await raw.send("ACL", "SETUSER", user, "on", ">pw", "~*", "&*", "+@all", "-pubsub|numsub");
      const client = await driver.connect(`redis://${user}:pw@127.0.0.1:${server.port}`);
      await assert.rejects(client.lock(fresh()).acquire(), is(Permission));
      const made = async () => Number(/total_connections_received:(\d+)/.exec(await raw.send("INFO", "stats"))[1]);
      const start = await made();
      await sleep(1_000);
      assert((await made()) - start < 12, `${(await made()) - start} connections in a second`);
      await client.close();
    });

    test("a lock whose lease is shorter than the client's outlives a silent connection", () =>
      through(
        async (client, way) => {
          const held = await client.lock(fresh(), { lease: 1_500 }).acquire();
          Object.assign(way, { seen: "", swallow: "RLOCK.RENEW" });
          await until("it is renewed", () => way.seen.includes("RLOCK.RENEW"));
          way.swallow = undefined;
          await sleep(2_000);
          held.check();
          await held.release();
        },
        { lease: 30_000, responseTimeout: 5_000 },
      ));

    test("a script that forgets close() ends by itself, unless it holds or waits", async () => {
      const entry = driver.name.startsWith("ioredis") ? "ioredis" : "node-redis";
      const script = (body) => `
        import { Client } from "rlock-client/${entry}";
        const client = await Client.connect("${server.url}");
        const lock = client.lock("${fresh()}");
        ${body}`;
      const run = (body, timeout) =>
        promisify(execFile)(process.execPath, ["--input-type=module", "-e", script(body)], {
          cwd: join(import.meta.dirname, ".."),
          timeout,
        });
      const { stdout } = await run(`console.log(await lock.run(() => "done")); await lock.info();`, 5_000);
      assert.equal(stdout, "done\n");
      await assert.rejects(run("await lock.acquire();", 1_500), { killed: true });
      const exits = run("const held = await lock.acquire(); setTimeout(() => process.exit(3), 100); await lock.acquire();", 5_000);
      await assert.rejects(exits, { code: 3 });
    });

    test("a process ends by itself after close(), whatever is released or waited for then", async () => {
      const entry = driver.name.startsWith("ioredis") ? "ioredis" : "node-redis";
      const way = await proxy(server.port);
      // A lost lock that is released; and a named owner that waits for the end of its own release, which never comes.
      const script = `
        import { Client } from "rlock-client/${entry}";
        const client = await Client.connect("${way.url}", { lease: 60_000 });
        const forgotten = await client.lock("${fresh()}").acquire();
        const named = client.lock("${fresh()}", { owner: "cron" });
        const held = await named.acquire();
        console.log("held");
        await new Promise((done) => process.stdin.once("data", done));
        held.release().catch((error) => console.log(error.name));
        const waiting = named.acquire({ timeout: 60_000 }).catch((error) => console.log(error.name));
        await client.close({ timeout: 100 }).catch((error) => console.log(error.name));
        await forgotten.release().catch((error) => console.log(error.name));
        await waiting;
        process.stdin.destroy();`;
      const child = spawn(process.execPath, ["--input-type=module", "-e", script], {
        cwd: join(import.meta.dirname, ".."),
        timeout: 20_000,
      });
      let said = "";
      child.stdout.on("data", (data) => (said += data));
      await until("it holds", () => said === "held\n", 10_000);
      way.swallow = "RLOCK.RELEASE";
      child.stdin.write("go\n");
      assert.deepEqual(await once(child, "exit"), [0, null]);
      assert.deepEqual(said.trim().split("\n").sort(), ["Closed", "LockLost", "OutcomeUnknown", "Unflushed", "held"]);
      way.close();
    });

    test("a signal in the middle: work and waits end, the lock is free, and the process ends by itself", async () => {
      const entry = driver.name.startsWith("ioredis") ? "ioredis" : "node-redis";
      const [name, taken] = [fresh(), fresh()];
      const script = `
        import { Client } from "rlock-client/${entry}";
        const client = await Client.connect("${server.url}");
        process.once("SIGTERM", () => client.close());
        const waiting = client.lock("${taken}").acquire().catch((error) => console.log(error.message));
        await client
          .lock("${name}")
          .run(async (held) => {
            console.log("held");
            await new Promise((done) => held.signal.addEventListener("abort", done));
          })
          .catch((error) => console.log(error.message));
        await waiting;`;
      await raw.send("RLOCK.ACQUIRE", taken, "other", "60000");
      const child = spawn(process.execPath, ["--input-type=module", "-e", script], {
        cwd: join(import.meta.dirname, ".."),
        timeout: 20_000,
      });
      let said = "";
      child.stdout.on("data", (data) => (said += data));
      await until("it holds", () => said === "held\n", 10_000);
      await until("it waits", async () => (await waiters(raw, taken)) === 1);
      child.kill("SIGTERM");
      assert.deepEqual(await once(child, "exit"), [0, null]);
      assert.match(said, /this client was closed; create a new one/);
      assert.match(said, /was lost: its client was closed; stop the work and check its results/);
      assert.equal(await raw.send("EXISTS", name), 0);
      assert.equal(await waiters(raw, taken), 0);
    });
  });
}
