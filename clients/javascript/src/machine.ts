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

/** `refused`: the acquisition ended without the lock. `ended`: nothing of it is left here nor, as far as it is known, in the server. */
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
  | { readonly type: "held"; readonly token: number }
  /** `silent`: no server answered at the end. */
  | { readonly type: "refused"; readonly kind: "timeout" | "denied" | "error"; readonly error: unknown; readonly silent: boolean }
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
/** How long after the last answer a stray request is released. */
const STRAY = 1_000;

/** When a lease ends by the local clock: before the server's, whose clock may run faster. */
export function leaseEnd(sentAt: number, plan: Pick<Plan, "lease" | "slack">): number {
  return sentAt + plan.lease * 0.99 - 2 - plan.slack;
}

/** The inputs are its public methods, given by `take`. */
export class Machine {
  phase: Phase = "new";
  /** Whether the link is down. */
  down = false;
  readonly #plan: Plan;
  #out: Output[] = [];
  #now = 0;
  #id = 0;
  /** The command whose reply counts. */
  #pending: number | undefined;
  /** When the next request is due. */
  #next = Infinity;
  /** When the wait ends, or a release or a cancellation is given up. */
  #until = Infinity;
  /** By the local clock, while the lock is held; a session apart. */
  #leaseEnd = 0;
  /** Whether a session ties the hold to the link that is up, and when the last command was sent that was answered while it did. */
  #tied = false;
  #proven = 0;
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
  #queued = false;
  #error: Error | undefined;

  constructor(plan: Plan) {
    this.#plan = plan;
  }

  /** By the local clock, while the lock is held: the end of the lease, or of the session if it may be earlier. */
  get deadline(): number {
    const { grace, slack } = this.#plan;
    return grace === 0 ? this.#leaseEnd : Math.min(this.#leaseEnd, leaseEnd(this.#proven, { lease: grace, slack }));
  }

  /** When it needs a tick. */
  get wakeAt(): number {
    return Math.min(this.phase === "held" ? this.deadline : this.#until, this.down ? Infinity : this.#next);
  }

  /** Whether it needs messages now. */
  get waits(): boolean {
    return this.#plan.wait !== 0 && this.#asksStill() && this.phase !== "new";
  }

  /** One input at this time: what is to be done. */
  take(now: number, input: (machine: this) => void): Output[] {
    this.#out = [];
    this.#now = now;
    // Before anything else: a reply that comes too late must not bring a lost lock back.
    if (this.phase === "held" && now >= this.deadline) this.#lose("expired");
    input(this);
    return this.#out;
  }

  start(): void {
    this.#until = this.#now + (this.#plan.wait || 2 * this.#plan.response);
    this.#ask();
  }

  cancel(error: unknown): void {
    if (this.#asksStill()) this.#leave("error", error);
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
    this.#tied = false;
  }

  linkUp(): void {
    this.down = false;
    this.#pause = FIRST_PAUSE;
    if (this.phase !== "held" || this.#plan.renew || this.#plan.grace > 0) this.#request();
  }

  tick(): void {
    const late = this.#now >= this.#until;
    const early = this.phase === "held" ? Math.min(WINDOW, this.#plan.lease / 30) : 0;
    if (late && this.#asksStill()) {
      return this.#plan.wait === 0 ? this.#leave("error") : this.#leave("timeout");
    }
    if (late && this.phase === "releasing") return this.#settle("unknown", this.#error);
    if (late && this.phase === "cancelling") return this.#finish();
    if (this.down || this.#now < this.#next - early) return;
    if (this.phase === "queued") this.#looks += 1;
    this.#request();
  }

  message(notice: Notice, token: number): void {
    if (this.phase !== "asking" && this.phase !== "queued") return;
    this.#heardAt = this.#now;
    if (notice === "granted") return this.#confirm(token);
    // "dropped" or "timeout", maybe of an earlier wait of this owner: only the clock ends this one.
    this.phase = "asking";
    this.#pending = undefined;
    this.#rest();
  }

  release(): void {
    if (this.phase === "lost") {
      // The server may have the hold still, and others wait for it.
      this.phase = "cancelling";
      this.#queued = false;
      this.#until = this.#now + this.#plan.lease;
    } else if (this.phase === "held") {
      this.phase = "releasing";
      this.#pending = undefined;
      this.#until = this.#leaseEnd;
    } else return;
    this.#request();
  }

  reply(id: number, sentAt: number, answer: Answer): void {
    const failed = answer.kind === "error" ? answer : undefined;
    if (failed?.failure === "unanswered") this.#stray = true;
    if (id !== this.#pending) return;
    this.#pending = undefined;
    if (failed?.failure === "unsent") this.down = true;
    if (failed && failed.failure !== "gone" && this.phase !== "held") this.#error = failed.error;
    switch (this.phase) {
      case "held":
        return this.#renewed(sentAt, answer);
      case "releasing":
        return this.#released(answer);
      case "cancelling":
        return failed && failed.failure !== "final" && failed.failure !== "gone" ? this.#rest() : this.#done();
      default:
        return this.#asked(sentAt, answer);
    }
  }

  #asksStill(): boolean {
    return ["new", "asking", "queued", "confirming"].includes(this.phase);
  }

  #send(command: Command, more: { wait?: number; look?: boolean; lease?: number } = {}): void {
    this.#id += 1;
    this.#pending = this.#id;
    this.#next = Infinity;
    this.#out.push({ type: "send", id: this.#id, command, ...more });
  }

  /** Sends what the phase needs, for the first time or again. */
  #request(): void {
    if (this.phase === "asking" || this.phase === "queued" || this.phase === "confirming") return this.#ask();
    if (this.down) return;
    if (this.phase === "held") {
      // A lease that is not renewed keeps its end: only its tie is new.
      const left = Math.floor(((this.#leaseEnd - this.#now) * 100) / 99) + 4;
      return this.#send("RENEW", this.#plan.renew ? {} : { lease: left });
    }
    if (this.phase !== "releasing" && this.phase !== "cancelling") return;
    // The release before may have been carried out.
    this.#repeated ||= this.phase === "releasing" && this.#pending !== undefined;
    // In this order: a grant between the two is released by the second.
    if (this.phase === "cancelling" && this.#queued) this.#send("CANCEL");
    this.#send("RELEASE");
  }

  #ask(): void {
    this.phase = "asking";
    this.#pending = undefined;
    if (this.down) return;
    this.#asks += 1;
    this.#askedAt = this.#now;
    if (this.#plan.wait === 0) return this.#send("ACQUIRE");
    this.#queued = true;
    // On the wire, 0 means for ever.
    const wait = this.#until === Infinity ? 0 : Math.max(1, Math.ceil(this.#until - this.#now));
    this.#send("ENQUEUE", { wait, look: this.#looks > 0 });
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
    if (answer.kind === "held") this.#token = answer.token;
    const confirmed = this.phase === "confirming" && answer.kind === "integer" && answer.value === 1;
    if (answer.kind === "held" || confirmed) return this.#hold(sentAt);
    if (this.phase === "confirming") return this.#ask();
    if (answer.kind !== "queued") return this.#leave("denied", undefined, true);
    this.phase = "queued";
    this.#pause = FIRST_PAUSE;
    this.#error = undefined;
    const lease = answer.holderLease ?? LONGEST_LOOK;
    this.#next = this.#now + (this.#looks === 0 ? FIRST_LOOK : Math.min(Math.max(lease, FIRST_LOOK), LONGEST_LOOK));
  }

  /** A request for the lock failed: it is made again, unless that is pointless. */
  #failed(failure: Failure, error: Error): void {
    if (failure === "final" || failure === "gone" || (failure === "draining" && this.#plan.wait === 0)) {
      // It was not carried out, but those before it may have been.
      return this.#leave("error", error, this.#asks === 1 && this.phase === "asking");
    }
    this.phase = "asking";
    this.#rest();
  }

  #rest(): void {
    this.#next = this.#now + this.#pause;
    this.#pause = Math.min(this.#pause * 2, LONGEST_PAUSE);
  }

  #hold(sentAt: number): void {
    this.#confirmed(sentAt);
    this.#leaseEnd = leaseEnd(sentAt, this.#plan);
    // The reply lay in a buffer for longer than the lease: only the server can tell.
    if (this.deadline <= this.#now) return this.#confirm(this.#token);
    this.phase = "held";
    this.#out.push({ type: "held", token: this.#token });
  }

  /** The server has the hold; what is answered after this on the same link proves that it has it still. */
  #confirmed(sentAt: number): void {
    this.#tied = !this.down;
    this.#proven = Math.max(this.#proven, sentAt);
    this.#next = this.#plan.renew ? sentAt + this.#plan.lease / 3 : Infinity;
  }

  #renewed(sentAt: number, answer: Answer): void {
    if (answer.kind === "error" && answer.failure !== "gone") {
      // Short pauses first: most failures are over soon.
      this.#next = this.#now + this.#plan.lease / 12 / 2 ** (DOUBLINGS - Math.min(this.#failures, DOUBLINGS));
      this.#failures += 1;
      this.#out.push({ type: "renewalFailed", error: answer.error });
    } else if (answer.kind === "integer" && answer.value === 1) {
      this.#failures = 0;
      this.#confirmed(sentAt);
      if (this.#plan.renew) this.#leaseEnd = Math.max(this.#leaseEnd, leaseEnd(sentAt, this.#plan));
      this.#out.push({ type: "renewed" });
    } else this.#lose("taken");
  }

  #lose(why: Why): void {
    this.phase = "lost";
    this.#stop();
    this.#out.push({ type: "lost", why, ended: !this.#plan.renew && this.#now >= this.#leaseEnd });
    // The server has nothing left that could be released.
    if (why === "taken") this.#finish();
  }

  #released(answer: Answer): void {
    if (answer.kind === "integer") return this.#settle("ok");
    if (answer.kind === "error" && answer.failure !== "gone") {
      if (answer.failure === "final") return this.#settle("error", answer.error);
      this.#repeated ||= answer.failure === "unanswered";
      return this.#rest();
    }
    if (this.#repeated) return this.#settle("unknown", this.#error);
    this.#settle("lost");
  }

  #settle(outcome: "ok" | "lost" | "unknown" | "error", error?: Error): void {
    this.#out.push({ type: "released", outcome, ...(error && { error }) });
    this.#done();
  }

  /** The release was answered; a stray request that the server carries out after it would hold for no caller. */
  #done(): void {
    if (!this.#stray || this.down) return this.#finish();
    this.phase = "cancelling";
    this.#stray = false;
    this.#queued = true;
    this.#next = this.#now + STRAY;
    this.#until = this.#now + 3 * STRAY;
  }

  /** Ends the acquisition without the lock, and leaves nothing of it in the server, which is `clean` at times. */
  #leave(kind: "timeout" | "denied" | "error", error: unknown = this.#error, clean = false): void {
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
    this.#pending = undefined;
    this.#next = this.#until = Infinity;
  }
}
