/** The shell of a machine: carries out what it decides, and tells it what came of that. */
import type { Client } from "./client.js";
import { Closed, Denied, LockLost, OutcomeUnknown, Timeout, Unreachable, type LostReason } from "./errors.js";
import { Machine, type Output } from "./machine.js";
import { Unsent, address, answer, words, type Order } from "./wire.js";

/** One owner's acquisition of one lock, from the first request to the last. */
export class Acquisition {
  readonly machine: Machine;
  readonly loss = new AbortController();
  token = 0;
  /** Guards that were not released yet. */
  guards = 1;
  readonly #began: number;
  readonly #response: number;
  #acquired = 0;
  /** The caller that waits, for the lock or the end of its release. */
  #caller: { resolve(): void; reject(error: unknown): void } | undefined;
  /** Commands that change the number of holds, one after the other. */
  #levels: Promise<unknown> = Promise.resolve();

  constructor(
    readonly client: Client,
    readonly order: Order,
  ) {
    this.#response = Math.min(client.response, Math.max(order.lease / 6, 50));
    // Asked once, it is given up after two response times, which are the caller's limit here.
    this.machine = new Machine({ ...order, response: client.limit / 2, slack: client.clock.slack });
    this.#began = client.clock.now();
  }

  /** Resolves when the lock is held; rejects without a trace in the server otherwise. */
  start(): Promise<void> {
    this.client.enter(this);
    return this.#call((machine) => machine.start());
  }

  /** An input for the machine, and what is to be done then. */
  feed(input: (machine: Machine) => void): void {
    const { client, machine } = this;
    for (const output of machine.take(client.clock.now(), input)) this.#carryOut(output);
    client.timers.plan(machine.wakeAt);
    // It waited for both connections, and needs one from now on.
    if (machine.down && !machine.waits && client.link.commands.connection) this.feed((it) => it.linkUp());
  }

  tick(): void {
    this.feed((machine) => machine.tick());
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
    if (this.guards > 0) return this.level(-1).then(() => undefined);
    this.client.named.delete(address(this.order));
    return this.release();
  }

  release(): Promise<void> {
    // A deadline that has passed unseen is a loss.
    this.tick();
    if (!this.lostBy) {
      const { client, order } = this;
      const released = this.#call((machine) => machine.release());
      // The release goes on until the lease ends, and nobody waits for it.
      const unknown = () => this.#caller?.reject(new OutcomeUnknown("", order.lock, client.link.kept(false)));
      const late = setTimeout(unknown, client.limit);
      return released.finally(() => clearTimeout(late));
    }
    if (this.machine.phase === "lost") this.client.enter(this);
    this.feed((machine) => machine.release());
    return Promise.reject(this.lostBy);
  }

  /** Whether the server still holds the lock for it, as far as it is known. */
  get held(): boolean {
    return ["held", "releasing", "lost"].includes(this.machine.phase);
  }

  /** The client is closed: no answer will come any more. */
  abandon(): void {
    this.#caller?.reject(new OutcomeUnknown("", this.order.lock, new Closed()));
  }

  /** Adds a hold, or removes one that is not the last; `false`: the last guard was released meanwhile, and all holds with it. */
  level(change: 1 | -1): Promise<boolean> {
    const done = this.#levels.then(() => this.#level(change));
    this.#levels = done.catch(() => undefined);
    return done;
  }

  async #level(change: 1 | -1): Promise<boolean> {
    if (this.guards === 0 && !this.lostBy) return false;
    this.check();
    const { client, order } = this;
    if (change === 1) this.guards += 1;
    try {
      // The server counts one permit, however many guards there are here.
      if (order.mode === "PERMIT") return true;
      // Never the first hold: one that was lost must not come back in silence.
      const more = { holds: this.guards };
      const request = change === 1 ? words("ACQUIRE", { ...order, fair: false }, more) : words("RELEASE", order, more);
      const reply = client.request(order.lock, request);
      if (change === 1) {
        const held = answer("ACQUIRE", await reply);
        if (held.kind === "held") this.token = Math.max(this.token, held.token);
        else this.feed((machine) => machine.lose("taken"));
      }
      // Whatever comes of a release of some: the last one removes all holds.
      await reply.catch(() => undefined);
      this.check();
      return true;
    } catch (error) {
      // It may be the last: others can end meanwhile.
      if (change === 1) this.leave().catch(() => undefined);
      throw error;
    }
  }

  #call(input: (machine: Machine) => void): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#caller = { resolve, reject };
      this.feed(input);
    });
  }

  #carryOut(output: Output): void {
    const { client, order } = this;
    const { lock } = order;
    const now = client.clock.now();
    switch (output.type) {
      case "send":
        return this.#send(output);
      case "held":
        this.token = output.token;
        this.#acquired = now;
        client.tell({ type: "acquired", lock, waited: now - this.#began });
        return this.#caller?.resolve();
      case "refused":
        return this.#caller?.reject(this.#refused(output));
      case "renewed":
        return client.tell({ type: "renewed", lock });
      case "renewalFailed":
        return client.tell({ type: "renewalFailed", lock, error: output.error });
      case "lost":
        return this.#lost(output.why, output.ended);
      case "released":
        if (output.outcome === "lost") this.#lost("taken");
        if (output.outcome !== "ok")
          return this.#caller?.reject(
            output.outcome === "unknown"
              ? new OutcomeUnknown("", lock, output.error ?? client.link.kept(false))
              : (output.error ?? this.lostBy),
          );
        client.tell({ type: "released", lock, held: now - this.#acquired });
        return this.#caller?.resolve();
      case "ended":
        client.leave(this);
    }
  }

  #lost(why: LostReason, ended = false): void {
    const { lock } = this.order;
    this.client.tell({ type: "lost", lock, why, held: this.client.clock.now() - this.#acquired });
    // A lost lock needs no release; one that is released all the same enters again.
    if (why === "expired") this.client.leave(this);
    this.loss.abort(new LockLost(lock, why, ended));
  }

  #refused({ kind, error, silent }: Extract<Output, { type: "refused" }>): unknown {
    const { lock, wait } = this.order;
    const { client } = this;
    // The newest reason.
    const why = silent && (error === undefined || error instanceof Unreachable) ? client.link.kept(wait !== 0) : error;
    if (kind === "error") return why ?? client.link.kept(wait !== 0);
    const waited = client.clock.now() - this.#began;
    client.tell(kind === "denied" ? { type: "denied", lock } : { type: "timedOut", lock, waited });
    return kind === "denied" ? new Denied("", lock) : new Timeout(waited.toFixed(), lock, why);
  }

  #send({ id, command, wait = 0, look, lease }: Extract<Output, { type: "send" }>): void {
    const { client, order } = this;
    const { commands, heard } = client.link;
    const sentAt = client.clock.now();
    const request = words(command, order, { ...(lease !== undefined && { lease }), enqueue: [wait, client.channel] });
    const requested =
      command === "ENQUEUE" && !heard ? Promise.reject(new Unsent(client.link.kept(true))) : commands.request(request, this.#response);
    // A repeat also asks how long the holder's lease can last, which not every user may.
    const holder = look === true ? client.link.look(order.lock) : undefined;
    Promise.all([requested, holder]).then(
      ([reply, holderLease]) => this.feed((machine) => machine.reply(id, sentAt, answer(command, reply, holderLease))),
      (cause: unknown) => {
        const { failure: kind, error } = client.failure(order.lock, cause);
        this.feed((machine) => machine.reply(id, sentAt, { kind: "error", failure: kind, error }));
      },
    );
  }
}
