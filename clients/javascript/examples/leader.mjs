// One process leads; when it ends, or loses the lock, the next one takes over.
import { setTimeout as sleep } from "node:timers/promises";
import { Client, LockLost } from "rlock-client/node-redis";

const client = await Client.connect(process.env.REDIS_URL ?? "redis://127.0.0.1:6399", { lease: 10_000 });
const rounds = Number(process.env.ROUNDS ?? 3);

async function lead(held) {
  for (let round = 1; round <= rounds; round++) {
    console.log(`leading, round ${round}, token ${held.token > 0}`);
    // The pause ends early when the lock is lost.
    await sleep(50, undefined, { signal: held.signal });
  }
}

try {
  await client.lock("leader", { fenced: true }).run(lead);
} catch (error) {
  if (!(error instanceof LockLost || error.name === "AbortError")) throw error;
  console.log("no longer the leader");
}
await client.close();
