// Servers that are demoted while they run: the clients leave them, and no lock has two holders. With both drivers.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createConnection, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, test } from "node:test";
import { Raw, answers, drivers, freePort, packages, parse, sleep, stall, start, startServer, until } from "./kit.mjs";

const unhandled = [];
process.on("unhandledRejection", (error) => unhandled.push(error));
after(() => assert.deepEqual(unhandled, []));

const { ioredis, redis } = packages;
const BEHIND = [
  { name: "ioredis", connect: (nodes, options) => ioredis.Client.connect({ sentinels: nodes, name: "locks" }, options) },
  {
    name: "node-redis",
    connect: (nodes, options) =>
      redis.Client.connect({ sentinelRootNodes: nodes, name: "locks", sentinelClientOptions: { RESP: 2 } }, options),
  },
];

/** Connects, with more than one try where the machine is so busy that a Sentinel answers too late. */
async function connected(connect, nodes, options) {
  let client;
  const tried = async () => {
    try {
      return (client = await connect(nodes, options));
    } catch (error) {
      if (error.name !== "Unreachable") throw error;
      return false;
    }
  };
  await until("a connection", tried, 20_000);
  return client;
}

/** What a server or a Sentinel says, on a connection of its own: the servers cut those of others in a fail-over. */
async function ask(port, ...words) {
  const raw = new Raw(port);
  const reply = await Promise.race([raw.send(...words), sleep(500)]);
  raw.close();
  return reply;
}

/** A Sentinel that answers as the test sets it, after some time. */
async function teller(says) {
  const bulks = (...words) => `*${words.length}\r\n${words.map((word) => `$${String(word).length}\r\n${word}\r\n`).join("")}`;
  const reply = ([command, what]) => {
    if (command === "SUBSCRIBE") return `*3\r\n$9\r\nsubscribe\r\n$${what.length}\r\n${what}\r\n:1\r\n`;
    if (command !== "SENTINEL") return command === "HELLO" ? "*0\r\n" : "+OK\r\n";
    if (what === "MASTER") return bulks("config-epoch", says.epoch);
    return what === "SENTINELS" ? "*0\r\n" : bulks("127.0.0.1", says.port);
  };
  const sockets = new Set();
  const server = createServer((socket) => {
    sockets.add(socket);
    let text = "";
    let last = Promise.resolve();
    socket.setEncoding("latin1").on("error", () => undefined);
    socket.on("data", (data) => {
      text += data;
      for (let parsed = parse(text, 0); parsed; parsed = parse(text, 0)) {
        text = text.slice(parsed[1]);
        const [command, ...more] = parsed[0];
        const words = [command.toUpperCase(), ...more];
        last = last.then(() => sleep(words[1] === "MASTER" ? says.late : 0)).then(() => socket.write(reply(words)));
      }
    });
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const close = () => {
    server.close();
    for (const socket of sockets) socket.destroy();
  };
  return { says, close, node: { host: "127.0.0.1", port: server.address().port } };
}

/** Two servers, and Sentinels that all name the first one. */
async function tellers(count) {
  const [first, second] = [await startServer(), await startServer()];
  const all = await Promise.all(Array.from({ length: count }, () => teller({ epoch: 1, port: first.port, late: 0 })));
  const stop = async () => {
    for (const { close } of all) close();
    await Promise.all([first.stop(), second.stop()]);
  };
  const has = async (server, name) => String(await ask(server.port, "CLIENT", "LIST")).split(`name=${name}@`).length - 1;
  return { first, second, all, nodes: all.map(({ node }) => node), stop, has };
}

const field = (reply, name) => reply?.[reply.indexOf(name) + 1];

/** A primary, its replica, and three Sentinels. */
async function service() {
  const first = await startServer("--repl-diskless-sync-delay", "0");
  const second = await startServer("--repl-diskless-sync-delay", "0", "--replicaof", `127.0.0.1 ${first.port}`);
  const watchers = [];
  const watch = async (...more) => {
    const port = await freePort();
    const dir = mkdtempSync(join(tmpdir(), "rlock-js-sentinel-"));
    const file = join(dir, "sentinel.conf");
    const settings = `sentinel monitor locks 127.0.0.1 ${first.port} 2\nsentinel down-after-milliseconds locks 5000\n`;
    const lines = [`port ${port}\nbind 127.0.0.1\ndir ${dir}\n${settings}sentinel failover-timeout locks 20000`, ...more];
    writeFileSync(file, `${lines.join("\n")}\n`);
    watchers.push({ port, dir, process: start([file, "--sentinel"], { stdio: "ignore" }) });
    await until("the Sentinel answers", () => answers(port), 10_000);
    return { host: "127.0.0.1", port };
  };
  for (let number = 0; number < 3; number++) await watch();
  for (const { port } of watchers) {
    const known = async () => {
      const told = await ask(port, "SENTINEL", "MASTER", "locks");
      return field(told, "num-slaves") === "1" && field(told, "num-other-sentinels") === "2";
    };
    await until("the Sentinels know each other", known, 20_000);
  }
  const names = (port) => async () => (await ask(port, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "locks"))?.[1] === String(second.port);
  return {
    first,
    second,
    watchers,
    watch,
    nodes: watchers.map(({ port }) => ({ host: "127.0.0.1", port })),
    // A Sentinel that knows a replica and has no connection to it yet refuses. An answer may come too late to be heard.
    failOver: () =>
      until("a fail-over begins", async () => /OK|INPROG/.test(await ask(watchers[2].port, "SENTINEL", "FAILOVER", "locks")), 20_000),
    promoted: () => until("it is the primary", async () => (await ask(second.port, "ROLE"))?.[0] === "master", 20_000),
    named: async (...those) => {
      for (const { port } of those) await until("the Sentinel names it", names(port), 20_000);
    },
    stop: async () => {
      for (const { process: one, dir } of watchers) {
        one.kill("SIGKILL");
        rmSync(dir, { recursive: true, force: true });
      }
      await Promise.all([first.stop(), second.stop()]);
    },
  };
}

describe("behind Sentinels", { timeout: 240_000 }, () => {
  test("a planned fail-over: nothing is lost, and no second owner is granted the lock", async () => {
    const all = await service();
    const clients = await Promise.all(BEHIND.map(({ connect }) => connected(connect, all.nodes, { lease: 3_000 })));
    const held = await Promise.all(clients.map((client, number) => client.lock(`a${number}`).acquire()));
    const waiting = clients.map((client, number) => client.lock(`a${1 - number}`).acquire({ timeout: 30_000 }));
    await until("they wait", async () => field(await ask(all.first.port, "RLOCK.INFO", "a0"), "waiter-count") === 1);
    await until("they wait", async () => field(await ask(all.first.port, "RLOCK.INFO", "a1"), "waiter-count") === 1);
    await all.failOver();
    await all.promoted();
    const start = performance.now();
    for (const name of ["a0", "a1"])
      await until("they wait at the new one", async () => field(await ask(all.second.port, "RLOCK.INFO", name), "waiter-count") === 1);
    const moved = performance.now() - start;
    const other = await ioredis.Client.connect(all.second.url);
    const end = performance.now() + 6_000;
    while (performance.now() < end) {
      for (const name of ["a0", "a1"]) await assert.rejects(other.lock(name).tryAcquire(), { name: "Denied" });
      for (const each of held) each.check();
      await sleep(200);
    }
    assert(moved < 3_000 + stall(), `moved after ${moved} ms`);
    for (const each of held) await each.release();
    for (const each of await Promise.all(waiting)) await each.release();
    await until("they are free", async () => (await ask(all.second.port, "EXISTS", "a0", "a1")) === 0);
    await Promise.all([...clients, other].map((client) => client.close()));
    await all.stop();
  });

  test("a Sentinel that was cut off is outvoted, also where it is the only one in the settings", async () => {
    const all = await service();
    // It can neither publish nor subscribe, on the servers and at the others: they never hear of it, nor it of the fail-over.
    for (const { port } of all.watchers) assert.equal(await ask(port, "ACL", "SETUSER", "default", "-publish"), "OK");
    for (const { port } of [all.first, all.second]) await ask(port, "ACL", "SETUSER", "blind", "on", ">p", "~*", "+@all", "-@pubsub");
    const known = await Promise.all(
      all.watchers.map(async ({ port }) => `sentinel known-sentinel locks 127.0.0.1 ${port} ${await ask(port, "SENTINEL", "MYID")}`),
    );
    const stale = await all.watch("sentinel auth-user locks blind", "sentinel auth-pass locks p", ...known);
    await all.failOver();
    await all.promoted();
    await all.named(...all.watchers.slice(0, 3));
    for (const { name, connect } of BEHIND) {
      for (const nodes of [[stale], [stale, ...all.nodes]]) {
        const client = await connected(connect, nodes, { lease: 3_000 });
        const held = await client.lock(name).acquire({ timeout: 5_000 });
        assert.equal(await ask(all.second.port, "EXISTS", name), 1);
        assert.equal((await ask(stale.port, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "locks"))[1], String(all.first.port));
        await held.release();
        await client.close();
      }
    }
    await all.stop();
  });

  // What was said too late for a connection was believed all the same: the client stayed at a server that it knew was replaced.
  test("a Sentinel that answers late is heard", async () => {
    const { first, second, all, nodes, stop, has } = await tellers(3);
    for (const { name, connect } of BEHIND) {
      for (const { says } of all) Object.assign(says, { epoch: 1, port: first.port, late: 0 });
      const client = await connect(nodes, { name, lease: 3_000 });
      await client.lock(name).acquire();
      Object.assign(all[2].says, { epoch: 2, port: second.port, late: 300 });
      await ask(first.port, "CLIENT", "KILL", "TYPE", "normal");
      await until("both are at the new one", async () => (await has(second, name)) === 2);
      await sleep(1_500);
      assert.deepEqual([await has(first, name), await has(second, name)], [0, 2]);
      await client.close().catch(() => undefined);
    }
    await stop();
  });

  // The first wait opens the second connection: that one went to the new primary, and the first one stayed at the old.
  test("both connections are at the same server", async () => {
    const { first, second, all, nodes, stop, has } = await tellers(1);
    for (const { name, connect } of BEHIND) {
      const [{ says }] = all;
      Object.assign(says, { epoch: 1, port: first.port });
      const client = await connect(nodes, { name, lease: 30_000 });
      Object.assign(says, { epoch: 2, port: second.port });
      const held = await client.lock(name).acquire({ timeout: 5_000 });
      assert.equal(await ask(second.port, "EXISTS", name), 1);
      await until("both are there", async () => (await has(second, name)) === 2 && (await has(first, name)) === 0, 500);
      held.check();
      await client.close().catch(() => undefined);
    }
    await stop();
  });

  test("a hung Sentinel keeps no caller waiting, and nothing is left at the others", async () => {
    const all = await service();
    all.watchers[0].process.kill("SIGSTOP");
    for (const { connect } of BEHIND) {
      const start = performance.now();
      const client = await connect(all.nodes, { name: "mine" });
      await client.lock("a").run(() => undefined);
      assert(performance.now() - start < 1_500 + stall(), `${performance.now() - start} ms`);
      const mine = async (port) => String(await ask(port, "CLIENT", "LIST")).split("name=mine@").length - 1;
      await until("they are named", async () => (await mine(all.watchers[1].port)) === 2);
      await client.close();
      await until("nothing is left", async () => (await mine(all.watchers[1].port)) === 0);
    }
    all.watchers[0].process.kill("SIGCONT");
    await all.stop();
  });
});

// node-redis writes the address of a URL into the settings: two clients with one object for their sockets led to one server.
test("node-redis: settings are not changed", { timeout: 30_000 }, async () => {
  const server = await startServer();
  const socket = Object.freeze({ keepAlive: true });
  const client = await redis.Client.connect({ url: `redis://127.0.0.1:${String(server.port)}`, socket });
  await client.close();
  await server.stop();
});

// It connected all the same, and stayed open: no name, no time limit, and the process did not end.
test("node-redis: a connection that is given up while it is made ends", { timeout: 30_000 }, async () => {
  const server = await startServer();
  let late = 0;
  const lookup = (_, options, found) =>
    setTimeout(() => (options.all ? found(null, [{ address: "127.0.0.1", family: 4 }]) : found(null, "127.0.0.1", 4)), late);
  const client = await redis.Client.connect({ socket: { host: "server.invalid", port: server.port, lookup } });
  late = 300;
  await ask(server.port, "CLIENT", "KILL", "TYPE", "normal");
  await sleep(100);
  await client.close();
  await sleep(600);
  assert.equal((await ask(server.port, "CLIENT", "LIST")).trim().split("\n").length, 1);
  await server.stop();
});

for (const driver of await drivers()) {
  describe(driver.name, { timeout: 120_000 }, () => {
    test("an address that moves: the demoted server is left, and the address asked anew", async () => {
      const first = await startServer("--repl-diskless-sync-delay", "0");
      const second = await startServer("--repl-diskless-sync-delay", "0", "--replicaof", `127.0.0.1 ${first.port}`);
      await until("it replicates", async () => String(await ask(first.port, "INFO", "replication")).includes("state=online"), 20_000);
      let target = first.port;
      const way = createServer((socket) => {
        const server = createConnection({ port: target, host: "127.0.0.1" });
        for (const [one, other] of [
          [socket, server],
          [server, socket],
        ])
          one.on("error", () => undefined).on("close", () => other.destroy());
        socket.pipe(server).pipe(socket);
      });
      await new Promise((done) => way.listen(0, "127.0.0.1", done));
      const events = [];
      const options = { lease: 10_000, onEvent: (event) => events.push(event) };
      const client = await driver.connect(`redis://127.0.0.1:${way.address().port}`, options);
      const held = await client.lock("a").acquire();
      const waiting = client.lock("a").acquire({ timeout: 30_000 });
      await until("it waits", async () => field(await ask(first.port, "RLOCK.INFO", "a"), "waiter-count") === 1);
      await ask(first.port, "FAILOVER");
      await until("it is demoted", async () => (await ask(first.port, "ROLE"))?.[0] === "slave", 10_000);
      // The address still leads to the old one: that is said, and no refusal.
      await assert.rejects(client.lock("b").tryAcquire(), (error) => error.name === "Unreachable" && /is a replica/.test(error.message));
      await assert.rejects(client.lock("b").acquire({ timeout: 500 }), (error) => {
        assert.match(error.message, /is a replica/);
        return error.name === "Timeout" && error.cause.name === "Unreachable";
      });
      target = second.port;
      await until("it waits at the new one", async () => field(await ask(second.port, "RLOCK.INFO", "a"), "waiter-count") === 1);
      held.check();
      await held.release();
      await (await waiting).release();
      assert(!events.some(({ type }) => type === "lost"));
      await client.close();
      way.close();
      await Promise.all([first.stop(), second.stop()]);
    });

    for (const [what, said] of [
      ["kill", /connection refused|closed/],
      ["pause", /no reply|no connection|does not answer/],
    ]) {
      test(`the caller's own limit wins when the server ends: ${what}`, async () => {
        const server = await startServer();
        const client = await driver.connect(server.url, { lease: 30_000 });
        const [lock, other] = [client.lock("a"), await client.lock("b").acquire()];
        const at = `127.0.0.1:${server.port}`;
        const ends = async (limit, work, check) => {
          const start = performance.now();
          await assert.rejects(work(), check);
          assert(performance.now() - start < limit + 1_000 + stall(), `${performance.now() - start} ms`);
        };
        const unknown = (error) => error.name === "OutcomeUnknown" && error.message.includes(at) && error.cause.name === "Unreachable";
        await ends(2_000, () => lock.run(() => server[what]()), unknown);
        const out = (error) => error.name === "Unreachable" && error.message.includes(at) && said.test(error.message);
        await ends(2_000, () => lock.tryAcquire(), out);
        for (const call of ["info", "locked", "forceRelease"]) await ends(2_000, () => lock[call](), out);
        const timeout = (error) => error.name === "Timeout" && error.message.includes(at) && error.cause.name === "Unreachable";
        await ends(4_000, () => lock.acquire({ timeout: 4_000 }), timeout);
        await ends(300, () => lock.acquire({ signal: AbortSignal.timeout(300) }), { name: "TimeoutError" });
        other.check();
        await ends(2_000, () => client.close(), { name: "Unflushed" });
        await server.stop();
      });
    }
  });
}
