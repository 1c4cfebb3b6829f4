import { uptime } from "node:os";

/**
 * Milliseconds, suspended time included.
 *
 * On Linux the precise clock stops in suspend, and the clock that does not has steps of 10 ms: their difference corrects the
 * first. Elsewhere the precise clock includes suspended time.
 */
export class Clock {
  /** A suspend of less than this may go unnoticed: it is taken off each deadline. */
  readonly slack: number;
  readonly #precise: () => number;
  readonly #coarse: (() => number) | undefined;
  readonly #apart: number;
  #suspended = 0;

  constructor(
    precise = () => Number(process.hrtime.bigint()) / 1e6,
    coarse = process.platform === "linux" ? () => uptime() * 1_000 : undefined,
  ) {
    this.#precise = precise;
    this.#coarse = coarse;
    this.#apart = coarse ? coarse() - precise() : 0;
    this.slack = coarse ? 20 : 0;
  }

  now(): number {
    // In this order: a process that stands still in between must not be taken for a suspend, by which a wait would end early.
    const coarse = this.#coarse?.();
    const now = this.#precise();
    const ahead = coarse === undefined ? 0 : coarse - now - this.#apart;
    if (ahead > this.#suspended + 10) this.#suspended = ahead;
    return now + this.#suspended;
  }
}
