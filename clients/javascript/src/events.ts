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
  | { readonly type: "disconnected"; readonly server: string; readonly error: Error }
  | { readonly type: "reconnected"; readonly server: string; readonly after: number };

export type OnEvent = (event: Event) => unknown;

/** A hook that throws, or returns a promise that fails, changes nothing for the locks. */
export function hook(receiver: OnEvent | undefined): (event: Event) => void {
  const warn = (error: unknown) => process.emitWarning(`onEvent failed: ${String(error)}`, "RlockWarning");
  return (event) => {
    try {
      Promise.resolve(receiver?.(event)).catch(warn);
    } catch (error) {
      warn(error);
    }
  };
}
