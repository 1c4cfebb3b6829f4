// The test of docs/clients/ioredis.md and of the code that it links to: `make interop` runs it behind the example of that page.

import Redis from "ioredis";
import { check } from "./scenarios.mjs";

const url = process.env.REDIS_URL ?? "redis://localhost:6399";
const clients = [2, 3].map((protocol) => new Redis(url, { protocol }));
await check("ioredis", {
  Locks, clients, example,
  call: (client, ...words) => client.call(...words),
  // With short time-outs the driver alone repeats the command without a limit; the class does not.
  impatient: (client) => client.duplicate({ socketTimeout: 1_000, commandTimeout: 2_000, lazyConnect: true }),
});
clients.forEach((client) => client.disconnect());
