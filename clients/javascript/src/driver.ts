import { ServerError } from "./wire.js";

/** An error of a driver: the server's begin with a word in capitals, whatever class a copy of the driver has for them. */
export function asReply(error: unknown): unknown {
  return error instanceof Error && /^[A-Z]{2,} /.test(error.message) ? new ServerError(error.message) : error;
}

/** A URL without its password. */
export function withoutPassword(url: string): string {
  return url.replace(/\/\/[^@/]*@/, "//");
}
