// The driver program of the conformance suite speaks its protocol.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { startServer } from "./kit.mjs";

const home = join(import.meta.dirname, "..");
const { command } = JSON.parse(readFileSync(join(home, "conformance.json"), "utf8"));

function start(...more) {
  const program = spawn(command[0], [...command.slice(1), ...more], { cwd: home, stdio: ["pipe", "pipe", "inherit"] });
  const answers = new Map();
  const events = [];
  createInterface({ input: program.stdout }).on("line", (line) => {
    const said = JSON.parse(line);
    assert(Number.isInteger(said.at));
    if (said.id === undefined) return events.push(said);
    answers.get(said.id)(said);
  });
  let id = 0;
  const ask = (request) => {
    id += 1;
    const answer = new Promise((done) => answers.set(id, done));
    program.stdin.write(`${JSON.stringify({ id, ...request })}\n`);
    return Object.assign(answer, { id });
  };
  return { program, ask, events };
}

for (const entry of ["ioredis", "node-redis"]) {
  test(`conversation on ${entry}`, { timeout: 60_000 }, async () => {
    const server = await startServer();
    const { program, ask, events } = start(entry);
    const hello = await ask({ do: "hello", protocol: 1 });
    assert(hello.ok && hello.protocol === 1 && hello.driver.startsWith(entry) && hello.from <= hello.at);
    const connected = await ask({ do: "connect", client: "c", url: server.url, lease_ms: 3_000 });
    const first = await ask({ do: "acquire", client: "c", guard: "g1", lock: "a", fenced: true });
    assert(first.token > 0 && first.owner.startsWith(connected.identity));
    assert.equal((await ask({ do: "acquire", client: "c", guard: "g2", lock: "a", try: true })).error, "Denied");
    assert.equal((await ask({ do: "acquire", client: "c", guard: "g3", lock: "a", timeout_ms: 50 })).error, "Timeout");
    const waiting = ask({ do: "acquire", client: "c", guard: "g4", lock: "a" });
    assert((await ask({ do: "cancel", acquire: waiting.id })).ok);
    assert.equal((await waiting).error, "Cancelled");
    assert((await ask({ do: "check", guard: "g1" })).left_ms > 2_000);
    assert((await ask({ do: "reenter", guard: "g1", as: "g5" })).token > 0);
    assert.deepEqual((({ holders, waiters }) => [holders, waiters])(await ask({ do: "info", client: "c", lock: "a" })), [1, 0]);
    assert((await ask({ do: "release", guard: "g5" })).ok);
    assert.equal((await ask({ do: "force_release", client: "c", lock: "a" })).value, true);
    const lost = await ask({ do: "release", guard: "g1" });
    assert(lost.error === "LockLost" && lost.why === "taken");
    assert.equal((await ask({ do: "check", guard: "g1" })).error, "Invalid");
    await ask({ do: "acquire", client: "c", guard: "w", lock: "rw", kind: "write" });
    assert((await ask({ do: "downgrade", guard: "w", as: "r" })).ok);
    assert((await ask({ do: "release", guard: "r" })).ok);
    await ask({ do: "acquire", client: "c", guard: "short", lock: "b", lease_ms: 200 });
    await ask({ do: "busy", ms: 300 });
    const gone = await ask({ do: "check", guard: "short" });
    assert(gone.error === "LockLost" && gone.why === "expired");
    assert(events.some((event) => event.event === "lost" && event.guard === "short" && event.why === "expired"));
    assert(events.some((event) => event.event === "hook" && event.name === "timed_out" && event.lock === "a"));
    for (const bad of [
      { do: "fork" },
      { do: "check" },
      { do: "check", guard: 7 },
      { do: "check", guard: "g1", x: 1 },
      { do: "busy", ms: null },
    ]) {
      assert.equal((await ask(bad)).error, "Invalid");
    }
    assert((await ask({ do: "close", client: "c" })).ok);
    assert.equal((await ask({ do: "locked", client: "c", lock: "a" })).error, "Closed");
    await ask({ do: "exit" });
    assert.deepEqual(await once(program, "exit"), [0, null]);
    await server.stop();
  });
}

test("ends with its input, and with 2 at a line that is no request", async () => {
  const first = start();
  first.program.stdin.end();
  assert.deepEqual(await once(first.program, "exit"), [0, null]);
  const second = start();
  second.program.stdin.write("[]\n");
  assert.deepEqual(await once(second.program, "exit"), [2, null]);
});
