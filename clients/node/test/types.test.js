import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const compiler = fileURLToPath(new URL("../node_modules/typescript/bin/tsc", import.meta.url));
const installed = existsSync(compiler) || process.env.CADENZA_REQUIRE_NODE;

test("the types", { skip: !installed && "NOT TESTED: the types. Not installed: npm ci --prefix clients/node" }, () => {
  const { stdout, status } = spawnSync(process.execPath, [
    compiler, "--noEmit", "--strict", "--skipLibCheck", "--target", "esnext", "--module", "nodenext", "--types", "", fileURLToPath(new URL("types.ts", import.meta.url)),
  ]);
  assert.equal(status, 0, String(stdout));
});
