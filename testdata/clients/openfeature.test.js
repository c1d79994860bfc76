import assert from "node:assert/strict";
import { test } from "node:test";
import { OFREPProvider } from "@openfeature/ofrep-provider";
import { OpenFeature } from "@openfeature/server-sdk";
import { key, url } from "./gateway.js";

const header = { authorization: [["Authorization", "Bearer " + key]], "x-api-key": [["X-API-Key", key]] };
await OpenFeature.setProviderAndWait(new OFREPProvider({ baseUrl: url, headers: header.authorization }));
const client = OpenFeature.getClient();

// details evaluates a flag by the type of the default.
const details = (flag, fallback, context = {}, by = client) =>
  by[{ boolean: "getBooleanDetails", string: "getStringDetails", number: "getNumberDetails", object: "getObjectDetails" }[typeof fallback]](flag, fallback, context);

const page = { showImages: true, title: "Check out these pics!", imagesPerPage: 100 };
const ballmer = { email: "ballmer@macrosoft.com" };

// What OpenFeature's evaluation scenarios (evaluation_v2.feature) say of answers, by their
// names. A configuration has no names for its values: its variant is a row, or "default".
// Seven scenarios are about the SDK alone: a provider that is not ready, fatal or stale,
// CACHED, DISABLED, hooks, immutability, asynchrony.
const zeros = { boolean: [true, false], string: ["hi", ""], integer: [1, 0], float: [0.1, 0], object: [{ a: 1 }, {}] };
const scenarios = {
  "Resolve values": [
    ["boolean", false, {}, { value: true }],
    ["string", "bye", {}, { value: "hi" }],
    ["integer", 1, {}, { value: 10 }],
    ["float", 0.1, {}, { value: 0.5 }],
    ["object", {}, {}, { value: page }],
  ],
  "Resolves zero value": Object.entries(zeros).map(([t, [d, value]]) => ["zero/" + t, d, {}, { value, reason: "STATIC" }]),
  "Resolves zero value with targeting": Object.entries(zeros).map(([t, [d, value]]) => ["targeted/" + t, d, ballmer, { value, reason: "TARGETING_MATCH", variant: "zero" }]),
  "Resolves zero value with targeting using default": Object.entries(zeros).map(([t, [d, value]]) => ["targeted/" + t, d, { email: "ballmer@none.com" }, { value, reason: "DEFAULT", variant: "default" }]),
  "Empty evaluation context": Object.entries(zeros).map(([t, [d, value]]) => ["targeted/" + t, d, {}, { value, reason: "DEFAULT" }]),
  "Null context values": Object.entries(zeros).map(([t, [d, value]]) => ["targeted/" + t, d, { email: null }, { value, reason: "DEFAULT" }]),
  "Multiple context attributes targeting": [["context-aware", "false", { ...ballmer, role: "admin", age: 65, customer: false }, { value: "INTERNAL", reason: "TARGETING_MATCH", variant: "internal" }]],
  "Structure flag evaluation": [["object", {}, {}, { value: page, reason: "STATIC" }]],
  "Complete evaluation details structure, Variant field population": [
    ["boolean", false, {}, { value: true, flagKey: "boolean", variant: "default", reason: "STATIC" }],
  ],
  "Flag not found error, Error message": [false, "bye", 1, 0.1, { a: 1 }].map((d) => ["non-existent-flag", d, {}, { value: d, reason: "ERROR", errorCode: "FLAG_NOT_FOUND", errorMessage: "No definition has any of these keys: non-existent-flag." }]),
  "Type mismatch error, Default value type validation": [
    ["boolean", "bye"],
    ["boolean", 1],
    ["boolean", 0.1],
    ["string", false],
    ["string", 1],
    ["string", {}],
  ].map(([flag, value]) => [flag, value, {}, { value, reason: "ERROR", errorCode: "TYPE_MISMATCH" }]),
};

// What flagd's scenarios say of answers, as far as a table can say it. It can't choose arms
// by flagd's own hash, compute shares, take a number as a version, be disabled, have no
// default or metadata of its own, or be invalid: such a definition is not served.
const flagd = (flag, fallback, contexts) => contexts.map(([context, value, reason]) => ["flagd/" + flag, fallback, context, { value, ...(reason && { reason }) }]);
const by = (field, values) => Object.entries(values).map(([value, answer]) => [{ [field]: value }, answer]);
const ofFlagd = {
  "Resolve numeric values without loss of precision": [["large", 2147483647], ["huge", 9007199254740991], ["whole", 10]].flatMap(([flag, value]) => flagd(flag, 1, [[{}, value, "STATIC"]])),
  "Errors and edge cases": flagd("empty", 3, [[{}, 1]]),
  "Evaluator reuse": [...flagd("email", "fallback", [[ballmer, "hi"]]), ...flagd("other-email", "fallback", [[ballmer, "yes"]])],
  "Evaluator $ref": flagd("email", "fallback", [[ballmer, "hi", "TARGETING_MATCH"], [{ email: "user@example.com" }, "bye", "TARGETING_MATCH"]]),
  "Substring operators": flagd("substring", "fallback", by("id", { abcdef: "prefix", uvwxyz: "postfix", abcxyz: "prefix", lmnopq: "none", 3: "none" })),
  "starts_with and ends_with for non-string input": flagd("no-text", "wrong", [[{ num: 123 }, "fallback", "DEFAULT"]]),
  "Semantic version operator numeric comparison": flagd("version", "fallback", by("version", { "2.0.0": "equal", "2.1.0": "greater", "1.9.0": "lesser", "2.0.0-alpha": "lesser", "2.0.0.0": "none" })),
  "Semantic version operator semantic comparison": flagd("range", "fallback", by("version", { "3.0.1": "minor", "3.1.0": "major", "4.0.0": "none" })),
  "sem_ver v-prefix handling": flagd("v-prefix", "fallback", by("version", { "1.0.0": "match", "v1.0.0": "match", "V1.0.0": "match", "2.0.0": "no-match" })),
  "sem_ver partial version handling": flagd("partial", "fallback", by("version", { "1.5.0": "match", "1.0.0": "match", "1.0": "match", 1: "match", "2.0.0": "no-match" })),
  "sem_ver build metadata ignored": flagd("build", "fallback", by("version", { "1.0.0": "match", "1.0.0+other": "match", "2.0.0": "no-match" })),
  "sem_ver of no version": flagd("no-version", "wrong", [[{ version: "not-a-version" }, "fallback", "DEFAULT"]]),
  "Fractional operator with single entry": flagd("single", "fallback", [[{ targetingKey: "any-user" }, "single"]]),
  "Fractional operator without its key, of no weight": [
    ...flagd("no-unit", "wrong", [[{ targetingKey: "any-user" }, "fallback", "DEFAULT"]]),
    ...flagd("weights", "fallback", ["jon@company.com", "user1", "any-user"].map((targetingKey) => [{ targetingKey, tier: "basic" }, "blue"])),
  ],
  "Time-based operations": flagd("time", 0, [[{ time: 1 }, -1], [{ time: 4133980802 }, 1]]),
  "Targeting by targeting key": flagd("targeting-key", "fallback", [
    [{ targetingKey: "5c3d8535-f81a-4478-a6d3-afaa4d51199e" }, "hit", "TARGETING_MATCH"],
    [{ targetingKey: "f20bd32d-703b-48b6-bc8e-79d53c85134a" }, "miss", "DEFAULT"],
  ]),
  "Type mismatch across the value types": [["integer", false], ["integer", "fallback"], ["float", false], ["float", "fallback"]].map(([flag, value]) => [flag, value, {}, { value, errorCode: "TYPE_MISMATCH" }]),
};

for (const [name, cases] of [...Object.entries(scenarios), ...Object.entries(ofFlagd)]) {
  test("scenario: " + name, async () => {
    for (const [flag, fallback, context, want] of cases) {
      const got = await details(flag, fallback, context);
      for (const member in want) assert.deepEqual(got[member], want[member], `${flag} ${member} ${JSON.stringify(got)}`);
    }
  });
}

test("scenario: Flag metadata in evaluation details", async () => {
  const { flagMetadata } = await details("boolean", false);
  assert.match(flagMetadata.version, /^[0-9a-f]{12}$/);
  assert.match(flagMetadata.trace_id, /^[0-9a-f-]{36}$/);
  const reported = await fetch(url + "/v1/metrics", {
    method: "POST", headers: header.authorization, body: JSON.stringify({ trace_id: flagMetadata.trace_id, values: { clicked: 1 } }),
  });
  assert.equal(reported.status, 200);
});

test("arms of a split", async () => {
  const arms = {};
  for (let n = 0; n < 30; n++) {
    const got = await details("half", "x", { targetingKey: "c-" + n });
    assert.equal(got.reason, "SPLIT");
    arms[got.variant] = got.value;
    assert.equal((await details("half", "x", { targetingKey: "other", customer_id: "c-" + n })).variant, got.variant);
  }
  assert.deepEqual(arms, { first: "a", second: "b" });
});

test("keys with slashes, lists, dates", async () => {
  for (const flag of ["team/list", "team%2Flist"]) {
    const got = await details(flag, []);
    assert.deepEqual([got.value, got.reason], [[1, "a"], "STATIC"], JSON.stringify(got));
  }
  assert.equal((await details("old", false, { signed_up: new Date("2026-01-01T12:00:00Z") })).value, true);
  assert.equal((await details("old", false, { signed_up: new Date("2026-03-01T12:00:00Z") })).value, false);
});

test("keys as X-API-Key, and errors", async () => {
  const domain = (name, headers) => OpenFeature.setProviderAndWait(name, new OFREPProvider({ baseUrl: url, headers })).then(() => OpenFeature.getClient(name));
  const other = await domain("other", header["x-api-key"]);
  assert.equal((await details("string", "bye", {}, other)).value, "hi");
  const wrong = await domain("wrong", [["Authorization", "Bearer wrong-key-000000000000"]]);
  const refused = await details("string", "bye", {}, wrong);
  assert.deepEqual([refused.value, refused.reason, refused.errorCode], ["bye", "ERROR", "GENERAL"]);
  const deep = {};
  let at = deep;
  for (let n = 0; n < 400; n++) at = at.a = {};
  assert.equal((await details("string", "bye", deep)).errorCode, "PARSE_ERROR");
});

await test("all flags: ETag", async () => {
  const ask = (context, tag) =>
    fetch(url + "/ofrep/v1/evaluate/flags", { method: "POST", headers: [...header.authorization, ...(tag ? [["If-None-Match", tag]] : [])], body: JSON.stringify({ context }) });
  const first = await ask({ targetingKey: "c-1" });
  const { flags } = await first.json();
  assert.equal(flags.filter((f) => !f.key.startsWith("flagd/")).length, 20);
  assert.deepEqual(flags.map((f) => f.key), flags.map((f) => f.key).toSorted());
  assert.ok(flags.every((f) => f.value !== null && f.reason && f.variant && f.metadata.trace_id));
  const again = await ask({ targetingKey: "c-1" }, first.headers.get("etag"));
  assert.equal(again.status, 304);
  assert.equal((await ask({ targetingKey: "c-2" }, first.headers.get("etag"))).status, 200);
});
