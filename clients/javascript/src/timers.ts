import type { Clock } from "./clock.js";

interface Sleeper {
  tick(): void;
}

/** The longest sleep: timers may stand still while the machine is suspended, the clock does not. */
const NAP = 1_000;

/** The wake-ups of all machines, with one timer. While there is a machine, the process is kept alive. */
export class Timers {
  readonly #plans = new Map<Sleeper, number>();
  #timer: NodeJS.Timeout | undefined;
  #at = Infinity;
  #awake = false;

  constructor(readonly clock: Clock) {}

  enter(sleeper: Sleeper): void {
    this.#plans.set(sleeper, Infinity);
    if (!this.#awake && this.#timer === undefined) this.#sleep(this.clock.now());
  }

  plan(sleeper: Sleeper, at: number): void {
    if (!this.#plans.has(sleeper)) return;
    this.#plans.set(sleeper, at);
    if (!this.#awake && at < this.#at) this.#sleep(this.clock.now());
  }

  forget(sleeper: Sleeper): void {
    this.#plans.delete(sleeper);
    if (!this.#awake && this.#plans.size === 0) this.#sleep(0);
  }

  #sleep(now: number): void {
    clearTimeout(this.#timer);
    let at = now + NAP;
    for (const plan of this.#plans.values()) at = Math.min(at, plan);
    this.#at = this.#plans.size === 0 ? Infinity : at;
    this.#timer = this.#plans.size === 0 ? undefined : setTimeout(() => this.#wake(), Math.max(0, Math.ceil(at - now)));
  }

  #wake(): void {
    const now = this.clock.now();
    const due = [...this.#plans].filter(([, at]) => at <= now).map(([sleeper]) => sleeper);
    // Renewals that are due soon go along.
    const soon = due.length === 0 ? [] : [...this.#plans].filter(([, at]) => at > now && at <= now + 100).map(([sleeper]) => sleeper);
    this.#awake = true;
    for (const sleeper of [...due, ...soon]) sleeper.tick();
    this.#awake = false;
    this.#sleep(this.clock.now());
  }
}
