/** A held lock, renewed until it is released. `lost` is an AbortSignal. */
export class Held {
  #over = new AbortController();
  #timers = [];

  constructor(locks, key, owner, token, sent) {
    Object.assign(this, { locks, key, owner, token, lost: this.#over.signal });
    this.#extend(sent);
    this.#renewIn(locks.leaseMs / 3);
  }

  /** Reads the local clock and sends nothing. */
  check() {
    return !this.lost.aborted && performance.now() < this.until;
  }

  /** False: the lock was lost before. After an error the outcome is unknown: call it again, or let the lease end. */
  async release() {
    this.released = true;
    this.#timers.forEach(clearTimeout);
    return (await this.locks.release(this.key, this.owner)) && !this.lost.aborted;
  }

  /** The server's lease began after the command was sent, and its clock may run faster. */
  #extend(sent) {
    this.until = sent + this.locks.leaseMs * 0.99 - 2;
    clearTimeout(this.#timers[0]);
    // A timer may fire slightly early.
    const look = () => (performance.now() < this.until ? (this.#timers[0] = setTimeout(look, 1)) : this.#lose());
    this.#timers[0] = setTimeout(look, Math.max(0, this.until - performance.now()));
  }

  /** A failed renewal is retried soon; a refused one loses the lock. */
  #renewIn(pause) {
    this.#timers[1] = setTimeout(async () => {
      const sent = performance.now();
      const renewed = await this.locks.renew(this.key, this.owner).catch(() => undefined);
      if (this.released || this.lost.aborted) return;
      if (renewed === false || performance.now() >= this.until) return this.#lose(); // a lost lock stays lost
      if (renewed) this.#extend(sent);
      this.#renewIn(this.locks.leaseMs / (renewed ? 3 : 30));
    }, pause);
  }

  #lose() {
    this.#timers.forEach(clearTimeout);
    this.#over.abort(new Error(`the lock ${this.key} is lost`));
  }
}
