/** Several locks as one. */
import { LONGEST_TIMER, whenAborted } from "./acquisition.js";
import { Denied, Invalid, LockLost, Timeout } from "./errors.js";
import { Handle, hold, known, waiting, type AcquireOptions, type Guard } from "./lock.js";

/** Several held locks. */
export class AllGuard {
  readonly #guards: readonly Guard[];
  readonly #loss = new AbortController();
  #released: Promise<void> | undefined;

  /** @internal */
  constructor(guards: readonly Guard[]) {
    this.#guards = guards;
    for (const { signal } of guards) {
      const lose = () => this.#loss.abort(signal.reason);
      if (signal.aborted) lose();
      else signal.addEventListener("abort", lose, { once: true });
    }
  }

  /** In the order in which they are waited for. */
  get names(): string[] {
    return this.#guards.map(({ name }) => name);
  }

  /** The fencing tokens of fenced locks, in the order of `names`. */
  get tokens(): number[] {
    return this.#guards.map(({ token }) => token);
  }

  /** Aborted, with `LockLost` as its reason, as soon as one of the locks is lost. */
  get signal(): AbortSignal {
    return this.#loss.signal;
  }

  /** Throws `LockLost` unless all locks are held by this client's clock. Sends nothing. Returns how many ms they last without a renewal. */
  check(): number {
    return Math.min(...this.#guards.map((guard) => guard.check()));
  }

  /** Releases all locks; rejects with the first error. */
  release(): Promise<void> {
    return (this.#released ??= release(this.#guards));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.release();
  }
}

function isHeld(guard: Guard): boolean {
  try {
    return guard.check() > 0;
  } catch {
    return false;
  }
}

async function release(guards: readonly (Guard | undefined)[]): Promise<void> {
  const ends = await Promise.allSettled(guards.map(async (guard) => guard?.release()));
  const errors = ends.flatMap((end) => (end.status === "rejected" ? [end.reason as unknown] : []));
  if (errors.length > 0) throw errors.find((error) => error instanceof LockLost) ?? errors[0];
}

/**
 * Several locks, acquired together. Free locks take one round trip. If another owner holds one of them, those before it by name
 * stay held, those after it are released, and the client waits for that one. So two `LockAll`s never wait for each other.
 */
export class LockAll {
  readonly #locks: readonly Handle<Guard>[];
  readonly #wait: number;

  /** @internal */
  constructor(names: readonly string[], wait: number, lock: (name: string) => Handle<Guard>) {
    // A string has names of one character.
    if (!Array.isArray(names) || names.length === 0) throw new Invalid("give an array with the name of at least one lock");
    const ordered = [...new Set(names)].map(lock).sort((a, b) => Buffer.compare(Buffer.from(a.name), Buffer.from(b.name)));
    this.#locks = ordered;
    this.#wait = wait;
  }

  /** Waits for all locks. Rejects with `Timeout` when the wait is over. */
  async acquire(options: AcquireOptions = {}): Promise<AllGuard> {
    known("acquire", options, ["timeout", "signal"]);
    return this.#acquire(Math.max(waiting("timeout", options.timeout ?? this.#wait), 1), options.signal);
  }

  /** Asks for the locks once. Rejects with `Denied` if another owner holds one of them. */
  async tryAcquire(options: Pick<AcquireOptions, "signal"> = {}): Promise<AllGuard> {
    return this.#acquire(0, options.signal);
  }

  /** Holds the locks while `work` runs, and rejects with `LockLost` if one was lost by the end, unless `work` failed itself. */
  async run<T>(work: (held: AllGuard) => Promise<T> | T, options: AcquireOptions = {}): Promise<T> {
    return hold(await this.acquire(options), work);
  }

  async #acquire(wait: number, signal: AbortSignal | undefined): Promise<AllGuard> {
    const began = performance.now();
    const left = () => began + wait - performance.now();
    const guards = this.#locks.map((): Guard | undefined => undefined);
    try {
      for (;;) {
        const errors = await this.#takeFree(guards, wait === 0 ? Infinity : left(), signal);
        signal?.throwIfAborted();
        // One may be lost while another is waited for.
        for (const [n, guard] of guards.entries()) if (guard && !isHeld(guard)) guards[n] = void release([guard]).catch(() => undefined);
        const missing = guards.indexOf(undefined);
        const lock = this.#locks[missing];
        if (!lock) return new AllGuard(guards as Guard[]);
        if (wait === 0) throw errors[missing] ?? new Denied("", lock.name);
        // Only those before it may be held meanwhile: that is the order.
        release(guards.splice(missing)).catch(() => undefined);
        guards.push(...this.#locks.slice(missing).map(() => undefined));
        guards[missing] = await lock.acquire({ timeout: Math.max(1, left()), ...(signal && { signal }) });
      }
    } catch (error) {
      // The caller's limit, or its signal, does not wait for answers.
      release(guards).catch(() => undefined);
      if (!(error instanceof Timeout)) throw error;
      throw new Timeout((performance.now() - began).toFixed(), error.lock, error.cause);
    }
  }

  /** Asks at once for all that are not held. The errors are those of each. */
  async #takeFree(guards: (Guard | undefined)[], left: number, signal: AbortSignal | undefined): Promise<unknown[]> {
    const stop = new AbortController();
    const end = () => stop.abort(signal?.reason);
    const late = left < LONGEST_TIMER ? setTimeout(end, left) : undefined;
    const forget = whenAborted(signal, end);
    const take = async (lock: Handle<Guard>, n: number) => (guards[n] ??= await lock.tryAcquire({ signal: stop.signal }));
    const ends = await Promise.allSettled(this.#locks.map(take));
    clearTimeout(late);
    forget();
    return ends.map((each) => (each.status === "rejected" ? (each.reason as unknown) : undefined));
  }
}
