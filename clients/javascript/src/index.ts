/** What both entry points have in common: `rlock-client/ioredis` and `rlock-client/node-redis` have the `Client` that connects. */
export { AllGuard, type LockAll } from "./all.js";
export { Client, type ClientOptions } from "./client.js";
export * from "./errors.js";
export type { Event, OnEvent } from "./events.js";
export { Guard, WriteGuard } from "./lock.js";
export type { AcquireOptions, Lock, LockOptions, ReadLock, ReadOptions } from "./lock.js";
export type { ReadWriteLock, Semaphore, WriteLock, WriteOptions } from "./lock.js";
export type { Info } from "./wire.js";
