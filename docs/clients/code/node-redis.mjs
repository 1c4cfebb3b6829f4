import { randomUUID } from "node:crypto";
import { Held } from "./held.mjs";

/** Locks with one lease (in ms); takes address, password and TLS from your client. */
export class Locks {
  constructor(client, leaseMs = 30_000) {
    Object.assign(this, { client, leaseMs });
  }

  /** Call it once, before the first acquire. */
  async connect() {
    this.timeout = Math.min(5_000, this.leaseMs / 6);
    this.commands = await this.#own((times) => Math.min(50 + times * 50, 1_000));
    if (this.closed) this.close();
    return this;
  }

  close() {
    this.closed = true;
    if (this.commands.isOpen) this.commands.destroy();
  }

  /** Waits for up to waitMs. Returns a Held, or null if others hold the lock. */
  async acquire(key, { waitMs = 0, fenced = false } = {}) {
    const [end, owner] = [performance.now() + waitMs, randomUUID()];
    const words = [key, owner, `${this.leaseMs}`, "HOLDS", "1", ...(fenced ? ["FENCED"] : [])];
    try {
      let sent = performance.now();
      let reply = await this.#send(["RLOCK.ACQUIRE", ...words]);
      while (reply === null && performance.now() < end) {
        reply = await this.#block(words, end);
        // The reply may be old by now: a renewal dates the start of the lease.
        sent = performance.now();
        if (reply !== null && !(await this.renew(key, owner))) reply = null;
      }
      return reply && new Held(this, key, owner, reply[2], sent);
    } catch (error) {
      // The server may have granted the lock. If this fails too, the lease ends it.
      await this.#send(["RLOCK.CANCEL", key, owner]).catch(() => {});
      await this.release(key, owner).catch(() => {});
      throw error;
    }
  }

  async renew(key, owner) {
    return (await this.#send(["RLOCK.RENEW", key, owner, `${this.leaseMs}`])) === 1;
  }

  async release(key, owner) {
    return (await this.#send(["RLOCK.RELEASE", key, owner, "ALL"])) !== null;
  }

  /** Blocks on a separate connection; its time-out is longer than the wait. BLOCK 0 would wait for ever. */
  async #block(words, end) {
    const timeout = Math.max(0, end - performance.now()) + 5_000;
    const waiting = await this.#own(false);
    try {
      const left = Math.max(1, Math.ceil(end - performance.now()));
      return await this.#send(["RLOCK.ACQUIRE", ...words, "BLOCK", `${left}`], waiting, timeout);
    } finally {
      waiting.destroy();
    }
  }

  /** The driver's time-out covers the sending only: this one covers the reply. */
  #send(words, client = this.commands, timeout = this.timeout) {
    let timer;
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => {
        reject(new Error(`${words[0]}: no reply within ${timeout} ms`));
        if (client !== this.commands || !client.isOpen) return;
        client.destroy(); // the server may be gone
        this.connect().catch(() => {});
      }, timeout);
    });
    return Promise.race([client.sendCommand(words), late]).finally(() => clearTimeout(timer));
  }

  /** A separate connection that sends nothing late. */
  async #own(reconnectStrategy) {
    const socket = { ...this.client.options.socket, socketTimeout: undefined, reconnectStrategy, connectTimeout: this.timeout };
    const own = this.client.duplicate({ disableOfflineQueue: true, socket });
    own.on("error", () => {}); // each command reports its own failure
    return own.connect();
  }
}
