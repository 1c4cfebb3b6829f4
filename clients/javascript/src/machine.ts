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
  /** The grace of a session, in ms; 0 for none. */
  readonly grace: number;
  /** How long the server may take to answer a command, in ms. */
  readonly response: number;
  /** What a coarse clock may be wrong by, in ms: taken off each deadline. */
  readonly slack: number;
}

export type Command = "ENQUEUE" | "ACQUIRE" | "RENEW" | "CANCEL" | "RELEASE";
export type Why = "expired" | "taken" | "closed";

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

export type Notice = "granted" | "timeout" | "dropped";

export type Input =
  | { readonly type: "start" | "linkUp" | "linkDown" | "tick" | "release" }
  | { readonly type: "reply"; readonly id: number; readonly sentAt: number; readonly answer: Answer }
  /** A command that was sent at that time was answered on the link. */
  | { readonly type: "alive"; readonly sentAt: number }
  | { readonly type: "message"; readonly notice: Notice; readonly token: number }
  | { readonly type: "lose"; readonly why: Why }
  | { readonly type: "cancel"; readonly error: unknown };

/** Why an acquisition ended without the lock. */
export type Refusal = { readonly kind: "timeout" | "denied" } | { readonly kind: "error"; readonly error: unknown };

export type Outcome =
  { readonly kind: "ok" } | { readonly kind: "lost"; readonly why: Why } | { readonly kind: "unknown" | "error"; readonly error: Error };

export type Output =
  | {
      readonly type: "send";
      readonly id: number;
      readonly command: Command;
      readonly wait?: number;
      readonly look?: boolean;
      /** Of a renewal that must not lengthen the lease. */
      readonly lease?: number;
    }
  | { readonly type: "timer"; readonly at: number | undefined }
  | { readonly type: "held"; readonly token: number }
  | { readonly type: "refused"; readonly refusal: Refusal; readonly cause: Error | undefined }
  | { readonly type: "renewed" | "ended" }
  | { readonly type: "renewalFailed"; readonly error: Error }
  | { readonly type: "lost"; readonly why: Why }
  | { readonly type: "released"; readonly outcome: Outcome };

export type Phase = "new" | "asking" | "queued" | "confirming" | "held" | "releasing" | "lost" | "leaving" | "ended";

/** A waiter that has heard nothing asks again after this time, and then as often as the holder's lease lasts. */
const FIRST_LOOK = 1_000;
const LONGEST_LOOK = 30_000;
/** The pause after a refusal that passes; each next is twice as long. */
const FIRST_PAUSE = 20;
const LONGEST_PAUSE = 1_000;
/** Renewals that are due so soon go along with those that are due now. */
const WINDOW = 100;
const DOUBLINGS = 6;
/** How long after the last answer a stray request is released. */
const STRAY = 1_000;
const NO_ANSWER = new Error("no answer in time");

/** When a lease ends by the local clock: before the server's, whose clock may run faster. */
export function leaseEnd(sentAt: number, plan: Pick<Plan, "lease" | "slack">): number {
  return sentAt + plan.lease * 0.99 - 2 - plan.slack;
}

export class Machine {
  phase: Phase = "new";
  /** By the local clock, while the lock is held; a session apart. */
  #leaseEnd = 0;
  /** Whether a session ties the hold to the link that is up, and when the last command was sent that was answered while it did. */
  #tied = false;
  #proven = 0;
  readonly #plan: Plan;
  #out: Output[] = [];
  #now = 0;
  #id = 0;
  /** The command whose reply counts. */
  #pending: number | undefined;
  /** Whether the link is down. */
  down = false;
  #end = Infinity;
  /** When the next request is due. */
  #next: number | undefined;
  #asks = 0;
  #looks = 0;
  #pause = FIRST_PAUSE;
  #token = 0;
  #renewAt = 0;
  #failures = 0;
  #repeated = false;
  /** Whether a request may have reached the server that was never answered. */
  #stray = false;
  #queued = false;
  #giveUp = 0;
  #timer: number | undefined;
  #error: Error | undefined;

  constructor(plan: Plan) {
    this.#plan = plan;
  }

  /** By the local clock, while the lock is held: the end of the lease, or of the session if it may be earlier. */
  get deadline(): number {
    const { grace, slack } = this.#plan;
    return grace === 0 ? this.#leaseEnd : Math.min(this.#leaseEnd, leaseEnd(this.#proven, { lease: grace, slack }));
  }

  /** Whether it needs messages now. */
  get waits(): boolean {
    return this.#plan.wait !== 0 && ["asking", "queued", "confirming"].includes(this.phase);
  }

  input(input: Input, now: number): Output[] {
    this.#out = [];
    this.#now = now;
    // Before anything else: a reply that comes too late must not bring a lost lock back.
    if (this.phase === "held" && now >= this.deadline) this.#lose("expired");
    this.#take(input);
    const timer = this.#wakeAt();
    if (timer !== this.#timer) {
      this.#timer = timer;
      this.#out.push({ type: "timer", at: timer });
    }
    return this.#out;
  }

  #take(input: Input): void {
    switch (input.type) {
      case "start":
        this.#end = this.#now + (this.#plan.wait || 2 * this.#plan.response);
        return this.#ask();
      case "reply":
        return this.#reply(input);
      case "alive":
        if (this.#tied) this.#proven = Math.max(this.#proven, input.sentAt);
        return;
      case "message":
        return this.#message(input.notice, input.token);
      case "linkDown":
        this.down = true;
        this.#tied = false;
        return;
      case "linkUp":
        this.down = false;
        return this.#again();
      case "tick":
        return this.#tick();
      case "release":
        return this.#release();
      case "lose":
        if (this.phase === "held") this.#lose(input.why);
        return;
      case "cancel":
        if (this.#asksStill()) this.#leave({ kind: "error", error: input.error });
    }
  }

  #asksStill(): boolean {
    return this.phase === "new" || this.phase === "asking" || this.phase === "queued" || this.phase === "confirming";
  }

  #send(command: Command, more: { wait?: number; look?: boolean; lease?: number } = {}): void {
    this.#id += 1;
    this.#pending = this.#id;
    this.#out.push({ type: "send", id: this.#id, command, ...more });
  }

  #ask(): void {
    this.phase = "asking";
    this.#next = undefined;
    this.#pending = undefined;
    if (this.down) return;
    this.#asks += 1;
    this.#giveUp = this.#now + this.#plan.lease + 1_000;
    if (this.#plan.wait === 0) return this.#send("ACQUIRE");
    this.#queued = true;
    // On the wire, 0 means for ever.
    const wait = this.#end === Infinity ? 0 : Math.max(1, Math.ceil(this.#end - this.#now));
    this.#send("ENQUEUE", { wait, look: this.#looks > 0 });
  }

  #confirm(token: number): void {
    this.phase = "confirming";
    this.#token = token;
    this.#next = undefined;
    this.#giveUp = this.#now + this.#plan.lease + 1_000;
    // The token of the message may be one of an earlier grant.
    this.#send(this.#plan.fenced ? "ACQUIRE" : "RENEW");
  }

  #hold(sentAt: number): void {
    this.#leaseEnd = leaseEnd(sentAt, this.#plan);
    this.#tie(sentAt);
    // The reply lay in a buffer for longer than the lease: only the server can tell.
    if (this.deadline <= this.#now) return this.#confirm(this.#token);
    this.phase = "held";
    this.#renewAt = this.#plan.renew ? sentAt + this.#plan.lease / 3 : Infinity;
    this.#pending = undefined;
    this.#next = undefined;
    this.#out.push({ type: "held", token: this.#token });
  }

  #reply({ id, sentAt, answer }: Extract<Input, { type: "reply" }>): void {
    if (answer.kind === "error" && answer.failure === "unanswered") this.#stray = true;
    if (id !== this.#pending) return;
    this.#pending = undefined;
    if (answer.kind === "error" && answer.failure === "unsent") this.down = true;
    switch (this.phase) {
      case "asking":
        return this.#asked(sentAt, answer);
      case "confirming":
        if (answer.kind === "held") this.#token = answer.token;
        if (answer.kind === "held" || (answer.kind === "integer" && answer.value === 1)) return this.#hold(sentAt);
        if (answer.kind === "error") return this.#failed(answer.failure, answer.error);
        return this.#ask();
      case "held":
        return this.#renewed(sentAt, answer);
      case "releasing":
        return this.#released(answer);
      case "leaving":
        if (answer.kind !== "error" || answer.failure === "final" || answer.failure === "gone") return this.#done();
        return this.#rest();
    }
  }

  #asked(sentAt: number, answer: Answer): void {
    switch (answer.kind) {
      case "held":
        this.#token = answer.token;
        return this.#hold(sentAt);
      case "queued": {
        this.phase = "queued";
        this.#pause = FIRST_PAUSE;
        const lease = answer.holderLease ?? LONGEST_LOOK;
        const look = this.#looks === 0 ? FIRST_LOOK : Math.min(Math.max(lease, FIRST_LOOK), LONGEST_LOOK);
        this.#next = this.#now + look;
        return;
      }
      case "error":
        return this.#failed(answer.failure, answer.error);
      default:
        return this.#refuse({ kind: "denied" });
    }
  }

  /** A request for the lock failed: it is made again, unless that is pointless. */
  #failed(failure: Failure, error: Error): void {
    this.#error = error;
    if (failure === "final" || failure === "gone" || (failure === "draining" && this.#plan.wait === 0)) {
      const refusal: Refusal = { kind: "error", error };
      // It was not carried out, but those before it may have been.
      return this.#asks > 1 || this.phase === "confirming" ? this.#leave(refusal) : this.#refuse(refusal);
    }
    this.phase = "asking";
    this.#rest();
  }

  #rest(): void {
    this.#next = this.#now + this.#pause;
    this.#pause = Math.min(this.#pause * 2, LONGEST_PAUSE);
  }

  #message(notice: Notice, token: number): void {
    if (this.phase !== "asking" && this.phase !== "queued") return;
    if (notice === "granted") return this.#confirm(token);
    if (notice === "dropped") {
      this.phase = "asking";
      this.#pending = undefined;
      return this.#rest();
    }
    // After a repeat, this may be the end of the wait before it.
    if (this.#asks > 1) return this.#leave({ kind: "timeout" });
    this.#refuse({ kind: "timeout" });
  }

  #again(): void {
    this.#pause = FIRST_PAUSE;
    if (this.phase === "asking" || this.phase === "queued" || this.phase === "confirming") return this.#ask();
    if (this.phase === "held" && (this.#plan.renew || this.#plan.grace > 0)) return this.#renew();
    if (this.phase === "releasing") return this.#repeat();
    if (this.phase === "leaving") return this.#depart();
  }

  #tick(): void {
    switch (this.phase) {
      case "asking":
      case "queued":
      case "confirming":
        if (this.#now >= this.#end) {
          if (this.#plan.wait !== 0) return this.#leave({ kind: "timeout" });
          return this.#leave({ kind: "error", error: this.#error ?? NO_ANSWER });
        }
        if (this.#next === undefined || this.#now < this.#next || this.down) return;
        if (this.phase === "queued") this.#looks += 1;
        return this.#ask();
      case "held": {
        const window = Math.min(WINDOW, this.#plan.lease / 30);
        if (this.#renews() && this.#now >= this.#renewAt - window) this.#renew();
        return;
      }
      case "releasing":
        if (this.#now >= this.#giveUp) return this.#settle({ kind: "unknown", error: this.#error ?? NO_ANSWER });
        if (this.#next !== undefined && this.#now >= this.#next && !this.down) return this.#repeat();
        return;
      case "leaving":
        if (this.#now >= this.#giveUp) return this.#finish();
        if (this.#next !== undefined && this.#now >= this.#next && !this.down) return this.#depart();
    }
  }

  #renews(): boolean {
    return this.#pending === undefined && !this.down;
  }

  /** A lease that is not renewed keeps its end: only its tie is new. */
  #renew(): void {
    this.#send("RENEW", this.#plan.renew ? {} : { lease: Math.floor(((this.#leaseEnd - this.#now) * 100) / 99) + 4 });
  }

  /** What is answered after this on the same link proves that the server has the hold still. */
  #tie(sentAt: number): void {
    this.#tied = !this.down;
    this.#proven = Math.max(this.#proven, sentAt);
  }

  #renewed(sentAt: number, answer: Answer): void {
    if (answer.kind === "error" && answer.failure !== "gone") {
      // Short pauses first: most failures are over soon.
      const doublings = Math.min(this.#failures, DOUBLINGS);
      this.#failures += 1;
      this.#renewAt = this.#now + this.#plan.lease / 12 / 2 ** (DOUBLINGS - doublings);
      this.#out.push({ type: "renewalFailed", error: answer.error });
      return;
    }
    if (answer.kind !== "integer" || answer.value !== 1) return this.#lose("taken");
    this.#failures = 0;
    this.#tie(sentAt);
    if (this.#plan.renew) this.#leaseEnd = Math.max(this.#leaseEnd, leaseEnd(sentAt, this.#plan));
    this.#renewAt = this.#plan.renew ? sentAt + this.#plan.lease / 3 : Infinity;
    this.#out.push({ type: "renewed" });
  }

  #lose(why: Why): void {
    this.phase = "lost";
    this.#pending = undefined;
    this.#out.push({ type: "lost", why });
    // The server has nothing left that could be released.
    if (why === "taken") this.#finish();
  }

  #release(): void {
    if (this.phase === "lost") {
      // The server may have the hold still, and others wait for it.
      this.phase = "leaving";
      this.#queued = false;
      this.#giveUp = this.#now + this.#plan.lease;
      return this.#depart();
    }
    if (this.phase !== "held") return;
    this.phase = "releasing";
    this.#giveUp = this.#leaseEnd;
    this.#next = undefined;
    if (!this.down) this.#send("RELEASE");
  }

  #repeat(): void {
    // The first may have been carried out.
    if (this.#pending !== undefined) this.#repeated = true;
    this.#next = undefined;
    this.#send("RELEASE");
  }

  #released(answer: Answer): void {
    if (answer.kind === "integer") return this.#settle({ kind: "ok" });
    if (answer.kind === "error" && answer.failure !== "gone") {
      this.#error = answer.error;
      if (answer.failure === "final") return this.#settle({ kind: "error", error: answer.error });
      if (answer.failure === "unanswered") this.#repeated = true;
      return this.#rest();
    }
    if (this.#repeated) return this.#settle({ kind: "unknown", error: this.#error ?? NO_ANSWER });
    this.#settle({ kind: "lost", why: "taken" });
  }

  #settle(outcome: Outcome): void {
    this.#out.push({ type: "released", outcome });
    this.#done();
  }

  /** The release was answered; a stray request that the server carries out after it would hold for no caller. */
  #done(): void {
    if (!this.#stray || this.down) return this.#finish();
    this.phase = "leaving";
    this.#stray = false;
    this.#queued = true;
    this.#next = this.#now + STRAY;
    this.#giveUp = this.#now + 3 * STRAY;
  }

  /** Ends the acquisition without the lock, and leaves nothing of it in the server. */
  #leave(refusal: Refusal): void {
    if (this.#asks === 0) return this.#refuse(refusal);
    this.#out.push({ type: "refused", refusal, cause: this.#error });
    this.phase = "leaving";
    this.#pause = FIRST_PAUSE;
    this.#depart();
  }

  #depart(): void {
    this.#next = undefined;
    if (this.down) return;
    // In this order: a grant between the two is released by the second.
    if (this.#queued) this.#send("CANCEL");
    this.#send("RELEASE");
  }

  #refuse(refusal: Refusal): void {
    this.#out.push({ type: "refused", refusal, cause: this.#error });
    this.#finish();
  }

  #finish(): void {
    this.phase = "ended";
    this.#pending = undefined;
    this.#out.push({ type: "ended" });
  }

  #wakeAt(): number | undefined {
    const next = this.down ? Infinity : (this.#next ?? Infinity);
    let at = Infinity;
    if (this.phase === "asking" || this.phase === "queued" || this.phase === "confirming") at = Math.min(this.#end, next);
    else if (this.phase === "held") at = this.#renews() ? Math.min(this.#renewAt, this.deadline) : this.deadline;
    else if (this.phase === "releasing" || this.phase === "leaving") at = Math.min(this.#giveUp, next);
    return at === Infinity ? undefined : at;
  }
}
