// The section "Once in the cluster" of the page: two processes whose schedulers start the job every second run it once.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { sleep, startServer, until } from "./kit.mjs";

test("a job that each process starts every second runs once", { timeout: 60_000 }, async () => {
  const server = await startServer();
  const page = readFileSync(join(import.meta.dirname, "../../../docs/clients/javascript.md"), "utf8");
  const [, code] = /^```js once\n(.*?)^```$/ms.exec(page);
  const file = join(import.meta.dirname, ".once.mjs");
  const often = code.replace('"* * * * *"', '"* * * * * *"').replace("redis://127.0.0.1:6399", server.url);
  writeFileSync(file, often + 'cron.schedule("* * * * * *", () => console.log("tick"));\n');
  const both = [1, 2].map(() => spawn(process.execPath, [file], { stdio: ["ignore", "pipe", "inherit"] }));
  const printed = ["", ""];
  both.forEach((one, number) => one.stdout.on("data", (data) => (printed[number] += data)));
  const ticks = (text) => text.split("tick").length - 1;
  try {
    await until("three ticks of both", () => printed.every((text) => ticks(text) >= 3), 30_000);
    await sleep(100);
    assert.equal(printed.join("").split("report").length - 1, 1);
  } finally {
    both.forEach((one) => one.kill());
    await server.stop();
    rmSync(file);
  }
});
