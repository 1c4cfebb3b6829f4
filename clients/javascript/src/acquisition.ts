/** The shell of a machine: carries out what it decides, and tells it what came of that. */
import { Closed, Denied, LockLost, OutcomeUnknown, Timeout, Unreachable, type LostReason } from "./errors.js";
import type { Shared } from "./client.js";
import { Machine, type Input, type Output, type Plan, type Refusal } from "./machine.js";
import { Unsent, acquire, answer, failure, said, words, type Extras, type Message, type Claim } from "./wire.js";

const NOT_SUBSCRIBED = new Unsent(new Unreachable(new Error("not subscribed yet")));

export interface Order extends Extras {
  readonly claim: Claim;
  /** In ms; 0 asks once. */
  readonly wait: number;
  readonly renew: boolean;
}

/** Names an acquisition among those of its client. */
export function address(claim: Claim): string {
  return `${claim.mode} ${encodeURIComponent(claim.owner)} ${claim.lock}`;
}

/** One owner's acquisition of one lock, from the first request to the last. */
export class Acquisition {
  readonly machine: Machine;
  readonly loss = new AbortController();
  token = 0;
  /** Guards that were not released yet. */
  guards = 0;
  readonly #began: number;
  #acquired = 0;
  #settle: { resolve(): void; reject(error: unknown): void } | undefined;
  #released: { resolve(): void; reject(error: unknown): void } | undefined;
  /** Commands that change the number of holds, one after the other. */
  #levels: Promise<unknown> = Promise.resolve();

  constructor(
    readonly shared: Shared,
    readonly order: Order,
  ) {
    const { lease, wait, renew, fenced } = order;
    const plan: Plan = { lease, wait, renew, fenced, response: shared.response, slack: shared.clock.slack };
    this.machine = new Machine(plan);
    this.#began = shared.clock.now();
  }

  get lock(): string {
    return this.order.claim.lock;
  }

  /** Resolves when the lock is held; rejects without a trace in the server otherwise. */
  start(): Promise<void> {
    this.shared.enter(this);
    return new Promise((resolve, reject) => {
      this.#settle = { resolve, reject };
      this.feed({ type: "start" });
    });
  }

  feed(input: Input): void {
    for (const output of this.machine.input(input, this.shared.clock.now())) this.#carryOut(output);
    // It waited for both connections, and needs one from now on.
    if (this.machine.down && !this.machine.waits && input.type !== "linkDown" && this.shared.link.ready(false))
      this.feed({ type: "linkUp" });
  }

  tick(): void {
    this.feed({ type: "tick" });
  }

  message(message: Message): void {
    this.feed({ type: "message", notice: message.notice, token: message.token });
  }

  /** How much longer the lock is held without another renewal. */
  check(): number {
    const left = this.machine.deadline - this.shared.clock.now();
    if (this.machine.phase === "held" && left > 0) return left;
    if (this.machine.phase === "held") this.tick();
    throw this.lostBy ?? new LockLost(this.lock, "released");
  }

  get lostBy(): LockLost | undefined {
    return this.loss.signal.reason as LockLost | undefined;
  }

  /** Releases one of its guards. */
  async leave(): Promise<void> {
    this.guards -= 1;
    return this.guards > 0 ? this.level(-1) : this.release();
  }

  release(): Promise<void> {
    // A deadline that has passed unseen is a loss.
    this.tick();
    if (this.lostBy) {
      if (this.machine.phase === "lost") this.shared.enter(this);
      this.feed({ type: "release" });
      return Promise.reject(this.lostBy);
    }
    return new Promise((resolve, reject) => {
      this.#released = { resolve, reject };
      this.feed({ type: "release" });
    });
  }

  /** The client is closed: no answer will come any more. */
  abandon(): void {
    this.shared.timers.forget(this);
    this.#released?.reject(new OutcomeUnknown(this.lock, new Closed()));
  }

  /** Adds a hold, or removes one that is not the last. */
  level(change: 1 | -1): Promise<void> {
    const done = this.#levels.then(() => (change === 1 ? this.#raise() : this.#lower()));
    this.#levels = done.catch(() => undefined);
    return done;
  }

  async #raise(): Promise<void> {
    this.check();
    const { claim } = this.order;
    this.guards += 1;
    // The server counts one permit, however many guards there are here.
    if (claim.mode === "PERMIT") return;
    try {
      // Never the first hold: one that was lost must not come back in silence.
      const reply = await this.shared.request(claim.lock, acquire(claim, { ...this.order, fair: false }, this.guards));
      const held = answer("ACQUIRE", reply);
      if (held.kind === "held") this.token = Math.max(this.token, held.token);
      else this.feed({ type: "lose", why: "taken" });
      this.check();
    } catch (error) {
      this.guards -= 1;
      throw error;
    }
  }

  async #lower(): Promise<void> {
    const { claim } = this.order;
    if (claim.mode === "PERMIT") return void this.check();
    const mode = said(claim.mode);
    // Whatever comes of it: the last release removes all holds.
    await this.shared
      .request(claim.lock, ["RLOCK.RELEASE", claim.lock, claim.owner, ...mode, "HOLDS", String(this.guards)])
      .catch(() => undefined);
    this.check();
  }

  #carryOut(output: Output): void {
    const { shared, lock } = this;
    switch (output.type) {
      case "send":
        return this.#send(output);
      case "timer":
        return shared.timers.plan(this, output.at ?? Infinity);
      case "held":
        this.token = output.token;
        this.guards = 1;
        this.#acquired = shared.clock.now();
        shared.tell({ type: "acquired", lock, waited: this.#acquired - this.#began });
        return this.#settle?.resolve();
      case "refused":
        return this.#settle?.reject(this.#refused(output.refusal, output.cause));
      case "renewed":
        return shared.tell({ type: "renewed", lock });
      case "renewalFailed":
        return shared.tell({ type: "renewalFailed", lock, error: output.error });
      case "lost":
        return this.#lost(output.why);
      case "released":
        if (output.outcome.kind === "ok") {
          shared.tell({ type: "released", lock, held: shared.clock.now() - this.#acquired });
          return this.#released?.resolve();
        }
        if (output.outcome.kind === "lost") {
          this.#lost(output.outcome.why);
          return this.#released?.reject(this.lostBy);
        }
        return this.#released?.reject(
          output.outcome.kind === "unknown" ? new OutcomeUnknown(lock, output.outcome.error) : output.outcome.error,
        );
      case "ended":
        shared.leave(this);
    }
  }

  #lost(why: LostReason): void {
    this.shared.tell({ type: "lost", lock: this.lock, why, held: this.shared.clock.now() - this.#acquired });
    // A lost lock needs no release; one that is released all the same enters again.
    if (why !== "closed") this.shared.leave(this);
    this.loss.abort(new LockLost(this.lock, why));
  }

  #refused(refusal: Refusal, cause: Error | undefined): unknown {
    if (refusal.kind === "error") return refusal.error;
    if (refusal.kind === "denied") {
      this.shared.tell({ type: "denied", lock: this.lock });
      return new Denied(this.lock);
    }
    const waited = this.shared.clock.now() - this.#began;
    this.shared.tell({ type: "timedOut", lock: this.lock, waited });
    return new Timeout(this.lock, waited, cause);
  }

  #send({ id, command, wait, look }: Extract<Output, { type: "send" }>): void {
    const { shared, order } = this;
    const { claim } = order;
    const sentAt = shared.clock.now();
    const heard = command === "ENQUEUE";
    const requested =
      heard && !shared.link.ready(true)
        ? Promise.reject(NOT_SUBSCRIBED)
        : shared.link.request(words(command, claim, order, wait ?? 0, shared.channel));
    // A repeat also asks how long the holder's lease can last, which not every user may.
    const lease = look === true ? shared.link.request(["PTTL", claim.lock]).catch(() => undefined) : undefined;
    Promise.all([requested, lease]).then(
      ([reply, holderLease]) => this.feed({ type: "reply", id, sentAt, answer: answer(command, reply, holderLease) }),
      (cause: unknown) => {
        const { failure: kind, error } = failure(claim.lock, cause, shared.link.driver.follows);
        this.feed({ type: "reply", id, sentAt, answer: { kind: "error", failure: kind, error } });
        if (kind === "passing" && error.message.includes("READONLY")) shared.link.doubt(error);
      },
    );
  }
}
