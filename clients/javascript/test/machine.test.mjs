// Tables of the machine: what goes in at which moment, and what comes out.
import assert from "node:assert/strict";
import { test } from "node:test";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { Machine, endOf } from "../dist/esm/machine.js";

const USUAL = { renew: true, fenced: false, confirmFirst: false, atLeast: 0, maxHold: Infinity, grace: 0, slack: 0 };
const PLAN = { ...USUAL, lease: 3_000, wait: 10_000, response: 500 };
const HELD = { kind: "held", token: 0 };
const QUEUED = { kind: "queued" };
const NULL = { kind: "null" };
const ONE = { kind: "integer", value: 1 };
const ZERO = { kind: "integer", value: 0 };
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

/** A machine and the words of what it put out since it was asked last. */
function machine(plan = {}) {
  const it = new Machine({ ...PLAN, ...plan });
  const play = player(it);
  let sent;
  const word = (output) => {
    if (output.type === "send") {
      sent = output;
      return `${output.command}${output.wait === undefined ? "" : ` ${output.wait}`}${output.look ? " look" : ""}`;
    }
    if (output.type === "timer") return `timer ${output.at}`;
    if (output.type === "held") return `held ${output.token}`;
    if (output.type === "refused")
      return `refused ${output.kind === "error" ? (output.error?.message ?? "no answer in time") : output.kind}`;
    if (output.type === "lost") return `lost ${output.why}`;
    if (output.type === "released") return `released ${output.outcome}`;
    return output.type;
  };
  const feed = (what, now, ...more) =>
    play(now, what, ...more)
      .map(word)
      .join(", ");
  return {
    it,
    feed,
    reply: (answer, now, sentAt = now, id = sent.id) => feed("reply", now, id, sentAt, answer),
    message: (notice, now, token = 0, lease = 0) => feed("message", now, { notice, token, lease, current: true }),
    sent: () => sent,
  };
}

const START = "ENQUEUE 10000, timer 10000";
const deadline = (sentAt) => endOf(sentAt, PLAN.lease, 0);

test("a free lock is held from the moment of sending", () => {
  const m = machine();
  assert.equal(m.feed("start", 0), START);
  assert.equal(m.reply(HELD, 100, 40), "held 0, timer 1040");
  assert.equal(m.it.deadline, 40 + 2_970 - 2);
});

test("a wait: queued, granted, confirmed by a renewal", () => {
  const m = machine();
  m.feed("start", 0);
  assert.equal(m.reply(QUEUED, 5), "timer 1005");
  assert.equal(m.message("granted", 700, 9), "RENEW, timer 10000");
  assert.equal(m.reply(ONE, 710, 701), "held 9, timer 1701");
});

test("a grant before the reply that it belongs to", () => {
  const m = machine();
  m.feed("start", 0);
  const enqueue = m.sent().id;
  assert.equal(m.message("granted", 3), "RENEW");
  assert.equal(m.reply(QUEUED, 4, 0, enqueue), "");
  assert.equal(m.reply(ONE, 5, 3), "held 0, timer 1003");
});

test("a grant that is gone at the confirmation asks again with what is left", () => {
  const m = machine();
  m.feed("start", 0);
  m.reply(QUEUED, 1);
  m.message("granted", 4_000);
  assert.equal(m.reply(ZERO, 4_000.5), "ENQUEUE 6000");
});

test("a fenced grant is confirmed by a token of its own", () => {
  const m = machine({ fenced: true });
  m.feed("start", 0);
  m.reply(QUEUED, 1);
  assert.equal(m.message("granted", 10, 7), "ACQUIRE, timer 10000");
  assert.equal(m.reply({ kind: "held", token: 8 }, 12, 11), "held 8, timer 1011");
});

test("whoever hears nothing asks again after a second, then as often as the lease lasts", () => {
  const m = machine({ wait: 100_000 });
  m.feed("start", 0);
  m.reply(QUEUED, 1);
  assert.equal(m.feed("tick", 1_000), "");
  assert.equal(m.feed("tick", 1_001), "ENQUEUE 98999 look, timer 100000");
  assert.equal(m.reply({ kind: "queued", holderLease: 5_000 }, 1_002), "timer 6002");
  assert.equal(m.feed("tick", 6_002), "ENQUEUE 93998 look, timer 100000");
  assert.equal(m.reply({ kind: "queued", holderLease: 60_000 }, 6_003), "timer 36003");
  assert.equal(m.feed("tick", 36_003), "ENQUEUE 63997 look, timer 100000");
  assert.equal(m.reply({ kind: "queued", holderLease: 10 }, 36_004), "timer 37004");
});

test("what is left of a wait is never 0 on the wire, unless it is for ever", () => {
  const m = machine({ wait: 0.2 });
  assert.equal(m.feed("start", 0), "ENQUEUE 1, timer 0.2");
  assert.equal(machine({ wait: Infinity }).feed("start", 0), "ENQUEUE 0");
});

test("a wait ends when it is over, whatever the server says, and leaves nothing behind", () => {
  for (const reply of [ONE, ZERO, NULL, failed("final")]) {
    const m = machine();
    m.feed("start", 0);
    m.reply(QUEUED, 1);
    m.feed("tick", 1_001);
    m.reply(QUEUED, 1_002);
    assert.match(m.feed("tick", 10_000), /^refused timeout, CANCEL, RELEASE/);
    assert.equal(m.reply(reply, 10_001), "ended, timer undefined");
  }
});

test("time-out of the server: maybe of an earlier wait, so only the clock ends this one", () => {
  const m = machine();
  m.feed("start", 0);
  m.reply(QUEUED, 1);
  assert.equal(m.message("timeout", 2), "timer 22");
  assert.equal(m.feed("tick", 22), "ENQUEUE 9978, timer 10000");
  assert.equal(m.message("timeout", 9_999), "");
  assert.match(m.feed("tick", 10_000), /^refused timeout, CANCEL, RELEASE/);
});

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

test("asking once", () => {
  const m = machine({ wait: 0 });
  assert.equal(m.feed("start", 0), "ACQUIRE, timer 1000");
  assert.equal(m.reply(NULL, 1), "refused denied, ended, timer undefined");
  const lost = machine({ wait: 0 });
  lost.feed("start", 0);
  assert.equal(lost.reply(failed("unanswered"), 500), "timer 520");
  assert.equal(lost.feed("tick", 520), "ACQUIRE, timer 1000");
  assert.equal(lost.feed("tick", 1_000), "refused unanswered, RELEASE, timer 4520");
  const draining = machine({ wait: 0 });
  draining.feed("start", 0);
  assert.equal(draining.reply(failed("draining"), 1), "refused draining, ended, timer undefined");
});

test("refusals: final ones end the acquisition, passing ones are tried again with growing pauses", () => {
  const m = machine();
  m.feed("start", 0);
  assert.equal(m.reply(failed("passing"), 1), "timer 21");
  assert.equal(m.feed("tick", 21), "ENQUEUE 9979, timer 10000");
  assert.equal(m.reply(failed("draining"), 22), "timer 62");
  m.feed("tick", 62);
  // Those before may have been carried out.
  assert.match(m.reply(failed("final"), 63), /^refused final, CANCEL, RELEASE/);
  const first = machine();
  first.feed("start", 0);
  assert.equal(first.reply(failed("gone"), 1), "refused gone, ended, timer undefined");
});

test("dropped: asks again after a pause, with the same wait", () => {
  const m = machine();
  m.feed("start", 0);
  m.reply(QUEUED, 1);
  assert.equal(m.message("dropped", 100), "timer 120");
  assert.equal(m.feed("tick", 120), "ENQUEUE 9880, timer 10000");
});

test("a link that is down: nothing is sent, and the wait is kept until it is over", () => {
  for (const phase of ["asking", "queued", "confirming"]) {
    const m = machine();
    m.feed("start", 0);
    if (phase !== "asking") m.reply(QUEUED, 1);
    if (phase === "confirming") m.message("granted", 2);
    assert.equal(m.it.phase, phase);
    m.feed("linkDown", 3);
    assert.equal(m.feed("tick", 5_000), "");
    assert.equal(m.feed("linkUp", 5_000), "ENQUEUE 5000", phase);
    m.feed("linkDown", 5_001);
    assert.match(m.feed("tick", 10_000), /^refused timeout, timer/);
    assert.match(m.feed("linkUp", 10_001), /^CANCEL, RELEASE/);
  }
});

test("cancelled at each step", () => {
  const cancel = (m, now) => m.feed("cancel", now, new Error("stop"));
  const before = machine();
  assert.equal(cancel(before, 0), "refused stop, ended");
  const asking = machine();
  asking.feed("start", 0);
  assert.equal(cancel(asking, 1), "refused stop, CANCEL, RELEASE, timer 4000");
  assert.equal(asking.message("granted", 2), "");
  // The reply to the ENQUEUE comes late, and counts for nothing.
  assert.equal(asking.reply(HELD, 3, 0, 1), "");
  assert.equal(asking.reply(ONE, 4), "ended, timer undefined");
  const queued = machine();
  queued.feed("start", 0);
  queued.reply(QUEUED, 1);
  assert.match(cancel(queued, 2), /^refused stop, CANCEL, RELEASE/);
  const confirming = machine();
  confirming.feed("start", 0);
  confirming.message("granted", 1);
  assert.match(cancel(confirming, 2), /^refused stop, CANCEL, RELEASE/);
  const held = machine();
  held.feed("start", 0);
  held.reply(HELD, 1);
  assert.equal(cancel(held, 2), `RELEASE, timer ${deadline(1)}`);
});

test("renewals: every third of the lease, retried soon, and a loss only by the deadline or the server", () => {
  const m = machine();
  m.feed("start", 0);
  m.reply(HELD, 1, 0);
  assert.equal(m.feed("tick", 1_000), `RENEW, timer ${deadline(0)}`);
  assert.equal(m.reply(ONE, 1_020, 1_001), "renewed, timer 2001");
  assert.equal(m.it.deadline, deadline(1_001));
  assert.equal(m.feed("tick", 2_001), `RENEW, timer ${deadline(1_001)}`);
  assert.equal(m.reply(failed("unanswered"), 2_501, 2_001), `renewalFailed, timer ${2_501 + 3_000 / 12 / 64}`);
  assert.equal(m.feed("tick", 2_505), `RENEW, timer ${deadline(1_001)}`);
  assert.equal(m.feed("tick", deadline(1_001)), "lost expired, timer undefined");
  assert.equal(m.reply(ONE, deadline(1_001) + 1, 2_505), "");
  assert.equal(m.it.phase, "lost");
});

test("a reply that comes after the deadline does not bring the lock back", () => {
  const m = machine();
  m.feed("start", 0);
  m.reply(HELD, 1, 0);
  m.feed("tick", 1_000);
  assert.equal(m.reply(ONE, 2_968, 1_000), "lost expired, timer undefined");
});

test("the server has it no more", () => {
  for (const reply of [ZERO, failed("gone")]) {
    const m = machine();
    m.feed("start", 0);
    m.reply(HELD, 1, 0);
    m.feed("tick", 1_000);
    assert.equal(m.reply(reply, 1_001, 1_000), "lost taken, ended, timer undefined");
  }
});

test("held while the link is down: renewed at once when it is back", () => {
  const m = machine();
  m.feed("start", 0);
  m.reply(HELD, 1, 0);
  assert.equal(m.feed("linkDown", 500), `timer ${deadline(0)}`);
  assert.equal(m.feed("tick", 1_500), "");
  assert.equal(m.feed("linkUp", 1_600), "RENEW");
  assert.equal(m.reply(ONE, 1_601, 1_600), "renewed, timer 2600");
  const fixed = machine({ renew: false });
  fixed.feed("start", 0);
  fixed.reply(HELD, 1, 0);
  fixed.feed("linkDown", 2);
  assert.equal(fixed.feed("linkUp", 3), "");
  assert.equal(fixed.feed("tick", 1_500), "");
});

test("a reply that comes after the lease is confirmed before anybody holds", () => {
  const m = machine();
  m.feed("start", 0);
  assert.equal(m.reply(HELD, 2_968, 0), "RENEW");
  assert.equal(m.reply(ONE, 2_970, 2_969), `held 0, timer ${2_969 + 1_000}`);
});

test("releases: 1 and 0 are done, null is a loss, null after a repeat is unknown", () => {
  const held = () => {
    const m = machine();
    m.feed("start", 0);
    m.reply(HELD, 1, 0);
    return m;
  };
  for (const reply of [ONE, ZERO]) {
    const m = held();
    assert.equal(m.feed("release", 10), `RELEASE, timer ${deadline(0)}`);
    assert.equal(m.reply(reply, 11), "released ok, ended, timer undefined");
  }
  const lost = held();
  lost.feed("release", 10);
  assert.equal(lost.reply(NULL, 11), "released lost, ended, timer undefined");
  const unknown = held();
  unknown.feed("release", 10);
  assert.equal(unknown.reply(failed("unanswered"), 510), "timer 530");
  assert.equal(unknown.feed("linkUp", 520), `RELEASE, timer ${deadline(0)}`);
  assert.equal(unknown.reply(NULL, 521), "released unknown, timer 1521");
  assert.equal(unknown.feed("tick", 1_521), "CANCEL, RELEASE, timer 3521");
  assert.equal(unknown.reply(NULL, 1_522), "ended, timer undefined");
  const unsent = held();
  unsent.feed("linkDown", 9);
  assert.equal(unsent.feed("release", 10), "");
  assert.equal(unsent.feed("linkUp", 20), "RELEASE");
  assert.equal(unsent.reply(NULL, 21), "released lost, ended, timer undefined");
  const silent = held();
  silent.feed("release", 10);
  assert.equal(silent.feed("tick", deadline(0)), "released unknown, ended, timer undefined");
  const twice = held();
  twice.feed("release", 10);
  assert.equal(twice.feed("release", 11), "");
});

test("what was lost by the clock is released in the server all the same", () => {
  const m = machine();
  m.feed("start", 0);
  m.reply(HELD, 1, 0);
  assert.equal(m.feed("tick", 3_000), "lost expired, timer undefined");
  assert.equal(m.feed("release", 3_001), "RELEASE, timer 6001");
  assert.equal(m.reply(NULL, 3_002), "ended, timer undefined");
});

test("a client that closes", () => {
  const m = machine();
  m.feed("start", 0);
  m.reply(HELD, 1, 0);
  assert.equal(m.feed("lose", 2, "closed"), "lost closed, timer undefined");
  assert.equal(m.feed("tick", 5_000), "");
});

test("a coarse clock's error is taken off each deadline", () => {
  const m = machine({ slack: 20 });
  m.feed("start", 0);
  m.reply(HELD, 1, 0);
  assert.equal(m.it.deadline, 2_970 - 2 - 20);
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

// They come with the conformance suite: a copy of this folder alone has the tables above.
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
