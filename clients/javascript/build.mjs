// Builds the package twice: dist/esm, and dist/cjs for require().
import { execFileSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";

const tsc = createRequire(import.meta.url).resolve("typescript/bin/tsc");
const compile = (...options) => execFileSync(process.execPath, [tsc, "-p", ".", ...options], { stdio: "inherit" });
rmSync("dist", { recursive: true, force: true });
compile();
compile("--module", "commonjs", "--moduleResolution", "node10", "--outDir", "dist/cjs");
writeFileSync("dist/cjs/package.json", '{ "type": "commonjs" }\n');
