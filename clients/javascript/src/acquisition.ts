/** The shell of a machine: carries out what it decides, and tells it what came of that. */
import type { Client } from "./client.js";
import { Closed, Denied, LockLost, OutcomeUnknown, Timeout, Unreachable, type LostReason } from "./errors.js";
import { Machine, type Input, type Output, type Refusal } from "./machine.js";
import { Unsent, answer, failure, words, type Order } from "./wire.js";

const NOT_SUBSCRIBED = new Unsent(new Unreachable("", "", new Error("not subscribed yet")));

/** One owner's acquisition of one lock, from the first request to the last. */
export class Acquisition {
  readonly machine: Machine;
  readonly loss = new AbortController();
  token = 0;
  /** Guards that were not released yet. */
  guards = 1;
  readonly #began: number;
  #acquired = 0;
  /** The caller that waits, for the lock or the end of its release. */
  #caller: { resolve(): void; reject(error: unknown): void } | undefined;
  /** Commands that change the number of holds, one after the other. */
  #levels: Promise<unknown> = Promise.resolve();

  constructor(
    readonly client: Client,
    readonly order: Order,
  ) {
    this.machine = new Machine({ ...order, response: client.response, slack: client.clock.slack });
    this.#began = client.clock.now();
  }

  /** Resolves when the lock is held; rejects without a trace in the server otherwise. */
  start(): Promise<void> {
    this.client.enter(this);
    return this.#call("start");
  }

  feed(input: Input): void {
    const { client, machine } = this;
    for (const output of machine.input(input, client.clock.now())) this.#carryOut(output);
    // It waited for both connections, and needs one from now on.
    if (machine.down && !machine.waits && input.type !== "linkDown" && client.link.commands.connection) this.feed({ type: "linkUp" });
  }

  tick(): void {
    this.feed({ type: "tick" });
  }

  /** How much longer the lock is held without another renewal. */
  check(): number {
    const left = this.machine.deadline - this.client.clock.now();
    if (this.machine.phase === "held" && left > 0) return left;
    this.tick();
    throw this.lostBy ?? new LockLost(this.order.lock, "released");
  }

  get lostBy(): LockLost | undefined {
    return this.loss.signal.reason as LockLost | undefined;
  }

  /** Releases one of its guards. */
  leave(): Promise<void> {
    this.guards -= 1;
    return this.guards > 0 ? this.level(-1) : this.release();
  }

  release(): Promise<void> {
    // A deadline that has passed unseen is a loss.
    this.tick();
    if (!this.lostBy) return this.#call("release");
    if (this.machine.phase === "lost") this.client.enter(this);
    this.feed({ type: "release" });
    return Promise.reject(this.lostBy);
  }

  /** The client is closed: no answer will come any more. */
  abandon(): void {
    this.client.timers.forget(this);
    this.#caller?.reject(new OutcomeUnknown("", this.order.lock, new Closed()));
  }

  /** Adds a hold, or removes one that is not the last. */
  level(change: 1 | -1): Promise<void> {
    const done = this.#levels.then(() => this.#level(change));
    this.#levels = done.catch(() => undefined);
    return done;
  }

  async #level(change: 1 | -1): Promise<void> {
    this.check();
    const { client, order } = this;
    if (change === 1) this.guards += 1;
    try {
      // The server counts one permit, however many guards there are here.
      if (order.mode === "PERMIT") return;
      const holds = this.guards;
      // Never the first hold: one that was lost must not come back in silence.
      const request = change === 1 ? words("ACQUIRE", { ...order, fair: false }, { holds }) : words("RELEASE", order, { holds });
      const reply = client.request(order.lock, request);
      if (change === 1) {
        const held = answer("ACQUIRE", await reply);
        if (held.kind === "held") this.token = Math.max(this.token, held.token);
        else this.feed({ type: "lose", why: "taken" });
      }
      // Whatever comes of a release of some: the last one removes all holds.
      await reply.catch(() => undefined);
      this.check();
    } catch (error) {
      if (change === 1) this.guards -= 1;
      throw error;
    }
  }

  #call(type: "start" | "release"): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#caller = { resolve, reject };
      this.feed({ type });
    });
  }

  #carryOut(output: Output): void {
    const { client } = this;
    const { lock } = this.order;
    switch (output.type) {
      case "send":
        return this.#send(output);
      case "timer":
        return client.timers.plan(this, output.at ?? Infinity);
      case "held":
        this.token = output.token;
        this.#acquired = client.clock.now();
        client.tell({ type: "acquired", lock, waited: this.#acquired - this.#began });
        return this.#caller?.resolve();
      case "refused":
        return this.#caller?.reject(this.#refused(output.refusal, output.cause));
      case "renewed":
        return client.tell({ type: "renewed", lock });
      case "renewalFailed":
        return client.tell({ type: "renewalFailed", lock, error: output.error });
      case "lost":
        return this.#lost(output.why);
      case "released":
        return this.#released(output.outcome);
      case "ended":
        client.leave(this);
    }
  }

  #lost(why: LostReason): void {
    const { lock } = this.order;
    this.client.tell({ type: "lost", lock, why, held: this.client.clock.now() - this.#acquired });
    // A lost lock needs no release; one that is released all the same enters again.
    if (why !== "closed") this.client.leave(this);
    this.loss.abort(new LockLost(lock, why));
  }

  #released(outcome: Extract<Output, { type: "released" }>["outcome"]): void {
    const { lock } = this.order;
    if (outcome.kind === "ok") {
      this.client.tell({ type: "released", lock, held: this.client.clock.now() - this.#acquired });
      return this.#caller?.resolve();
    }
    if (outcome.kind === "lost") this.#lost(outcome.why);
    const unknown = outcome.kind === "unknown" && new OutcomeUnknown("", lock, outcome.error);
    this.#caller?.reject(unknown || (outcome.kind === "lost" ? this.lostBy : outcome.error));
  }

  #refused(refusal: Refusal, cause: Error | undefined): unknown {
    const { lock } = this.order;
    if (refusal.kind === "error") return refusal.error;
    if (refusal.kind === "denied") {
      this.client.tell({ type: "denied", lock });
      return new Denied("", lock);
    }
    const waited = this.client.clock.now() - this.#began;
    this.client.tell({ type: "timedOut", lock, waited });
    return new Timeout(waited.toFixed(), lock, cause);
  }

  #send({ id, command, wait = 0, look, lease }: Extract<Output, { type: "send" }>): void {
    const { client, order } = this;
    const { commands, heard, driver } = client.link;
    const sentAt = client.clock.now();
    const request = words(command, order, { ...(lease !== undefined && { lease }), enqueue: [wait, client.channel] });
    const requested = command === "ENQUEUE" && !heard ? Promise.reject(NOT_SUBSCRIBED) : commands.request(request);
    // A repeat also asks how long the holder's lease can last, which not every user may.
    const holder = look === true ? commands.request(["PTTL", order.lock]).catch(() => undefined) : undefined;
    Promise.all([requested, holder]).then(
      ([reply, holderLease]) => this.feed({ type: "reply", id, sentAt, answer: answer(command, reply, holderLease) }),
      (cause: unknown) => {
        const { failure: kind, error } = failure(order.lock, cause, driver.follows);
        this.feed({ type: "reply", id, sentAt, answer: { kind: "error", failure: kind, error } });
        if (kind === "passing" && error.message.includes("READONLY")) client.link.doubt(error);
      },
    );
  }
}
