import type { LostReason } from "./errors.js";

/** What happened to a lock, or to the connections. Times are in ms. */
export type Event =
  | { readonly type: "acquired"; readonly lock: string; readonly waited: number }
  | { readonly type: "denied"; readonly lock: string }
  | { readonly type: "timedOut"; readonly lock: string; readonly waited: number }
  | { readonly type: "released"; readonly lock: string; readonly held: number }
  | { readonly type: "renewed"; readonly lock: string }
  | { readonly type: "renewalFailed"; readonly lock: string; readonly error: Error }
  | { readonly type: "lost"; readonly lock: string; readonly why: LostReason; readonly held: number }
  | { readonly type: "disconnected"; readonly error: Error }
  | { readonly type: "reconnected"; readonly after: number };

export type OnEvent = (event: Event) => unknown;

/** Calls the hook a moment later: neither its errors nor its own calls of the client disturb the lock that it reports. */
export function hook(receiver: OnEvent | undefined): (event: Event) => void {
  if (!receiver) return () => undefined;
  const warn = (error: unknown) => process.emitWarning(`onEvent failed: ${String(error)}`, "RlockWarning");
  return (event) => void Promise.resolve(event).then(receiver).catch(warn);
}
