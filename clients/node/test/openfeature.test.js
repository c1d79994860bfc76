import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { CadenzaProvider } from "../openfeature.js";
import { connect, failure, flag, Server } from "./server.js";

const sdk = await import("@openfeature/server-sdk").catch((error) => {
  if (process.env.CADENZA_REQUIRE_NODE) throw error;
});
const skip = sdk ? false : "NOT TESTED: the OpenFeature provider. Not installed: npm ci --prefix clients/node";

test("through OpenFeature's SDK", { skip }, async (t) => {
  const { OpenFeature } = sdk;
  const values = { boolean: true, string: "x", number: 0, object: { a: [1] } };
  const server = await Server.start(t, ({ path, body }) => {
    const key = path.split("/").at(-1);
    return key in values ? { body: flag(key, values[key], { variant: body.context.targetingKey }) } : { status: 404, body: { key, errorCode: "FLAG_NOT_FOUND" } };
  });
  const { client } = connect(t, server.url);
  await OpenFeature.setProviderAndWait(new CadenzaProvider(client));
  t.after(() => OpenFeature.close());
  const features = OpenFeature.getClient();
  const context = { targetingKey: "ann", since: new Date(0) };
  assert.equal(await features.getBooleanValue("boolean", false, context), true);
  assert.equal(await features.getStringValue("string", "", context), "x");
  assert.equal(await features.getNumberValue("number", 1, context), 0);
  assert.deepEqual(await features.getObjectValue("object", {}, context), { a: [1] });
  assert.deepEqual(server.requests[0].body, { context: { targetingKey: "ann", since: "1970-01-01T00:00:00.000Z" } });
  const { value, reason, variant, flagMetadata } = await features.getBooleanDetails("boolean", false, context);
  assert.deepEqual([value, reason, variant, { ...flagMetadata }], [true, "STATIC", "ann", { trace_id: "trace-of-boolean" }]);

  const broken = async (key) => {
    const { value, reason, errorCode } = await features.getStringDetails(key, "default", context);
    return [value, reason, errorCode];
  };
  assert.deepEqual(await broken("none"), ["default", "ERROR", "FLAG_NOT_FOUND"]);
  assert.deepEqual(await broken("number"), ["default", "ERROR", "TYPE_MISMATCH"]);
  server.answer = () => failure(401, "invalid_api_key");
  assert.deepEqual(await broken("string"), ["x", "STALE", undefined]);
  assert.deepEqual(await broken("number"), ["default", "ERROR", "TYPE_MISMATCH"]);
  assert.deepEqual(await broken("other"), ["default", "ERROR", "GENERAL"]);
});

test("the client is under 400 lines", () => {
  const lines = ["index.js", "flags.js", "reports.js", "wire.js"].map((name) => readFileSync(new URL("../" + name, import.meta.url), "utf8").split("\n").length - 1);
  assert.ok(lines.reduce((a, b) => a + b) < 400, `${lines}`);
});
