import type { Acquisition } from "./acquisition.js";
import type { Clock } from "./clock.js";

/** The longest sleep: timers may stand still while the machine is suspended, the clock does not. */
const NAP = 1_000;
/** What is due so soon goes along with what is due: renewals are sent together. */
const WINDOW = 100;

/** The wake-ups of all acquisitions, with one timer. While there is an acquisition, the process is kept alive. */
export class Timers {
  #timer: NodeJS.Timeout | undefined;
  #at = Infinity;

  constructor(
    readonly clock: Clock,
    readonly acquisitions: ReadonlyMap<string, Acquisition>,
  ) {}

  /** Wakes at that time at the latest. */
  plan(at: number): void {
    if (this.acquisitions.size === 0) return this.stop();
    const now = this.clock.now();
    const wake = Math.min(at, now + NAP);
    if (wake >= this.#at) return;
    this.stop();
    this.#at = wake;
    this.#timer = setTimeout(() => this.#wake(), Math.max(0, Math.ceil(wake - now)));
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#at = Infinity;
  }

  #wake(): void {
    const now = this.clock.now();
    // Nothing that a tick plans makes it sleep: that comes once, at the end.
    this.#at = -Infinity;
    const due = [...this.acquisitions.values()].filter(({ machine }) => machine.wakeAt <= now + WINDOW);
    if (due.some(({ machine }) => machine.wakeAt <= now)) for (const each of due) each.tick();
    this.#at = Infinity;
    this.plan([...this.acquisitions.values()].reduce((first, { machine }) => Math.min(first, machine.wakeAt), Infinity));
  }
}
