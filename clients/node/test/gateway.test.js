import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { Cadenza } from "../index.js";
import { folder } from "./server.js";

const { CADENZA_CLIENTS_URL: url, CADENZA_CLIENTS_DEFINITIONS: definitions, CADENZA_API_KEY: key } = process.env;
const skip = url ? false : "no gateway: go test ./cmd/caddy -run TestSmallClients starts one";

const connect = (t, options) => {
  const errors = [];
  const client = new Cadenza({ url, key, timeout: 60_000, onError: (error) => errors.push(error), ...options });
  t.after(() => client.close());
  return { client, errors };
};

test("prompts and reports of a gateway", { skip }, async (t) => {
  const { client, errors } = connect(t, { spool: join(folder(t), "spool") });
  const { value, traceId, error } = await client.prompt("support_reply", { context: { locale: "nl-BE" }, variables: { question: "Waar?" }, metadata: { page: "help" } });
  assert.deepEqual([value.name, error], ["nl", undefined]);
  await assert.rejects(client.prompt("none"), { code: "unknown_key", status: 404 });
  for (const record of [{ score: 85 }, { values: { resolved: 1 } }, { score: "much" }]) assert.equal(await client.report(traceId, record), true);
  assert.equal(await client.flush(), 0);
  assert.deepEqual(errors.map(({ code }) => code), ["unknown_key", "invalid_request"]);
  assert.equal(client.lost, 1);
});

test("values and flags of a gateway", { skip }, async (t) => {
  const all = await fetch(url + "/ofrep/v1/evaluate/flags", { method: "POST", headers: { Authorization: `Bearer ${key}` }, body: "{}" });
  if (all.status === 404) return t.skip("NOT TESTED: the gateway has no /ofrep/v1/evaluate/flags");
  const { client, errors } = connect(t, { context: { environment: "production" } });
  const staff = { tags: ["employee"] };
  const { value, traceId, reason, error } = await client.details("new_checkout", false, staff);
  assert.deepEqual([value, error], [true, undefined]);
  assert.ok(reason && traceId);
  assert.equal(await client.report(traceId, { values: { bought: 1 } }), true);
  assert.deepEqual([await client.flush(), client.lost], [0, 0]);
  const none = await client.details("none", 5);
  assert.deepEqual([none.value, none.error.code], [5, "FLAG_NOT_FOUND"]);
  const flags = await client.follow(staff);
  assert.deepEqual([flags.get("new_checkout", false), flags.get("small_client_node", "none")], [true, "none"]);
  if (!(await all.text()).includes('"sse"')) return t.skip("NOT TESTED: that an edit arrives, since the gateway has no events");
  const changed = new Promise((done, fail) => {
    flags.onChange(done);
    setTimeout(() => fail(new Error("the edit does not arrive")), 50_000).unref(); // less than poll: it is an event that tells of it
  });
  writeFileSync(join(definitions, "remoteconfigs/small_client_node.yaml"), "type: string\ndefault: here\n");
  await changed;
  assert.equal(flags.get("small_client_node", "none"), "here");
  assert.deepEqual(errors.map(({ code }) => code), ["FLAG_NOT_FOUND", "FLAG_NOT_FOUND"]);
});
