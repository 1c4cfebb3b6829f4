// The package as users get it: packed, installed in a fresh project with one of the drivers, used from ESM, CommonJS and TypeScript.
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { oldest, startServer } from "./kit.mjs";

const home = join(import.meta.dirname, "..");
const work = mkdtempSync(join(tmpdir(), "rlock-js-package-"));
const versions = JSON.parse(readFileSync(join(home, "package.json"), "utf8")).devDependencies;
let server;
let packed;

const run = async (folder, program, ...words) => {
  try {
    const options = { cwd: folder, timeout: 240_000, env: { ...process.env, REDIS_URL: server.url, npm_config_loglevel: "error" } };
    return (await promisify(execFile)(program, words, options)).stdout;
  } catch (error) {
    throw new Error(`${program} ${words.join(" ")}:\n${error.stdout}${error.stderr}`, { cause: error });
  }
};

before(async () => {
  server = await startServer();
  await run(home, "npm", "pack", "--ignore-scripts", "--pack-destination", work);
  packed = join(
    work,
    readdirSync(work).find((name) => name.endsWith(".tgz")),
  );
});
after(async () => {
  await server.stop();
  // Thousands of files: removed beside, since this process may take ten seconds at most to end.
  spawn("rm", ["-rf", work], { detached: true, stdio: "ignore" }).unref();
});

const esm = (entry) => `
  import { Client, LockLost } from "rlock-client/${entry}";
  import * as bare from "rlock-client";
  const client = await Client.connect(process.env.REDIS_URL);
  console.log(await client.lock("a").run((held) => held.check() > 0), LockLost === bare.LockLost);
  await client.close();`;

const cjs = (entry) => `
  const { Client } = require("rlock-client/${entry}");
  Client.connect(process.env.REDIS_URL).then(async (client) => {
    console.log(await client.lock("a").run((held) => held.check() > 0));
    await client.close();
  });`;

const ts = (entry, own) => `
  ${own}
  import { Client, LockLost, type ClientOptions, type Event, type Guard, type WriteGuard } from "rlock-client/${entry}";
  const options: ClientOptions = { lease: 5_000, onEvent: (event: Event) => (event.type === "lost" ? event.why : undefined) };
  const client = await Client.connect(process.env["REDIS_URL"] as string, options);
  {
    await using held: Guard = await client.lock("a", { fenced: true }).acquire({ timeout: 1_000, signal: AbortSignal.timeout(2_000) });
    const left: number = held.check();
    console.log(left > 0 && held.token > 0 && !held.signal.aborted);
    const answer: string = await client.lock("b").run(async (inner) => \`\${inner.name}\`);
    console.log(answer);
  }
  const writer: WriteGuard = await client.readWriteLock("c").write({ fenced: true }).acquire();
  const reader = await writer.downgrade();
  // @ts-expect-error: a reader has nothing to downgrade
  reader.downgrade;
  // @ts-expect-error: readers have no tokens
  export const never = () => client.readWriteLock("c").read({ fenced: true });
  await reader.release().catch((error: unknown) => error instanceof LockLost && error.why);
  ${entry === "ioredis" ? "const app = new Redis(process.env['REDIS_URL'] as string);" : "const app = createClient({ url: process.env['REDIS_URL'] as string });"}
  const other: Client = await Client.connect(app);
  await other.lock("d").run(() => undefined);
  await other.close();
  ${entry === "ioredis" ? "app.disconnect();" : ""}
  await client.close();`;

const types = [`typescript@${versions.typescript}`, `@types/node@${versions["@types/node"]}`];
const tsc = ["node_modules/typescript/bin/tsc", "--strict", "--target", "es2022", "--lib", "es2022,esnext.disposable", "--types", "node"];

const PEERS = [
  { entry: "ioredis", peer: `ioredis@${versions.ioredis}`, own: `import { Redis } from "ioredis";` },
  { entry: "node-redis", peer: `redis@${versions.redis}`, own: `import { createClient } from "redis";` },
];

const TYPES = {
  ioredis: `
    import Redis from "ioredis";
    export const all = [Client.connect(new Redis()), Client.connect(new Redis.Cluster([{ host: "a", port: 1 }])), Client.connect({ db: 1 })];`,
  "node-redis": `
    import { createClient, createCluster } from "redis";
    const clients = [createClient(), createCluster({ rootNodes: [{ url: "redis://a:1" }], defaults: { password: "p" } })];
    const Sentinel = { name: "m", sentinelRootNodes: [{ host: "a", port: 1 }], nodeClientOptions: { password: "p" } };
    const settings = [{ url: "redis://a" }, { socket: { host: "a", port: 1 }, database: 2 }, { rootNodes: [{ url: "redis://a" }] }, Sentinel];
    export const all = [...clients, ...settings].map((target) => Client.connect(target));`,
};

/** A fresh project with the package and this driver alone. */
async function project(peer) {
  const folder = join(work, peer);
  mkdirSync(folder);
  writeFileSync(join(folder, "package.json"), '{ "private": true }\n');
  await run(folder, "npm", "install", "--no-audit", "--no-fund", "--prefer-offline", packed, peer, ...types);
  return folder;
}

/** The driver's own types are checked too. */
async function compile(folder, entry, ...others) {
  writeFileSync(join(folder, "types.ts"), `import { Client } from "rlock-client/${entry}";\n${TYPES[entry]}\n`);
  const compiler = (...words) => run(folder, process.execPath, ...tsc, "--esModuleInterop", ...words, "types.ts");
  await compiler("--module", "nodenext", ...others);
  await compiler("--module", "commonjs", "--moduleResolution", "node10");
}

for (const { entry, peer, own } of oldest ? [] : PEERS) {
  test(`packed, with ${peer} only: ESM, CommonJS, TypeScript`, { timeout: 300_000 }, async () => {
    const folder = await project(peer);
    assert.deepEqual(readdirSync(join(folder, "node_modules/rlock-client")).sort(), ["LICENSE", "README.md", "dist", "package.json"]);
    writeFileSync(join(folder, "a.mjs"), esm(entry));
    assert.equal(await run(folder, process.execPath, "a.mjs"), "true true\n");
    writeFileSync(join(folder, "b.cjs"), cjs(entry));
    assert.equal(await run(folder, process.execPath, "b.cjs"), "true\n");
    writeFileSync(join(folder, "c.mts"), ts(entry, own));
    await compile(folder, entry, "c.mts");
    assert.equal(await run(folder, process.execPath, "c.mjs"), "true\nb\n");
  });
}

const OLD_PEERS = [
  { entry: "ioredis", peer: "ioredis@5.0.0" },
  { entry: "node-redis", peer: "redis@5.0.0" },
  { entry: "node-redis", peer: "redis@5.9.0" },
];

for (const { entry, peer } of oldest ? OLD_PEERS : []) {
  test(`types with ${peer}`, { timeout: 300_000 }, async () => compile(await project(peer), entry));
}

test("two copies of the package in one process exclude each other, and name the same errors", async () => {
  const one = await import("rlock-client/ioredis");
  const { createRequire } = await import("node:module");
  const other = createRequire(import.meta.url)("rlock-client/ioredis");
  assert.notEqual(one.Denied, other.Denied);
  const clients = [await one.Client.connect(server.url), await other.Client.connect(server.url)];
  const held = await clients[0].lock("copies").acquire();
  await assert.rejects(clients[1].lock("copies").tryAcquire(), { code: "DENIED", name: "Denied" });
  const waiting = clients[1].lock("copies").acquire({ timeout: 5_000 });
  await held.release();
  await (await waiting).release();
  await Promise.all(clients.map((client) => client.close()));
});

/** The JavaScript of a page, with the server of this test. */
function code(page) {
  const blocks = readFileSync(join(home, page), "utf8").matchAll(/^```js\n(.*?)^```$/gms);
  return [...blocks].map(([, block]) => block.replaceAll("redis://127.0.0.1:6399", server.url));
}

test("the README's lines run", async () => {
  const { createServer } = await import("node:http");
  const paid = [];
  const resource = createServer((request, reply) => {
    paid.push(Number(request.headers["x-token"]));
    reply.end();
  });
  await new Promise((done) => resource.listen(0, "127.0.0.1", done));
  const url = `http://127.0.0.1:${resource.address().port}`;
  const file = join(home, "test/.readme.mjs");
  writeFileSync(file, code("README.md").join("").replaceAll("http://127.0.0.1:8080", url));
  try {
    await run(home, process.execPath, file);
  } finally {
    rmSync(file);
    resource.close();
  }
  assert(paid.length === 1 && paid[0] > 0);
});

test("the page's lines run", async () => {
  const blocks = code("../../docs/clients/javascript.md");
  assert(blocks.length > 0);
  const file = join(home, "test/.page.mjs");
  for (const block of blocks) {
    writeFileSync(file, block);
    await run(home, process.execPath, file).finally(() => rmSync(file));
  }
});

test("the examples run", async () => {
  const cron = await Promise.all([1, 2, 3].map(() => run(home, process.execPath, "examples/cron-once.mjs")));
  assert(cron.includes("this machine writes the report\n"));
  const leaders = await Promise.all([1, 2].map(() => run(home, process.execPath, "examples/leader.mjs")));
  for (const said of leaders) assert.equal(said.split("\n").length, 4);
});
