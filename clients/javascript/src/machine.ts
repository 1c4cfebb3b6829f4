/**
 * One acquisition, from the first request to the last: decisions only. It reads no clock and does no I/O; the shell feeds
 * it inputs with the time, and carries out what it returns.
 */

/** What becomes of one acquisition. */
export interface Plan {
  /** In ms. */
  readonly lease: number;
  /** In ms; 0 asks once. */
  readonly wait: number;
  readonly renew: boolean;
  readonly fenced: boolean;
  /** Whether a grant by message is always confirmed before the caller has the lock: the owner may have been used before. */
  readonly confirmFirst: boolean;
  /** How long the lock stays held at least, in ms from when the caller got it, and how long it is renewed at most. */
  readonly atLeast: number;
  readonly maxHold: number;
  /** The grace of a session, in ms; 0 for none. */
  readonly grace: number;
  /** How long the server may take to answer a command, in ms. */
  readonly response: number;
  /** What a coarse clock may be wrong by, in ms: taken off each deadline. */
  readonly slack: number;
}

export type Command = "ENQUEUE" | "ACQUIRE" | "RENEW" | "CANCEL" | "RELEASE";
export type Why = "expired" | "overdue" | "taken" | "closed";

/**
 * Why a command failed. `final`: the server refused it, and will again; `passing`: the server refused it for now; `draining`: it
 * refuses new owners until another server takes over; `gone`: the key holds something else; `unsent`: there was no connection;
 * `unanswered`: the server may have carried it out.
 */
export type Failure = "final" | "passing" | "draining" | "gone" | "unsent" | "unanswered";

export type Answer =
  | { readonly kind: "held"; readonly token: number }
  | { readonly kind: "queued"; readonly holderLease?: number | undefined }
  | { readonly kind: "null" }
  | { readonly kind: "integer"; readonly value: number }
  | { readonly kind: "error"; readonly failure: Failure; readonly error: Error };

/** A message. `lease` is that of the grant. */
export interface Message {
  readonly notice: "granted" | "timeout" | "dropped";
  readonly token: number;
  readonly lease: number;
  /** Whether it came by the subscription at the server to which the last ENQUEUE went, while the command link to that server was up. */
  readonly current: boolean;
}

export type Refusal = "timeout" | "denied" | "error" | "lost";

/** `refused`: the acquisition ended without the lock. `ended`: nothing of it is left here nor, as far as it is known, in the server. */
export type Output =
  | {
      readonly type: "send";
      readonly id: number;
      readonly command: Command;
      readonly wait?: number;
      readonly look?: boolean;
      /** Of a renewal, if not that of the plan. */
      readonly lease?: number;
      /** `false`: a renewal after which no session ends the hold. */
      readonly session?: boolean;
    }
  | { readonly type: "held"; readonly token: number }
  /** `silent`: no server answered at the end. */
  | { readonly type: "refused"; readonly kind: Refusal; readonly error: unknown; readonly silent: boolean }
  | { readonly type: "renewed" | "ended" }
  | { readonly type: "renewalFailed"; readonly error: Error }
  /** `ended`: a lease that is not renewed came to its end. */
  | { readonly type: "lost"; readonly why: Why; readonly ended: boolean }
  | { readonly type: "released"; readonly outcome: "ok" | "lost" | "unknown" | "error"; readonly error?: Error };

export type Phase = "new" | "asking" | "queued" | "confirming" | "held" | "releasing" | "lost" | "cancelling" | "ended";

/** A waiter that has heard nothing asks again after this time, and then as often as the holder's lease lasts. */
const FIRST_LOOK = 1_000;
const LONGEST_LOOK = 30_000;
/** The pause after a refusal that passes; each next is twice as long. */
const FIRST_PAUSE = 20;
const LONGEST_PAUSE = 1_000;
/** Renewals that are due so soon go along with those that are due now. */
const WINDOW = 100;
const DOUBLINGS = 6;
/** How long after the last answer the effect of a stray request is undone. */
const STRAY = 1_000;

/** When a time that counts from sending ends by the local clock: before it ends by the server's, which may run faster. */
export function endOf(sentAt: number, time: number, slack: number): number {
  return sentAt + time * 0.99 - 2 - slack;
}

/** The inputs are its public methods, given by `take`. */
export class Machine {
  phase: Phase = "new";
  /** Whether the link is down. */
  down = false;
  /** The command whose reply counts. */
  pending: number | undefined;
  /** By the local clock, while the lock is held; a session apart. */
  leaseEnd = 0;
  /** Until when the lock stays held after its release; `Infinity`: until another process releases it. */
  #keptUntil: number | undefined;
  readonly #plan: Plan;
  #out: Output[] = [];
  #now = 0;
  #id = 0;
  /** When the next request is due. */
  #next = Infinity;
  /** When the wait ends, or a release or a cancellation is given up. */
  #until = Infinity;
  /** When the first request was sent: no grant of a new owner is older. */
  #firstSent = 0;
  #renewAt = 0;
  /** The lease of a grant by message that no RENEW has confirmed. */
  #unconfirmed: number | undefined;
  /** Whether all requests went by the link that is up, or the hold was confirmed by it; and when the last answered command was sent by it. */
  #tied = false;
  #proven = 0;
  #heldAt = 0;
  #askedAt = 0;
  /** When the server was heard last. */
  #heardAt = 0;
  #asks = 0;
  #looks = 0;
  #pause = FIRST_PAUSE;
  #token = 0;
  #failures = 0;
  #repeated = false;
  /** Whether a request may have reached the server that was never answered. */
  #stray = false;
  /** Whether a message ended the wait before its request was answered. */
  #overtaken = false;
  #queued = false;
  /** Whether it began with the hold of another process. */
  #adopts = false;
  #error: Error | undefined;

  constructor(plan: Plan) {
    this.#plan = plan;
  }

  /** By the local clock, while the lock is held: the end of the lease, or of the session if it may be earlier. */
  get deadline(): number {
    const { grace, slack } = this.#plan;
    return grace === 0 ? this.leaseEnd : Math.min(this.leaseEnd, endOf(this.#proven, grace, slack));
  }

  /** When it needs a tick. */
  get wakeAt(): number {
    if (this.phase === "held") return Math.min(this.deadline, this.#renews() ? this.#renewAt : Infinity);
    return Math.min(this.#until, this.down ? Infinity : this.#next);
  }

  /** Whether the caller waits for the lock. */
  get asks(): boolean {
    return ["new", "asking", "queued", "confirming"].includes(this.phase);
  }

  /** Whether it needs messages now. */
  get waits(): boolean {
    return this.#plan.wait !== 0 && this.asks && this.phase !== "new";
  }

  /** Whether the hold outlasts its release: nothing may end it, whether or not the server has answered. */
  get kept(): boolean {
    return this.#keptUntil !== undefined;
  }

  /** One input at this time: what is to be done. */
  take(now: number, input: (machine: this) => void): Output[] {
    this.#out = [];
    this.#now = now;
    // Before anything else: a reply that comes too late must not bring a lost lock back.
    if (this.phase === "held" && now >= this.deadline) this.#lose(this.#overdue() ? "overdue" : "expired");
    input(this);
    return this.#out;
  }

  start(): void {
    this.#until = this.#now + (this.#plan.wait || 2 * this.#plan.response);
    this.#ask();
  }

  /** Begins with the hold of another process. */
  adopt(): void {
    this.#adopts = true;
    this.start();
  }

  /** The caller waits no longer, or is gone without having received the lock. */
  cancel(error: unknown): void {
    if (this.asks) this.#leave("error", error);
    else this.#end(undefined);
  }

  lose(why: Why): void {
    if (this.phase === "held") this.#lose(why);
  }

  /** A command that was sent at that time was answered on the link. */
  alive(sentAt: number): void {
    if (this.#tied) this.#proven = Math.max(this.#proven, sentAt);
  }

  linkDown(): void {
    this.down = true;
    this.untie();
  }

  /** The next request goes by another link than the last: only its answer proves the hold. */
  untie(): void {
    this.#tied = false;
  }

  /** Another server has the lock by now, or may have tied it: the answer to what is under way proves nothing. */
  moved(): void {
    this.linkDown();
    this.pending = undefined;
  }

  linkUp(): void {
    this.down = false;
    this.#pause = FIRST_PAUSE;
    if (this.phase !== "held" || this.#renewed() || this.#plan.grace > 0) this.#request();
  }

  tick(): void {
    if (this.phase === "held") {
      const early = Math.min(WINDOW, this.#plan.lease / 30);
      return this.#renews() && this.#now >= this.#renewAt - early ? this.#request() : undefined;
    }
    const late = this.#now >= this.#until;
    if (late && this.asks) return this.#leave(this.#plan.wait === 0 ? "error" : "timeout");
    if (late && this.phase === "releasing") return this.#settle("unknown", this.#error);
    if (late && this.phase === "cancelling") return this.#finish();
    if (this.down || this.#now < this.#next) return;
    if (this.phase === "queued") this.#looks += 1;
    this.#request();
  }

  message({ notice, token, lease, current }: Message): void {
    if (this.phase !== "asking" && this.phase !== "queued") return;
    this.#heardAt = this.#now;
    if (notice === "granted") return this.#granted(token, current ? lease : 0);
    // "dropped" or "timeout", maybe of an earlier wait of this owner: only the clock ends this one.
    this.phase = "asking";
    this.#overtaken ||= this.pending !== undefined;
    this.pending = undefined;
    this.#rest();
  }

  release(): void {
    const until = this.#heldAt + this.#plan.atLeast;
    this.#end(this.#now < until ? until : undefined);
  }

  /** Leaves the lock to another process, which adopts it. */
  detach(): void {
    this.#end(Infinity);
  }

  reply(id: number, sentAt: number, answer: Answer): void {
    const failed = answer.kind === "error" ? answer : undefined;
    if (failed?.failure === "unanswered") this.#stray = true;
    if (id !== this.pending) return;
    this.pending = undefined;
    if (failed?.failure === "unsent") this.down = true;
    if (failed && failed.failure !== "gone" && this.phase !== "held") this.#error = failed.error;
    switch (this.phase) {
      case "held":
        return this.#answered(sentAt, answer);
      case "releasing":
        return this.#released(sentAt, answer);
      case "cancelling":
        return failed && failed.failure !== "final" && failed.failure !== "gone" ? this.#rest() : this.#done();
      default:
        return this.#asked(sentAt, answer);
    }
  }

  #send(command: Command, more: { wait?: number; look?: boolean; lease?: number; session?: boolean } = {}): void {
    this.#id += 1;
    this.pending = this.#id;
    this.#next = Infinity;
    this.#out.push({ type: "send", id: this.#id, command, ...more });
  }

  /** Sends what the phase needs, for the first time or again. */
  #request(): void {
    if (this.asks) return this.phase === "new" ? undefined : this.#ask();
    if (this.down) return;
    if (this.phase === "held") {
      // A lease that is not renewed keeps its end: only its tie is new.
      const left = Math.floor(((this.leaseEnd - this.#now) * 100) / 99) + 4;
      return this.#send("RENEW", this.#renewed() ? {} : { lease: left });
    }
    // The release before may have been carried out.
    if (this.phase === "releasing") this.#repeated ||= this.pending !== undefined;
    else if (this.phase !== "cancelling") return;
    const left = (this.#keptUntil ?? 0) - this.#now;
    if (left > 0) return this.#send("RENEW", { lease: left === Infinity ? this.#plan.lease : Math.ceil(left), session: false });
    // In this order: a grant between the two is released by the second.
    if (this.phase === "cancelling" && this.#queued) this.#send("CANCEL");
    this.#send("RELEASE");
  }

  #ask(): void {
    this.phase = this.#adopts ? "confirming" : "asking";
    this.pending = undefined;
    this.#next = Infinity;
    if (this.down) return;
    if (this.#adopts) return this.#send("RENEW");
    if (this.#asks === 0) {
      this.#firstSent = this.#proven = this.#now;
      this.#tied = true;
    }
    this.#asks += 1;
    this.#askedAt = this.#now;
    if (this.#plan.wait === 0) return this.#send("ACQUIRE");
    this.#queued = true;
    // On the wire, 0 means for ever.
    const wait = this.#until === Infinity ? 0 : Math.max(1, Math.ceil(this.#until - this.#now));
    this.#send("ENQUEUE", { wait, look: this.#looks > 0 });
  }

  /**
   * Granted by message. The lock is held at once if the grant can only be one that this server made for this acquisition, and if half of
   * its lease is left since the first request: a RENEW must arrive before it ends.
   */
  #granted(token: number, lease: number): void {
    const { confirmFirst, fenced, grace, slack } = this.#plan;
    // After a repeat the token may be one of an earlier grant.
    const proved = lease > 0 && !confirmFirst && this.#tied && this.#asks > 0 && (!fenced || this.#asks === 1);
    const end = endOf(this.#firstSent, lease, slack);
    const alive = grace === 0 || endOf(this.#proven, grace, slack) > this.#now;
    if (!proved || !alive || end <= this.#now || end - this.#now < lease / 2) return this.#confirm(token);
    // A repeat without an answer may be carried out after this grant has ended.
    this.#stray ||= this.#asks > 1 && (this.pending !== undefined || this.#overtaken);
    this.leaseEnd = end;
    this.#unconfirmed = lease;
    this.#renewAt = this.#now + lease / 10;
    this.#hold(token);
  }

  #confirm(token: number): void {
    this.phase = "confirming";
    this.#token = token;
    this.#askedAt = this.#now;
    // The token of the message may be one of an earlier grant.
    this.#send(this.#plan.fenced ? "ACQUIRE" : "RENEW");
  }

  #asked(sentAt: number, answer: Answer): void {
    if (answer.kind === "error") return this.#failed(answer.failure, answer.error);
    const confirmed = this.phase === "confirming" && answer.kind === "integer" && answer.value === 1;
    if (answer.kind === "held" || confirmed) {
      this.#confirmed(sentAt);
      this.leaseEnd = endOf(sentAt, this.#plan.lease, this.#plan.slack);
      const token = answer.kind === "held" ? answer.token : this.#token;
      // The reply lay in a buffer for longer than the lease: only the server can tell.
      return this.deadline <= this.#now ? this.#confirm(token) : this.#hold(token);
    }
    if (this.phase === "confirming") return this.#adopts ? this.#leave("lost") : this.#ask();
    if (answer.kind !== "queued") return this.#leave("denied", undefined, true);
    this.phase = "queued";
    this.#pause = FIRST_PAUSE;
    this.#error = undefined;
    this.alive(sentAt);
    const lease = answer.holderLease ?? LONGEST_LOOK;
    this.#next = this.#now + (this.#looks === 0 ? FIRST_LOOK : Math.min(Math.max(lease, FIRST_LOOK), LONGEST_LOOK));
  }

  /** A request for the lock failed: it is made again, unless that is pointless. */
  #failed(failure: Failure, error: Error): void {
    if (failure === "final" || failure === "gone" || (failure === "draining" && this.#plan.wait === 0)) {
      // It was not carried out, but those before it may have been.
      return this.#leave("error", error, this.#asks === 1 && this.phase === "asking");
    }
    if (!this.#adopts) this.phase = "asking";
    this.#rest();
  }

  #rest(): void {
    this.#next = this.#now + this.#pause;
    this.#pause = Math.min(this.#pause * 2, LONGEST_PAUSE);
  }

  #hold(token: number): void {
    this.phase = "held";
    this.#token = token;
    this.#heldAt = this.#now;
    // A RENEW of the process that detached the hold may be carried out late, with another lease.
    if (this.#adopts) this.#renewAt = Math.min(this.#renewAt, this.#now + STRAY);
    this.pending = undefined;
    this.#out.push({ type: "held", token });
  }

  /** The server has the hold; what is answered after this on the same link proves that it has it still. */
  #confirmed(sentAt: number): void {
    this.#tied = !this.down;
    this.#proven = Math.max(this.#proven, sentAt);
    this.#renewAt = sentAt + this.#plan.lease / 3;
  }

  #overdue(): boolean {
    return this.#now >= this.#heldAt + this.#plan.maxHold;
  }

  /** Whether the lease is renewed now: a fixed one is not, once it is confirmed. */
  #renewed(): boolean {
    return (this.#plan.renew && !this.#overdue()) || this.#unconfirmed !== undefined;
  }

  #renews(): boolean {
    const wanted = this.#renewed() || this.#adopts || (this.#plan.grace > 0 && !this.#tied);
    return wanted && this.pending === undefined && !this.down;
  }

  #answered(sentAt: number, answer: Answer): void {
    if (answer.kind === "error" && answer.failure !== "gone") {
      // Short pauses first: most failures are over soon.
      const lease = this.#unconfirmed ?? this.#plan.lease;
      this.#renewAt = this.#now + lease / 12 / 2 ** (DOUBLINGS - Math.min(this.#failures, DOUBLINGS));
      this.#failures += 1;
      this.#out.push({ type: "renewalFailed", error: answer.error });
    } else if (answer.kind === "integer" && answer.value === 1) {
      this.#failures = 0;
      this.#confirmed(sentAt);
      if (this.#renewed()) this.leaseEnd = Math.max(this.leaseEnd, endOf(sentAt, this.#plan.lease, this.#plan.slack));
      this.#unconfirmed = undefined;
      this.#adopts = false;
      this.#out.push({ type: "renewed" });
    } else this.#lose("taken");
  }

  #lose(why: Why): void {
    this.phase = "lost";
    this.#stop();
    this.#out.push({ type: "lost", why, ended: !this.#plan.renew && this.#now >= this.leaseEnd });
    // The server has nothing left that could be released.
    if (why === "taken") this.#done();
  }

  /** The caller has the lock no longer. */
  #end(keptUntil: number | undefined): void {
    if (this.phase !== "lost" && this.phase !== "held") return;
    this.#keptUntil = keptUntil;
    // Its lease will end, and that is not too soon.
    if (this.phase === "lost" && keptUntil !== undefined) return this.#finish();
    // The server may have a lost hold still, and others wait for it.
    const lost = this.phase === "lost";
    this.phase = lost ? "cancelling" : "releasing";
    this.#queued = false;
    this.pending = undefined;
    this.#until = lost ? this.#now + this.#plan.lease : this.leaseEnd;
    this.#next = Infinity;
    this.#request();
  }

  #released(sentAt: number, answer: Answer): void {
    if (answer.kind === "error" && answer.failure !== "gone") {
      if (answer.failure === "final") return this.#settle("error", answer.error);
      this.#repeated ||= answer.failure === "unanswered";
      return this.#rest();
    }
    // 0 of RENEW. It is asked for again by RENEW only, so that 0 is certain.
    if (answer.kind === "integer" && answer.value === 0 && this.kept) return this.#settle("lost");
    if (answer.kind !== "integer") return this.#repeated ? this.#settle("unknown", this.#error) : this.#settle("lost");
    if (this.#keptUntil === Infinity) this.leaseEnd = endOf(sentAt, this.#plan.lease, this.#plan.slack);
    this.#settle("ok");
  }

  #settle(outcome: "ok" | "lost" | "unknown" | "error", error?: Error): void {
    this.#out.push({ type: "released", outcome, ...(error && { error }) });
    if (outcome === "lost") this.#keptUntil = undefined;
    // The process that adopts the hold sets its lease. If it is unknown what became of the hold, its lease ends it.
    if (this.kept && (outcome !== "ok" || this.#keptUntil === Infinity)) this.#stray = false;
    this.#done();
  }

  /** The release was answered; a stray request that the server carries out after it would hold for no caller, or shorten what is kept. */
  #done(): void {
    if (!this.#stray || this.down) return this.#finish();
    this.phase = "cancelling";
    this.#stray = false;
    this.#queued = true;
    this.#next = this.#now + STRAY;
    this.#until = this.#now + 3 * STRAY;
  }

  /** Ends the acquisition without the lock, and leaves nothing of it in the server, which is `clean` at times. */
  #leave(kind: Refusal, error: unknown = this.#error, clean = false): void {
    const silent = this.down || (this.phase !== "queued" && this.#now > Math.max(this.#askedAt, this.#heardAt) + WINDOW);
    this.#out.push({ type: "refused", kind, error, silent });
    if (clean || this.#asks === 0) return this.#finish();
    this.phase = "cancelling";
    this.#pause = FIRST_PAUSE;
    this.#until = this.#askedAt + this.#plan.lease + STRAY;
    this.#request();
  }

  #finish(): void {
    this.phase = "ended";
    this.#stop();
    this.#out.push({ type: "ended" });
  }

  #stop(): void {
    this.pending = undefined;
    this.#next = this.#until = Infinity;
  }
}
