// A job that several machines start at the same time, and one of them runs.
import { Client, Denied } from "rlock-client/ioredis";

const client = await Client.connect(process.env.REDIS_URL ?? "redis://127.0.0.1:6399");
try {
  const held = await client.lock("nightly-report").tryAcquire();
  try {
    console.log("this machine writes the report");
    held.check();
  } finally {
    await held.release();
  }
} catch (error) {
  if (!(error instanceof Denied)) throw error;
  console.log("another machine writes the report");
}
await client.close();
