// Sections of the page that use other packages: "Once in the cluster" and "OpenTelemetry".
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { sleep, startServer, until } from "./kit.mjs";

const page = readFileSync(join(import.meta.dirname, "../../../docs/clients/javascript.md"), "utf8");
const code = (language, server) =>
  new RegExp(`^\`\`\`js ${language}\\n(.*?)^\`\`\`$`, "ms").exec(page)[1].replace("redis://127.0.0.1:6399", server.url);

test("a job that each process starts every second runs once", { timeout: 60_000 }, async () => {
  const server = await startServer();
  const file = join(import.meta.dirname, ".once.mjs");
  const often = code("once", server).replace('"* * * * *"', '"* * * * * *"');
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

const METRICS = `
import { setTimeout as sleep } from "node:timers/promises";
import { InMemoryMetricExporter, MeterProvider, PeriodicExportingMetricReader } from "@opentelemetry/sdk-metrics";
const exporter = new InMemoryMetricExporter(0);
const reader = new PeriodicExportingMetricReader({ exporter });
metrics.setGlobalMeterProvider(new MeterProvider({ readers: [reader] }));
CODE
await client.lock("metrics").run(() => sleep(50));
await client.close();
await reader.forceFlush();
const [{ dataPoints }] = exporter.getMetrics()[0].scopeMetrics[0].metrics;
for (const { attributes, value } of dataPoints) console.log(attributes.kind, value.count, value.sum < 40 && (attributes.kind === "acquired" || value.sum >= 0.04));
await reader.shutdown();
`;

test("metrics", { timeout: 60_000 }, async () => {
  const server = await startServer();
  const file = join(import.meta.dirname, ".metrics.mjs");
  writeFileSync(file, METRICS.replace("CODE", code("otel", server)));
  try {
    const { stdout } = await promisify(execFile)(process.execPath, [file], { timeout: 50_000 });
    assert.deepEqual(stdout.trim().split("\n").sort(), ["acquired 1 true", "released 1 true"]);
  } finally {
    await server.stop();
    rmSync(file);
  }
});
