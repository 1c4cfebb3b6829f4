/** The shell of a machine: carries out what it decides, and tells it what came of that. */
import type { Client } from "./client.js";
import { Closed, Denied, Invalid, LockLost, OutcomeUnknown, Timeout, Unreachable, type LostReason } from "./errors.js";
import { Link } from "./link.js";
import { Machine, type Output } from "./machine.js";
import { ServerError, address, answer, words, type Order } from "./wire.js";

/** The longest time of a timer. */
export const LONGEST_TIMER = 2 ** 31 - 1;

/** Those that a signal ends: each signal has one listener here, since more than ten are reported as a leak. */
const ended = new WeakMap<AbortSignal, Set<() => void>>();

/** Calls this when the signal is aborted. Returns what takes that back. */
export function whenAborted(signal: AbortSignal | undefined, act: () => void): () => void {
  if (!signal) return () => undefined;
  const acts = ended.get(signal) ?? new Set();
  const all = () => acts.forEach((each) => each());
  if (!ended.has(signal)) signal.addEventListener("abort", all, { once: true });
  ended.set(signal, acts.add(act));
  return () => void acts.delete(act);
}

type Sent = Extract<Output, { type: "send" }>;

/** One owner's acquisition of one lock, from the first request to the last. */
export class Acquisition {
  readonly machine: Machine;
  /** The server that has the lock, as far as it is known. */
  link: Link;
  /** The server of the last command: another one while the slot moves. A session ends with the connection to it. */
  tied: Link;
  /** When it is woken, and its place among those that are. */
  wakeAt = Infinity;
  place = -1;
  readonly loss = new AbortController();
  token = 0;
  /** Guards that were not released yet. */
  guards = 1;
  readonly #began: number;
  /** The last command that was refused as UNTIED. */
  #untied = 0;
  readonly #response: number;
  #acquired = 0;
  /** The caller that waits, for the lock or the end of its release. */
  #caller: { resolve(): void; reject(error: unknown): void } | undefined;
  readonly #changes = new Set<() => void>();
  /** Commands that change the number of holds, one after the other. */
  #levels: Promise<unknown> = Promise.resolve();

  constructor(
    readonly client: Client,
    readonly order: Order,
  ) {
    this.#response = Math.min(client.response, Math.max(order.lease / 6, 50));
    // Asked once, it is given up after two response times, which are the caller's limit here.
    const named = !order.owner.startsWith(`${client.identity}:`);
    this.machine = new Machine({ ...order, confirmFirst: named, response: client.limit / 2, slack: client.clock.slack });
    this.link = this.tied = client.link(order.lock);
    this.#began = client.clock.now();
  }

  /** Resolves when the lock is held; rejects without a trace in the server otherwise. With `adopt`, another process held it. */
  start(signal: AbortSignal | undefined, adopt = false): Promise<void> {
    this.client.enter(this);
    const forget = whenAborted(signal, () => this.cancel(signal?.reason));
    const started = this.#call((machine) => {
      if (this.order.wait !== 0) this.link.listen();
      if (!this.link.ready(this.order.wait !== 0)) machine.linkDown();
      if (adopt) machine.adopt();
      else machine.start();
    });
    return started.finally(forget);
  }

  /** An input for the machine, and what is to be done then. */
  feed(input: (machine: Machine) => void): void {
    const { client, machine } = this;
    const outputs = machine.take(client.clock.now(), input);
    for (const output of outputs) this.#carryOut(output);
    client.timers.plan(this, machine.wakeAt);
    if (outputs.length > 0) for (const each of this.#changes) each();
    // A lock that is lost or given up needs no messages any more.
    if (machine.down && machine.phase !== "new" && this.link.ready(machine.waits)) this.feed((it) => it.linkUp());
  }

  /** The caller waits no longer, for this reason. */
  cancel(error: unknown): void {
    if (this.machine.asks) this.feed((machine) => machine.cancel(error));
  }

  /** The link is down, at least as far as it is needed. */
  unlink(): void {
    const { link, machine, order, tied } = this;
    if (!machine.down && !(link.ready(machine.waits) && (order.grace === 0 || tied.ready(false)))) this.feed(() => machine.linkDown());
    this.follow();
  }

  /**
   * Goes to the server that has the lock by now. Only if this command is under way, which its server has refused, or none and the
   * server is another one: else the answer of that command will say so.
   */
  follow(underWay?: number): void {
    const { client, machine } = this;
    const link = client.link(this.order.lock);
    if (machine.pending !== underWay || (underWay === undefined && link === this.link)) return;
    this.feed(() => {
      machine.moved();
      this.link = this.tied = link;
      if (machine.waits) link.listen();
    });
  }

  /** Until something changes here, for so long at most. */
  changed(ms: number, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        forget();
        this.#changes.delete(done);
        resolve();
      };
      const timer = setTimeout(done, Math.min(ms, LONGEST_TIMER));
      const forget = whenAborted(signal, done);
      this.#changes.add(done);
      if (signal?.aborted) done();
    });
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

  /** Releases one of its guards; if `plain`, it is not kept for any time. */
  leave(plain = false): Promise<void> {
    this.guards -= 1;
    if (this.guards > 0) return this.level(-1).then(() => undefined);
    const released = this.release(plain);
    // Not before the release is sent: a listener that hears of a loss may acquire the lock as the same owner, and the release would
    // end that hold.
    this.client.named.delete(address(this.order));
    return released;
  }

  release(plain: boolean): Promise<void> {
    // A deadline that has passed unseen is a loss.
    this.tick();
    if (!this.lostBy) return this.#end((machine) => (plain ? machine.cancel(undefined) : machine.release()));
    if (this.client.closed) return Promise.reject(this.lostBy);
    if (this.machine.phase === "lost") this.client.enter(this);
    this.feed((machine) => machine.release());
    return Promise.reject(this.lostBy);
  }

  /** Leaves the lock to another process. Resolves to how long it is certainly held. */
  async detach(): Promise<number> {
    const { client, machine, order } = this;
    this.check();
    if (this.guards > 1) throw new Invalid(`the lock ${order.lock} has other guards: release them before you detach it`);
    this.guards = 0;
    const detached = this.#end((it) => it.detach());
    client.named.delete(address(order));
    return detached.then(() => Math.max(0, machine.leaseEnd - client.clock.now()));
  }

  #end(input: (machine: Machine) => void): Promise<void> {
    const { client, order } = this;
    const ending = this.#call(input);
    // It goes on until the lease ends, and nobody waits for it.
    const unknown = () => this.#caller?.reject(new OutcomeUnknown("", order.lock, this.link.kept(false)));
    const late = setTimeout(unknown, client.limit);
    return ending.finally(() => clearTimeout(late));
  }

  /** Whether the server still holds the lock for it, as far as it is known. */
  get held(): boolean {
    return ["held", "releasing", "lost"].includes(this.machine.phase);
  }

  /** The client is closed: no answer will come any more. */
  abandon(): void {
    this.#caller?.reject(new OutcomeUnknown("", this.order.lock, new Closed()));
    for (const each of this.#changes) each();
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
    const { client, machine, order } = this;
    if (change === 1) this.guards += 1;
    try {
      // The server counts one permit, however many guards there are here.
      if (order.mode === "PERMIT") return true;
      // Never the first hold: one that was lost must not come back in silence.
      const holds = this.guards;
      let tied = true;
      const asked = client.request(order.lock, (link) => {
        if (change === -1) return words("RELEASE", order, { holds });
        // By another link it ends the tie, and only renewals move it: the heartbeats of one server must not prove a hold that is tied at
        // another, whether or not this is refused, or answered.
        tied = order.grace === 0 || link === this.tied;
        return words("ACQUIRE", { ...order, fair: false }, { holds, session: tied });
      });
      const reply = asked.finally(() => {
        // The answer to a renewal that is under way says nothing of a tie that has ended since.
        if (!tied && machine.phase === "held") this.feed(() => machine.moved());
      });
      if (change === 1) {
        const held = answer("ACQUIRE", await reply);
        if (held.kind === "held") this.token = Math.max(this.token, held.token);
        else this.feed((machine) => machine.lose("taken"));
      }
      // Whatever comes of a release of some: the last one removes all holds.
      await reply.catch(() => undefined);
      this.follow();
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
              ? new OutcomeUnknown("", lock, output.error ?? this.link.kept(false))
              : (output.error ?? this.lostBy),
          );
        client.tell({ type: "released", lock, held: now - this.#acquired });
        return this.#caller?.resolve();
      case "ended":
        if (this.machine.kept) client.keep(order);
        client.leave(this);
    }
  }

  #lost(why: LostReason, ended = false): void {
    const { lock } = this.order;
    this.client.tell({ type: "lost", lock, why, held: this.client.clock.now() - this.#acquired });
    // The server has nothing of one that was taken: a late message grants it anew.
    if (this.order.atLeast > 0 && why !== "taken") this.client.keep(this.order);
    // A lost lock needs no release; one that is released all the same enters again.
    if (why === "expired" || why === "overdue") this.client.leave(this);
    this.loss.abort(new LockLost(lock, why, ended));
  }

  #refused({ kind, error, silent }: Extract<Output, { type: "refused" }>): unknown {
    const { client, order } = this;
    const { lock, wait } = order;
    // The newest reason.
    const why = silent && (error === undefined || error instanceof Unreachable) ? this.link.kept(wait !== 0) : error;
    if (kind === "error") return why ?? this.link.kept(wait !== 0);
    const waited = client.clock.now() - this.#began;
    if (kind === "lost") return new LockLost(lock, "taken");
    client.tell(kind === "denied" ? { type: "denied", lock } : { type: "timedOut", lock, waited });
    return kind === "denied" ? new Denied("", lock) : new Timeout(waited.toFixed(), lock, why);
  }

  /**
   * By another link once, to a server that is given the slot. That server sends no messages before it has the slot, so that the owner
   * cannot be queued there.
   */
  #send(output: Sent, link = this.link): void {
    const { client, machine, order } = this;
    const { id, wait = 0, look, lease, session } = output;
    const once = link !== this.link;
    const command = once && output.command === "ENQUEUE" ? "ACQUIRE" : output.command;
    if (link !== this.tied) machine.untie();
    this.tied = link;
    if (order.grace !== 0) link.commands.beat(order.grace);
    const sentAt = client.clock.now();
    const request = words(command, order, { lease, session, enqueue: [wait, link.channel] });
    const asking = once ? link.commands.request(["ASKING"], this.#response) : undefined;
    const asked = link.commands.request(request, this.#response);
    // A repeat also asks how long the holder's lease can last, which not every user may.
    const replies = Promise.all([asked, look && !once ? link.look(order.lock) : undefined, asking]);
    replies.then(
      ([reply, holderLease]) => {
        const told = answer(command, reply, holderLease);
        const error = told.kind === "null" && command !== output.command ? new Denied("", order.lock) : undefined;
        this.feed(() => machine.reply(id, sentAt, error ? { kind: "error", failure: "passing", error } : told));
      },
      (cause: unknown) => this.#failed(output, sentAt, link, cause),
    );
  }

  #failed(output: Sent, sentAt: number, link: Link, cause: unknown): void {
    const { client, machine, order } = this;
    const next = client.redirection(cause);
    // A server that is asked once sends nothing on.
    if (link === this.link && next === "moved") return this.follow(output.id);
    // Behind its CANCEL a request would leave a lock behind.
    const counts = link === this.link && machine.pending === output.id;
    if (counts && next instanceof Link && next.commands.connection) return this.#send(output, next);
    const refused = cause instanceof ServerError ? cause.message : "";
    if (counts && refused.startsWith("UNTIED ") && this.#untied !== output.id) {
      this.#untied = output.id;
      const plain = link.commands.request(words("RENEW", order, { lease: output.lease, session: false }), this.#response);
      // A closed connection, against which the server protects the hold, receives no answer: only now the tie.
      const again = (): unknown => machine.pending === output.id && link === this.link && this.#send(output);
      return void plain.then(again, (why: unknown) => this.#failed(output, sentAt, link, why));
    }
    const moved = refused.includes("does not serve the channel's slot");
    if (moved) link.listenAnew(cause);
    const { failure, error } = client.failure(order.lock, cause, link);
    const kind = moved || next !== undefined ? "passing" : failure;
    this.feed(() => machine.reply(output.id, sentAt, { kind: "error", failure: kind, error }));
  }
}
