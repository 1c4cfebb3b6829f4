import type { Acquisition } from "./acquisition.js";
import type { Clock } from "./clock.js";

/** The longest sleep: timers may stand still while the machine is suspended, the clock does not. */
const NAP = 1_000;
/** What is due so soon goes along with what is due: renewals are sent together. */
const WINDOW = 100;
/** How long the event loop is kept from other work when much is due at one moment. */
const SLICE = 10;

/** The wake-ups of all acquisitions, with one timer: a heap, the next one first. While there is one, the process is kept alive. */
export class Timers {
  readonly #heap: Acquisition[] = [];
  #timer: NodeJS.Timeout | undefined;
  #at = Infinity;

  constructor(readonly clock: Clock) {}

  enter(acquisition: Acquisition): void {
    if (acquisition.place === -1) this.#place(acquisition, this.#heap.length);
    this.#sleep();
  }

  leave(acquisition: Acquisition): void {
    const { place } = acquisition;
    if (place === -1) return;
    acquisition.place = -1;
    const moved = this.#heap.pop();
    if (moved && moved !== acquisition) this.#place(moved, place);
    if (this.#heap.length === 0) this.stop();
  }

  /** Wakes an acquisition at that time, and not at the time that was planned before. */
  plan(acquisition: Acquisition, at: number): void {
    if (acquisition.wakeAt === at) return;
    acquisition.wakeAt = at;
    if (acquisition.place === -1) return;
    this.#place(acquisition, acquisition.place);
    this.#sleep();
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#at = Infinity;
    for (const each of this.#heap.splice(0)) each.place = -1;
  }

  /** Puts one where there is room, and those between it and its place there. */
  #place(acquisition: Acquisition, room: number): void {
    const heap = this.#heap;
    let place = room;
    const put = (each: Acquisition, at: number) => {
      heap[at] = each;
      each.place = at;
    };
    for (;;) {
      const above = heap[(place - 1) >> 1];
      if (place === 0 || !above || above.wakeAt <= acquisition.wakeAt) break;
      put(above, place);
      place = (place - 1) >> 1;
    }
    for (;;) {
      const [left, right] = [heap[2 * place + 1], heap[2 * place + 2]];
      const below = right && left && right.wakeAt < left.wakeAt ? right : left;
      if (!below || below.wakeAt >= acquisition.wakeAt) break;
      const free = below.place;
      put(below, place);
      place = free;
    }
    put(acquisition, place);
  }

  #sleep(): void {
    const [first] = this.#heap;
    if (!first) return;
    const now = this.clock.now();
    const wake = Math.min(first.wakeAt, now + NAP);
    if (wake >= this.#at) return;
    clearTimeout(this.#timer);
    this.#at = wake;
    this.#timer = setTimeout(() => this.#wake(), Math.max(0, Math.ceil(wake - now)));
  }

  #wake(): void {
    const began = this.clock.now();
    const [first] = this.#heap;
    const due = first !== undefined && first.wakeAt <= began;
    // Nothing that a tick plans makes it sleep: that comes once, at the end.
    this.#at = -Infinity;
    for (let [next] = this.#heap; next && next.wakeAt <= began; [next] = this.#heap) {
      next.tick();
      // What is left is still due.
      if (this.clock.now() > began + SLICE) break;
    }
    // Renewals that are due soon go along.
    const along = due ? this.#until(began + WINDOW) : [];
    for (const each of along) if (each.machine.phase === "held") each.tick();
    this.#at = Infinity;
    this.#sleep();
  }

  /** Those that are woken until then. */
  #until(at: number, place = 0, found: Acquisition[] = []): Acquisition[] {
    const each = this.#heap[place];
    if (!each || each.wakeAt > at) return found;
    found.push(each);
    this.#until(at, 2 * place + 1, found);
    return this.#until(at, 2 * place + 2, found);
  }
}
