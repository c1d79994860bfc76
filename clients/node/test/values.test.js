import assert from "node:assert/strict";
import { test } from "node:test";
import { Cadenza } from "../index.js";
import { connect, failure, flag, key, Server, until } from "./server.js";

const evaluate = "/ofrep/v1/evaluate/flags/";

test("a value", async (t) => {
  const server = await Server.start(t, () => ({ body: flag("a/b c", true) }));
  const { client, errors } = connect(t, server.url + "/", { context: { plan: "pro", seats: 1 } });
  assert.equal(await client.value("a/b c", false, { seats: 2 }), true);
  assert.deepEqual(await client.details("a/b c", false), {
    value: true, reason: "STATIC", variant: "default", metadata: { trace_id: "trace-of-a/b c" }, traceId: "trace-of-a/b c", error: undefined, stale: false,
  });
  assert.deepEqual(server.requests[0].body, { context: { plan: "pro", seats: 2 } });
  assert.equal(server.requests[0].path, evaluate + "a%2Fb%20c");
  assert.equal(server.requests[0].headers.authorization, `Bearer ${key}`);
  assert.deepEqual(errors, []);
});

test("an answer without a value is the default of the code", async (t) => {
  const server = await Server.start(t, () => ({ body: { key: "a", reason: "DEFAULT" } }));
  const { client } = connect(t, server.url);
  const { value, reason, error } = await client.details("a", 7);
  assert.deepEqual([value, reason, error], [7, "DEFAULT", undefined]);
});

test("what the default's type is not", async (t) => {
  const server = await Server.start(t, ({ path }) => ({ body: flag("a", { t: true, n: 1, s: "x", l: [1], o: {} }[path.at(-1)]) }));
  const { client, errors } = connect(t, server.url);
  const defaults = { t: false, n: 0, s: "", l: [], o: { a: 1 } };
  for (const flag of Object.keys(defaults)) {
    for (const [type, fallback] of Object.entries(defaults)) {
      const { value, error } = await client.details(flag, fallback);
      assert.equal(error?.code, type === flag ? undefined : "TYPE_MISMATCH", `${flag} as ${type}`);
      if (type !== flag) assert.equal(value, fallback);
    }
    assert.equal((await client.details(flag, undefined)).error, undefined);
  }
  assert.equal(errors.length, 20);
});

test("a gateway that is away at the start, then there, then away again", async (t) => {
  t.mock.timers.enable({ apis: ["Date"], now: Date.UTC(2026, 0, 1) });
  const server = await Server.start(t, ({ body }) => ({ body: flag("a", body.context.user ?? "nobody") }));
  const { client, errors } = connect(t, server.url);
  const { port } = server;
  await server.stop();

  let found = await client.details("a", "default", { user: "ann" });
  assert.deepEqual([found.value, found.reason, found.stale, found.error.code], ["default", "ERROR", false, "away"]);
  assert.equal(errors.length, 1);
  // Just after that it is not asked.
  await server.listen(port);
  found = await client.details("a", "default", { user: "ann" });
  assert.deepEqual([found.value, found.error.code, server.requests.length, errors.length], ["default", "away", 0, 1]);

  t.mock.timers.tick(5000);
  assert.equal(await client.value("a", "default", { user: "ann" }), "ann");
  assert.equal(await client.value("a", "default", { user: "ann", locale: "nl" }), "ann");

  await server.stop();
  for (let i = 0; i < 3; i++) {
    found = await client.details("a", "default", { user: "ann" });
    assert.deepEqual([found.value, found.reason, found.stale, found.error.code, found.traceId], ["ann", "STATIC", true, "away", "trace-of-a"]);
    t.mock.timers.tick(5000);
  }
  // Members in another order are the same context; another context is nobody's business.
  assert.equal(await client.value("a", "default", { locale: "nl", user: "ann" }), "ann");
  for (const context of [{ user: "bob" }, {}, { user: ["ann"] }, { user: "ann", locale: "fr" }]) {
    assert.equal(await client.value("a", "default", context), "default");
  }
  assert.equal(await client.value("b", "default", { user: "ann" }), "default");
});

test("one call finds out whether the gateway is back", async (t) => {
  t.mock.timers.enable({ apis: ["Date"], now: Date.UTC(2026, 0, 1) });
  let release;
  const server = await Server.start(t, () => ({ status: 503, headers: { "Retry-After": "20" }, body: "" }));
  const { client } = connect(t, server.url);
  await client.value("a", 0);
  t.mock.timers.tick(19_999);
  await client.value("a", 0);
  assert.equal(server.requests.length, 1);
  t.mock.timers.tick(1);
  server.answer = async () => (await new Promise((done) => (release = done)), { body: flag("a", 1) });
  const trial = client.value("a", 0);
  assert.equal(await client.value("a", 0), 0);
  await until("the trial", () => release);
  release();
  assert.equal(await trial, 1);
  server.answer = () => ({ body: flag("a", 2) });
  assert.equal(await client.value("a", 0), 2);
});

test("a slow gateway", async (t) => {
  const server = await Server.start(t, (_, response) => void response.writeHead(200).write("{"));
  const { client } = connect(t, server.url, { timeout: 50 });
  const { value, error } = await client.details("a", "default");
  assert.deepEqual([value, error.code], ["default", "away"]);
});

for (const [name, answer, code, keeps] of [
  ["401", failure(401, "invalid_api_key"), "invalid_api_key", true],
  ["403", failure(403, "key_not_allowed"), "key_not_allowed", true],
  ["429", failure(429, "rate_limited"), "rate_limited", true],
  ["500", failure(500, "internal"), "internal", true],
  ["no such path", failure(404, "not_found"), "not_found", true],
  ["a proxy's 404", { status: 404, body: "<html>" }, undefined, true],
  ["a proxy's 200", { status: 200, body: "<html>" }, "invalid_answer", true],
  ["a 200 of something else", { status: 200, body: {} }, "invalid_answer", true],
  ["a redirection", { status: 302, headers: { Location: "/other" }, body: "" }, "away", true],
  ["400", { status: 400, body: { key: "a", errorCode: "INVALID_CONTEXT", errorDetails: "no" } }, "INVALID_CONTEXT", false],
  ["404", { status: 404, body: { key: "a", errorCode: "FLAG_NOT_FOUND" } }, "FLAG_NOT_FOUND", false],
]) {
  test(`after a good answer, ${name}`, async (t) => {
    const server = await Server.start(t, () => ({ body: flag("a", "good") }));
    const { client, errors } = connect(t, server.url);
    assert.equal(await client.value("a", "default"), "good");
    server.answer = () => answer;
    const { value, stale, error } = await client.details("a", "default");
    assert.deepEqual([value, stale, error.code], [keeps ? "good" : "default", keeps, code]);
    assert.deepEqual(errors, [error]);
    assert.equal(server.requests.length, 2);
  });
}

test("what a caller does to a value stays with it", async (t) => {
  const server = await Server.start(t, () => ({ body: flag("a", { limit: 1 }) }));
  const { client } = connect(t, server.url);
  (await client.value("a", {})).limit = 2;
  await server.stop();
  (await client.value("a", {})).limit = 2;
  assert.deepEqual(await client.value("a", {}), { limit: 1 });
});

test("old values make room for new ones", async (t) => {
  const server = await Server.start(t, ({ body }) => ({ body: flag("a", body.context.user.padEnd(3 << 20)) }));
  const { client } = connect(t, server.url);
  for (const user of ["ann", "bob", "cem"]) await client.value("a", "", { user });
  await server.stop();
  const kept = [];
  for (const user of ["ann", "bob", "cem"]) kept.push((await client.value("a", "", { user })).trim());
  assert.deepEqual(kept, ["", "bob", "cem"]);
});

test("a prompt", async (t) => {
  const server = await Server.start(t, ({ body }) => ({ body: { reply: { value: { messages: body.variables }, trace_id: "t1" } } }));
  const { client } = connect(t, server.url, { context: { locale: "nl" } });
  const ask = (question, page) => client.prompt("reply", { variables: { question }, metadata: { page }, context: { plan: "pro" } });
  const want = { value: { messages: { question: "why" } }, traceId: "t1" };
  assert.deepEqual(await ask("why", 1), { ...want, stale: false, error: undefined });
  assert.deepEqual(server.requests[0].body, { keys: ["reply"], context: { locale: "nl", plan: "pro" }, variables: { question: "why" }, metadata: { page: 1 } });
  await server.stop();
  // Metadata have no effect on a prompt, variables do.
  const { error, ...found } = await ask("why", 2);
  assert.deepEqual([found, error.code], [{ ...want, stale: true }, "away"]);
  await assert.rejects(ask("how"), { name: "CadenzaError", code: "away" });
  const other = await client.prompt("reply", { default: { messages: [] } });
  assert.deepEqual([other.value, other.traceId, other.stale], [{ messages: [] }, undefined, false]);
});

test("a prompt that does not exist any more", async (t) => {
  const server = await Server.start(t, () => ({ body: { reply: { value: {}, trace_id: "t1" } } }));
  const { client } = connect(t, server.url);
  await client.prompt("reply");
  server.answer = () => failure(404, "unknown_key");
  await assert.rejects(client.prompt("reply"), { status: 404, code: "unknown_key" });
});

test("errors are printed, the same one once in ten seconds", async (t) => {
  t.mock.timers.enable({ apis: ["Date"], now: Date.UTC(2026, 0, 1) });
  const print = t.mock.method(console, "warn", () => {});
  const server = await Server.start(t, ({ path }) => failure(401, path.at(-1)));
  const { client } = connect(t, server.url, { onError: undefined });
  await client.value("a", 0);
  await client.value("a", 0);
  assert.deepEqual(print.mock.calls.map((call) => call.arguments), [[`cadenza: ${evaluate}a: 401 a: it is a`]]);
  await client.value("b", 0);
  t.mock.timers.tick(10_001);
  await client.value("b", 0);
  await client.value("b", 0);
  assert.equal(print.mock.callCount(), 3);
});

test("a client without an address or a key", () => {
  assert.throws(() => new Cadenza({ url: "http://localhost" }), TypeError);
  assert.throws(() => new Cadenza({ key }), TypeError);
});
