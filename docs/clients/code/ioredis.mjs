import { randomUUID } from "node:crypto";
import { Held } from "./held.mjs";

/** Locks with one lease (in ms); takes address, password and TLS from your client. */
export class Locks {
  constructor(client, leaseMs = 30_000) {
    Object.assign(this, { client, leaseMs });
  }

  /** Call it once, before the first acquire. */
  async connect() {
    this.commands = await this.#own(Math.min(5_000, this.leaseMs / 6), (times) => Math.min(times * 50, 1_000));
    return this;
  }

  close() {
    this.commands.disconnect();
  }

  /** Waits for up to waitMs. Returns a Held, or null if others hold the lock. */
  async acquire(key, { waitMs = 0, fenced = false } = {}) {
    const [end, owner] = [performance.now() + waitMs, randomUUID()];
    const words = [key, owner, this.leaseMs, "HOLDS", 1, ...(fenced ? ["FENCED"] : [])];
    try {
      let sent = performance.now();
      let reply = await this.commands.call("RLOCK.ACQUIRE", ...words);
      while (reply === null && performance.now() < end) {
        reply = await this.#block(words, end);
        // The reply may be old by now: a renewal dates the start of the lease.
        sent = performance.now();
        if (reply !== null && !(await this.renew(key, owner))) reply = null;
      }
      return reply && new Held(this, key, owner, reply[2], sent);
    } catch (error) {
      // The server may have granted the lock. If this fails too, the lease ends it.
      await this.commands.call("RLOCK.CANCEL", key, owner).catch(() => {});
      await this.release(key, owner).catch(() => {});
      throw error;
    }
  }

  async renew(key, owner) {
    return (await this.commands.call("RLOCK.RENEW", key, owner, this.leaseMs)) === 1;
  }

  async release(key, owner) {
    return (await this.commands.call("RLOCK.RELEASE", key, owner, "ALL")) !== null;
  }

  /** Blocks on a separate connection; its time-out is longer than the wait. BLOCK 0 would wait for ever. */
  async #block(words, end) {
    const waiting = await this.#own(Math.max(0, end - performance.now()) + 5_000, null);
    try {
      return await waiting.call("RLOCK.ACQUIRE", ...words, "BLOCK", Math.max(1, Math.ceil(end - performance.now())));
    } finally {
      waiting.disconnect();
    }
  }

  /** A separate connection that sends nothing twice and nothing late. */
  async #own(commandTimeout, retryStrategy) {
    const own = this.client.duplicate({
      commandTimeout, retryStrategy, lazyConnect: true, keyPrefix: "", keepAlive: 10_000, enableOfflineQueue: false,
      autoResendUnfulfilledCommands: false, maxRetriesPerRequest: 0, socketTimeout: commandTimeout,
      connectTimeout: Math.min(5_000, this.leaseMs / 6),
    });
    own.on("error", () => {}); // each command reports its own failure
    await own.connect().catch((error) => {
      own.disconnect();
      throw error;
    });
    return own;
  }
}
