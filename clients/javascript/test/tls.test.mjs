// Servers that ask clients for certificates, which is what they do by default, and for passwords.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { freePort, startServer } from "./kit.mjs";

const home = join(import.meta.dirname, "..");
const folder = mkdtempSync(join(tmpdir(), "rlock-js-tls-"));
const file = (name) => readFileSync(join(folder, name));
const run = promisify(execFile);
let server;
let port;

before(async () => {
  await run("sh", [join(home, "../../scripts/certificates.sh"), folder]);
  port = await freePort();
  const files = ["ca-cert-file", "ca.crt", "cert-file", "server.crt", "key-file", "server.key"];
  const words = files.map((word, index) => (index % 2 ? join(folder, word) : `--tls-${word}`));
  const user = ["--user", "app", "on", ">se@cret", "~*", "&*", "+@all"];
  server = await startServer("--tls-port", String(port), "--tls-auth-clients", "yes", ...words, ...user);
});
after(async () => {
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
});

const own = () => ({ ca: file("ca.crt"), cert: file("client.crt"), key: file("client.key") });
const login = { username: "app", password: "se@cret" };

const DRIVERS = {
  ioredis: (tls) => ({ host: "localhost", port, ...login, tls }),
  "node-redis": (tls) => ({ ...login, socket: { host: "localhost", port, tls: true, ...tls } }),
};

for (const [driver, settings] of Object.entries(DRIVERS)) {
  test(`${driver}: a client certificate and a password`, async () => {
    const { Client } = await import(`rlock-client/${driver}`);
    const client = await Client.connect(settings(own()));
    const held = await client.lock("a").acquire();
    const waiting = client.lock("a").acquire({ timeout: 10_000 });
    await held.release();
    await (await waiting).release();
    await client.close();
  });

  test(`${driver}: without the certificate, or the authority, nothing is locked`, async () => {
    const { Client } = await import(`rlock-client/${driver}`);
    const { ca, cert, key } = own();
    for (const some of [{ ca }, { cert, key }]) {
      const locked = Client.connect(settings(some)).then(async (client) => {
        await client
          .lock("b")
          .tryAcquire()
          .finally(() => client.close());
      });
      await assert.rejects(locked, { code: "UNREACHABLE" });
    }
  });
}

test("the README's lines run", async () => {
  const blocks = [...readFileSync(join(home, "README.md"), "utf8").matchAll(/^```js tls\n(.*?)^```$/gms)];
  assert.equal(blocks.length, 2);
  for (const [, block] of blocks) {
    const code = block.replace("redis.example", "localhost").replace("6380", String(port));
    // The package is found from here, the files are in the other folder.
    const script = join(home, "test/.tls.mjs");
    writeFileSync(script, `${code}\nawait client.lock("c").run((held) => console.log(held.check() > 0));\nawait client.close();\n`);
    try {
      const environment = { ...process.env, REDIS_PASSWORD: login.password };
      const { stdout } = await run(process.execPath, [script], { cwd: folder, env: environment, timeout: 60_000 });
      assert.equal(stdout, "true\n");
    } finally {
      rmSync(script);
    }
  }
});
