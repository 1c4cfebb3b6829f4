// The test of docs/clients/node-redis.md and of the code that it links to: `make interop` runs it behind the example of that page.

import { createClient } from "redis";
import { check } from "./scenarios.mjs";

const url = process.env.REDIS_URL ?? "redis://localhost:6399";
const clients = await Promise.all([2, 3].map((RESP) => createClient({ url, RESP }).connect()));
await check("node-redis", {
  Locks, clients, example,
  call: (client, ...words) => client.sendCommand(words),
  impatient: (client) => client.duplicate({ socket: { ...client.options.socket, socketTimeout: 1_000 } }),
});
clients.forEach((client) => client.destroy());
