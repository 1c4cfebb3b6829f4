// The machine plays the stories of all clients, and shows what they leave out.
import assert from "node:assert/strict";
import { test } from "node:test";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { Machine } from "../dist/esm/machine.js";

const USUAL = { renew: true, fenced: false, confirmFirst: false, atLeast: 0, maxHold: Infinity, grace: 0, slack: 0 };
const PLAN = { ...USUAL, lease: 3_000, wait: 10_000, response: 500 };
const QUEUED = { kind: "queued" };
const NULL = { kind: "null" };
const failed = (failure) => ({ kind: "error", failure, error: new Error(failure) });

/** What an input brings, its new timer at the end. */
function player(it) {
  let timer = Infinity;
  return (now, what, ...more) => {
    const outputs = it.take(now, () => it[what](...more));
    if (it.wakeAt === timer) return outputs;
    timer = it.wakeAt;
    return [...outputs, { type: "timer", at: timer === Infinity ? undefined : timer }];
  };
}

test("a wait that times out tells a silent server from another owner", () => {
  const ends = (...inputs) => {
    const it = new Machine(PLAN);
    it.take(0, () => it.start());
    for (const [now, what, ...more] of inputs) it.take(now, () => it[what](...more));
    return it.take(10_000, () => it.tick()).find(({ type }) => type === "refused").silent;
  };
  const queued = [1, "reply", 1, 0, QUEUED];
  assert.equal(ends(), true);
  assert.equal(ends(queued), false);
  assert.equal(ends(queued, [500, "linkDown"]), true);
  // Asked again, or told by a message, a moment before the end.
  assert.equal(ends(queued, [9_950, "tick"]), false);
  assert.equal(ends(queued, [9_999, "message", { notice: "timeout" }]), false);
  assert.equal(ends(queued, [4_000, "message", { notice: "dropped" }]), true);
});

test("a coarse clock's error is taken off each deadline", () => {
  const it = new Machine({ ...PLAN, slack: 20 });
  it.take(0, () => it.start());
  it.take(1, () => it.reply(1, 0, { kind: "held", token: 0 }));
  assert.equal(it.deadline, 2_970 - 2 - 20);
});

/** The stories that all clients play: clients/conformance/machine/README.md. */
const stories = process.env.RLOCK_STORIES ?? join(import.meta.dirname, "../../conformance/machine");

function storyAnswer({ value, error, holder_lease: holderLease }) {
  if (error !== undefined) return failed(error);
  if (value === null) return NULL;
  if (!Array.isArray(value)) return { kind: "integer", value };
  return value[0] === 0 ? { kind: "queued", holderLease } : { kind: "held", token: value[2] };
}

function storyInput(line) {
  const inputs = {
    reply: () => ["reply", line.n, line.sent, storyAnswer(line)],
    message: () => ["message", { notice: line.word, token: line.token ?? 0, lease: line.lease ?? 0, current: line.current ?? true }],
    alive: () => ["alive", line.sent],
    down: () => ["linkDown"],
    up: () => ["linkUp"],
    cancel: () => ["cancel", new Error("cancelled")],
    close: () => ["lose", "closed"],
  };
  return inputs[line.in]?.() ?? [line.in];
}

function storyOutput(output) {
  const outputs = {
    send: ({ command, id, wait, look, lease, session }) => ({
      ...{ send: command, n: id },
      ...(wait !== undefined && { wait }),
      ...(look && { look }),
      ...(lease !== undefined && { lease }),
      ...(session !== undefined && { session }),
    }),
    // In whole ns, as the stories have them.
    timer: ({ at }) => ({ timer: at === undefined ? null : Math.round(at * 1e6) / 1e6 }),
    held: ({ token }) => ({ guard: token }),
    refused: ({ kind }) => ({ refused: kind }),
    renewed: () => ({ renewed: true }),
    renewalFailed: () => ({ renewal_failed: true }),
    lost: ({ why }) => ({ lost: why }),
    released: ({ outcome }) => ({ released: outcome }),
    ended: () => ({ ended: true }),
  };
  return outputs[output.type](output);
}

// They come with the conformance suite: a copy of this folder alone has none.
const suite = existsSync(join(stories, ".."));
if (suite)
  test("the stories of all clients' machines", () => {
    const files = ["", "one_trip", "holds"].flatMap((folder) => {
      const names = readdirSync(join(stories, folder)).filter((name) => name.endsWith(".jsonl"));
      return names.map((name) => join(folder, name));
    });
    assert(files.length >= 99, `${files.length} stories`);
    for (const file of files) {
      const lines = readFileSync(join(stories, file), "utf8").trim().split("\n");
      const [{ plan }, ...steps] = lines.map((line) => JSON.parse(line));
      const { confirm_first: confirmFirst = false, at_least: atLeast = 0, max_hold: maxHold = Infinity, ...rest } = plan;
      const it = new Machine({ ...USUAL, wait: Infinity, response: 5_000, confirmFirst, atLeast, maxHold, ...rest });
      const play = player(it);
      for (const [number, step] of steps.entries()) {
        const out = play(step.at, ...storyInput(step)).map(storyOutput);
        assert.deepEqual({ out, state: it.phase }, { out: step.out, state: step.state }, `${file}:${number + 2}`);
      }
    }
  });
