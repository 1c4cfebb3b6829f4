import type { Clock } from "./clock.js";

interface Sleeper {
  tick(): void;
}

/** The longest sleep: timers may stand still while the machine is suspended, the clock does not. */
const NAP = 1_000;
/** What is due so soon goes along with what is due: renewals are sent together. */
const WINDOW = 100;

/** The wake-ups of all machines, with one timer. While there is a machine, the process is kept alive. */
export class Timers {
  readonly #plans = new Map<Sleeper, number>();
  #timer: NodeJS.Timeout | undefined;
  #at = Infinity;

  constructor(readonly clock: Clock) {}

  enter(sleeper: Sleeper): void {
    this.#plans.set(sleeper, Infinity);
    if (this.#at === Infinity) this.#sleep(Infinity);
  }

  plan(sleeper: Sleeper, at: number): void {
    if (this.#plans.has(sleeper)) this.#plans.set(sleeper, at);
    if (this.#plans.has(sleeper) && at < this.#at) this.#sleep(at);
  }

  forget(sleeper: Sleeper): void {
    this.#plans.delete(sleeper);
    if (this.#plans.size > 0) return;
    clearTimeout(this.#timer);
    this.#at = Infinity;
  }

  #sleep(until: number): void {
    clearTimeout(this.#timer);
    const now = this.clock.now();
    this.#at = Math.min(until, now + NAP);
    this.#timer = setTimeout(() => this.#wake(), Math.max(0, Math.ceil(this.#at - now)));
  }

  #wake(): void {
    const now = this.clock.now();
    // Nothing that a tick plans makes it sleep: that comes once, at the end.
    this.#at = -Infinity;
    const due = [...this.#plans].filter(([, at]) => at <= now + WINDOW);
    if (due.some(([, at]) => at <= now)) for (const [sleeper] of due) sleeper.tick();
    this.#at = Infinity;
    if (this.#plans.size > 0) this.#sleep([...this.#plans.values()].reduce((first, at) => Math.min(first, at), Infinity));
  }
}
