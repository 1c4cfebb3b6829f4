// Several servers: Sentinels and a fail-over, and a cluster.
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createConnection, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { Raw, answers, freePort, oldest, packages, peers, sleep, start, startServer, until } from "./kit.mjs";

const unhandled = [];
process.on("unhandledRejection", (error) => unhandled.push(error));
after(() => assert.deepEqual(unhandled, []));

async function sentinel(primary) {
  const port = await freePort();
  const dir = mkdtempSync(join(tmpdir(), "rlock-js-sentinel-"));
  const file = join(dir, "sentinel.conf");
  const lines = [
    `port ${port}`,
    `dir ${dir}`,
    `sentinel monitor locks 127.0.0.1 ${primary} 1`,
    "sentinel down-after-milliseconds locks 1000",
  ];
  writeFileSync(file, `${lines.join("\n")}\nsentinel failover-timeout locks 5000\n`);
  const process_ = start([file, "--sentinel"], { stdio: "ignore" });
  await until("the Sentinel answers", () => answers(port), 10_000);
  const raw = new Raw(port);
  return {
    port,
    raw,
    stop: () =>
      new Promise((done) => {
        raw.close();
        process_.once("exit", () => done(rmSync(dir, { recursive: true, force: true })));
        process_.kill("SIGKILL");
      }),
  };
}

test("a fail-over by Sentinel: what is held stays held, what waits goes on waiting", { timeout: 120_000 }, async () => {
  const first = await startServer();
  const second = await startServer("--replicaof", `127.0.0.1 ${first.port}`);
  const look = new Raw(first.port);
  await until("it replicates", async () => (await look.send("INFO", "replication")).includes("state=online"), 20_000);
  const watch = await sentinel(first.port);
  await until("the Sentinel knows the replica", async () => (await watch.raw.send("SENTINEL", "REPLICAS", "locks")).length === 1, 20_000);

  // One Sentinel accepts and never answers.
  const silent = createServer().listen(0, "127.0.0.1");
  await once(silent, "listening");
  const nodes = [silent.address().port, watch.port].map((port) => ({ host: "127.0.0.1", port }));
  const clients = [
    await packages.ioredis.Client.connect({ sentinels: nodes, name: "locks" }, { lease: 20_000, responseTimeout: 2_000 }),
    await packages.redis.Client.connect({ sentinelRootNodes: nodes, name: "locks" }, { lease: 20_000, responseTimeout: 2_000 }),
  ];
  for (const { Client } of Object.values(packages)) {
    const client = await Client.connect(`redis+sentinel://127.0.0.1:${watch.port}/locks/2`);
    await client.lock("by:url").run(async () => {
      assert.equal(await look.send("SELECT", "2"), "OK");
      assert.equal(await look.send("EXISTS", "by:url"), 1);
      assert.equal(await look.send("SELECT", "0"), "OK");
    });
    await client.close();
  }
  const application = peers.redis.createSentinel({ name: "locks", sentinelRootNodes: nodes });
  const same = packages.redis.Client.connect(application);
  if ("duplicate" in application) await (await same).close();
  else await assert.rejects(same, { name: "Unsupported", message: /settings of createSentinel/ });

  const held = [];
  const waiting = [];
  for (const [number, client] of clients.entries()) {
    held.push(await client.lock(`held:${number}`).acquire());
    waiting.push(clients[1 - number].lock(`held:${number}`).acquire({ timeout: 60_000 }));
  }
  await look.send("WAIT", "1", "5000");
  await until("they wait", async () => (await clients[0].lock("held:0").info()).waiterCount === 1);
  assert.equal(await watch.raw.send("SENTINEL", "FAILOVER", "locks"), "OK");
  // The Sentinel closes connections to both servers.
  const asked = async (...words) => {
    const raw = new Raw(second.port);
    const reply = await Promise.race([raw.send(...words), sleep(200)]);
    raw.close();
    return reply;
  };
  await until("it is the primary", async () => (await asked("ROLE"))?.[0] === "master", 30_000);
  for (const number of [0, 1]) {
    const waits = async () => {
      const info = await asked("RLOCK.INFO", `held:${number}`);
      return info?.[info.indexOf("waiter-count") + 1] === 1;
    };
    await until("they wait at the new primary", waits, 30_000);
  }
  for (const each of held) each.check();
  for (const each of held) await each.release();
  for (const each of await Promise.all(waiting)) await each.release();
  await Promise.all(clients.map((client) => client.close()));
  look.close();
  silent.close();
  await watch.stop();
  await Promise.all([first.stop(), second.stop()]);
});

/** Two servers, each with half of the slots. */
async function cluster() {
  const servers = await Promise.all([1, 2].map(() => startServer("--cluster-enabled", "yes", "--cluster-node-timeout", "2000")));
  const looks = servers.map((server) => new Raw(server.port));
  await looks[0].send("CLUSTER", "ADDSLOTSRANGE", "0", "8191");
  await looks[1].send("CLUSTER", "ADDSLOTSRANGE", "8192", "16383");
  await looks[1].send("CLUSTER", "SET-CONFIG-EPOCH", "2");
  await looks[0].send("CLUSTER", "MEET", "127.0.0.1", String(servers[1].port));
  for (const look of looks)
    await until("the cluster is up", async () => (await look.send("CLUSTER", "INFO")).includes("cluster_state:ok"), 30_000);
  const stop = async () => {
    looks.forEach((look) => look.close());
    await Promise.all(servers.map((server) => server.stop()));
  };
  return { looks, nodes: servers.map((server) => ({ host: "127.0.0.1", port: server.port })), stop };
}

test("a cluster: asked once, waited for, renewed, released, with a session, and several at once", { timeout: 120_000 }, async () => {
  const { nodes, stop } = await cluster();
  const Cluster = peers.ioredis.Cluster ?? peers.ioredis.default.Cluster;
  const url = `redis+cluster://${nodes.map(({ port }) => `127.0.0.1:${port}`).join(",")}`;
  const rootNodes = nodes.map((socket) => ({ socket }));
  const applications = [new Cluster(nodes), peers.redis.createCluster({ rootNodes }), url, url, { rootNodes }];
  const connect = [packages.ioredis.Client, packages.redis.Client, packages.ioredis.Client, packages.redis.Client, packages.redis.Client];
  for (const [number, application] of applications.entries()) {
    if (oldest && connect[number] === packages.ioredis.Client) {
      // It does not know SSUBSCRIBE.
      const client = await connect[number].connect(application);
      await (await client.lock("a").tryAcquire()).release();
      await assert.rejects(client.lock("a").acquire(), { name: "Unsupported", message: /too old to wait in a cluster/ });
      await client.close();
      continue;
    }
    const client = await connect[number].connect(application, { lease: 3_000, responseTimeout: 10_000 });
    for (let lock = 0; lock < 8; lock++) {
      const handle = client.lock(`lock:${number}:${lock}`);
      const held = await handle.tryAcquire();
      await assert.rejects(handle.tryAcquire(), { name: "Denied" });
      assert.equal((await handle.info()).holders[0].owner, held.owner);
      await held.release();
      assert.equal(await handle.locked(), false);
    }
    const names = Array.from({ length: 6 }, (_, lock) => `waited:${number}:${lock}`);
    const all = await client.lockAll(names).acquire();
    assert.deepEqual(all.names, names);
    const waiting = names.map((name) => client.lock(name, { sessionGrace: 3_000 }).acquire({ timeout: 60_000 }));
    await until(
      "all wait",
      async () => {
        const infos = await Promise.all(names.map((name) => client.lock(name).info()));
        return infos.every((info) => info.waiterCount === 1);
      },
      30_000,
    );
    assert(all.check() > 0 && !all.signal.aborted);
    await all.release();
    for (const next of await Promise.all(waiting)) await next.release();
    const held = await client.lock(`renewed:${number}`).tryAcquire();
    const end = performance.now() + 7_000;
    await until("some leases are over", () => held.check() > 0 && performance.now() > end, 10_000);
    await held.release();
    await client.close();
  }
  applications[0].disconnect();
  await stop();
});

// The hold was tied to no connection until its slot had moved, and a killed process kept the lock until lease end.
test(
  "while its slot moves, a hold is tied to the server that has the key, and anew when that connection ends",
  { timeout: 120_000 },
  async () => {
    const { looks, nodes, stop } = await cluster();
    const [from, to] = looks;
    const ids = await Promise.all(looks.map((look) => look.send("CLUSTER", "MYID")));
    const url = `redis+cluster://127.0.0.1:${nodes[0].port}`;
    const asking = async (...words) => (await Promise.all([to.send("ASKING"), to.send(...words)]))[1];
    const tie = async (lock) => {
      const info = await asking("RLOCK.INFO", lock);
      const [holder] = info[info.indexOf("holders") + 1];
      return holder.includes("session") ? holder[holder.indexOf("session") + 1] : 0;
    };
    for (const [name, { Client }] of Object.entries(packages)) {
      const names = [`{b}${name}`, `{b}${name}:re-entered`];
      const [lock, reentered] = names;
      const slot = await from.send("CLUSTER", "KEYSLOT", lock);
      const client = await Client.connect(url, { lease: 30_000, sessionGrace: 5_000 });
      const [held, outer] = await Promise.all(names.map((each) => client.lock(each).tryAcquire()));
      assert.equal(await to.send("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[0]), "OK");
      assert.equal(await from.send("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[1]), "OK");
      for (const each of names) assert.equal(await from.send("MIGRATE", "127.0.0.1", nodes[1].port, each, 0, 5_000), "OK");
      // No renewal is due for 10 s. One ties it after a re-entry, and anew when that connection ends;
      const inner = await outer.reenter();
      await until("it is tied at the next server", async () => (await tie(reentered)) > 0);
      const first = await tie(reentered);
      assert.equal(await tie(lock), 0);
      await to.send("CLIENT", "KILL", "ID", first);
      await until("it is tied anew", async () => (await tie(reentered)) > first);
      // and the ends of connections tie the one that is not re-entered.
      await from.send("CLIENT", "KILL", "TYPE", "normal");
      await until("it is tied at the next server", async () => (await tie(lock)) > first);
      const second = await tie(lock);
      await to.send("CLIENT", "KILL", "ID", second);
      for (const each of names) await until("it is tied anew", async () => (await tie(each)) > second);
      await sleep(6_000);
      for (const guard of [inner, outer, held]) {
        guard.check();
        await guard.release();
      }
      for (const each of names) assert.equal(await asking("EXISTS", each), 0);
      for (const look of looks) await look.send("CLUSTER", "SETSLOT", slot, "STABLE");
      await client.close();
    }
    await stop();
  },
);

// Its tie was noted at a server that had refused the renewal. With heartbeats from there the client believed in a hold whose connection had
// ended elsewhere.
test("behind ASKING, a server that refuses a renewal proves no hold", { timeout: 120_000 }, async () => {
  const { looks, nodes, stop } = await cluster();
  const [from, to] = looks;
  const [source, target] = await Promise.all(looks.map((look) => look.send("CLUSTER", "MYID")));
  const number = async (look, section, pattern) => Number(pattern.exec(await look.send("INFO", section))?.[1] ?? 0);
  const refused = () => number(to, "errorstats", /errorstat_MOVED:count=(\d+)/);
  const heartbeats = (look) => number(look, "commandstats", /cmdstat_hello:calls=(\d+)/);
  for (const [name, { Client }] of Object.entries(packages)) {
    const lock = `{b}${name}`;
    const slot = await from.send("CLUSTER", "KEYSLOT", lock);
    const lost = [];
    const onEvent = (event) => event.type === "lost" && lost.push(event.why);
    const client = await Client.connect(`redis+cluster://127.0.0.1:${nodes[0].port}`, { lease: 15_000, sessionGrace: 5_000, onEvent });
    const held = await client.lock(lock).tryAcquire();
    assert.equal(await to.send("CLUSTER", "SETSLOT", slot, "IMPORTING", source), "OK");
    assert.equal(await from.send("CLUSTER", "SETSLOT", slot, "MIGRATING", target), "OK");
    assert.equal(await from.send("MIGRATE", "127.0.0.1", nodes[1].port, lock, 0, 5_000), "OK");
    // One server sends on what the other refuses.
    assert.equal(await to.send("CLUSTER", "SETSLOT", slot, "STABLE"), "OK");
    const before = await refused();
    await until("it is refused", async () => (await refused()) > before, 20_000);
    const { deadline } = held.acquisition.machine;
    for (const look of looks) {
      const first = await heartbeats(look);
      await until("heartbeats are answered", async () => lost.length > 0 || (await heartbeats(look)) > first + 2, 10_000);
      assert.equal(held.acquisition.machine.deadline, deadline);
    }
    await until("it is lost", () => lost.length > 0, 10_000);
    assert.deepEqual(lost, ["expired"]);
    assert.equal(await to.send("CLUSTER", "SETSLOT", slot, "IMPORTING", source), "OK");
    await assert.rejects(held.release(), { name: "LockLost" });
    const exists = async () => (await Promise.all([to.send("ASKING"), to.send("EXISTS", lock)]))[1];
    await until("it is released", async () => (await exists()) === 0);
    for (const look of looks) assert.equal(await look.send("CLUSTER", "SETSLOT", slot, "STABLE"), "OK");
    await client.close();
  }
  await stop();
});

// A busy server was never connected to: the time for its first answer was made from the lease, from the grace or from the response timeout.
test("a first connection has its time, however short leases, graces and response timeouts are", { timeout: 60_000 }, async () => {
  const { nodes, stop } = await cluster();
  const sockets = new Set();
  // The first answer of each connection is late.
  const slow = createServer((socket) => {
    const server = createConnection(nodes[0]);
    for (const each of [socket, server]) sockets.add(each.on("error", () => undefined));
    socket.pipe(server);
    server.once("readable", () => setTimeout(() => server.pipe(socket), 250));
  });
  await once(slow.listen(0, "127.0.0.1"), "listening");
  const place = { host: "127.0.0.1", port: slow.address().port };
  const mapped = { rootNodes: [{ socket: nodes[0] }], nodeAddressMap: { [`127.0.0.1:${nodes[0].port}`]: place } };
  await (await packages.redis.Client.connect(mapped, { responseTimeout: 200 })).close();
  for (const { Client } of Object.values(packages)) {
    const client = await Client.connect(`redis+cluster://127.0.0.1:${place.port}`, { lease: 600 });
    await client.close();
    const other = await Client.connect(`redis+cluster://127.0.0.1:${nodes[0].port}`);
    const held = await other.lock("a", { sessionGrace: 400 }).tryAcquire();
    const link = new (other.link("a").constructor)(other, `127.0.0.1:${place.port}`, { place, tag: () => "a", has: () => true });
    await link.settled;
    link.close();
    await held.release().catch(() => undefined);
    await other.close();
  }
  slow.close();
  for (const each of sockets) each.destroy();
  await stop();
});
