import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { connect, failure, fake, folder, key, Server, until } from "./server.js";

const ok = () => ({ body: { ok: true } });

test("reports go out together, a few at a time", async (t) => {
  const clock = fake(t);
  let now = 0, most = 0;
  const server = await Server.start(t, async () => {
    most = Math.max(most, ++now);
    for (let i = 0; i < 20; i++) await new Promise(setImmediate);
    now--;
    return ok();
  });
  const { client, errors } = connect(t, server.url);
  for (let score = 0; score < 10; score++) assert.equal(await client.report("t1", { score }), true);
  await client.report(undefined, { decision_id: "d1", score: 10 });
  assert.equal(server.requests.length, 0);
  await clock.next("timeouts", 1, 1000);
  await server.until("all reports", () => server.requests.length === 11);
  assert.deepEqual(server.requests.map(({ body }) => body.score).sort((a, b) => a - b), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
  assert.deepEqual(server.requests.find(({ body }) => body.score === 3).body, { trace_id: "t1", score: 3 });
  assert.deepEqual(server.requests.find(({ body }) => body.score === 10).body, { decision_id: "d1", score: 10 });
  assert.equal(new Set(server.requests.map(({ headers }) => headers["idempotency-key"])).size, 11);
  assert.equal(await client.flush(), 0);
  assert.ok(most > 1 && most <= 4, `${most} at once`);
  assert.deepEqual([errors, client.lost], [[], 0]);
});

test("what can't be sent is kept, and sent again as the same", async (t) => {
  const clock = fake(t);
  const failures = [failure(500, "internal"), failure(401, "invalid_api_key"), failure(404, "not_found"), { status: 429, headers: { "Retry-After": "30" }, body: "" }];
  const server = await Server.start(t, () => failures[server.requests.length - 1] ?? ok());
  const { client, errors } = connect(t, server.url);
  await client.report("t1", { score: 1 });
  const waits = [[1000], [500, 1000], [1000, 2000], [2000, 4000], [30_000]];
  for (const [i, wait] of waits.entries()) {
    await clock.next("timeouts", i + 1, ...wait);
    await server.until(`try ${i + 1}`, () => server.requests.length === i + 1);
  }
  assert.equal(new Set(server.requests.map(({ headers, text }) => headers["idempotency-key"] + text)).size, 1);
  assert.deepEqual(errors.map(({ status }) => status), [500, 401, 404, 429]);
  assert.equal(await client.flush(), 0);
  assert.equal(client.lost, 0);
});

test("a report that is refused is dropped, one that only fails does not block", async (t) => {
  const server = await Server.start(t, ({ body }) => {
    if (body.score === 1) return failure(400, "invalid_request");
    if (body.score === 2) return failure(404, "unknown_trace");
    if (body.score === 3) return { status: 413, body: "<html>" };
    if (body.score >= 4 && body.score < 8) return failure(500, "internal");
    return body.latency ? { body: { ok: true, ignored: ["latency"] } } : ok();
  });
  const { client, errors } = connect(t, server.url);
  for (let score = 1; score <= 20; score++) await client.report("t1", { score, latency: score === 20 ? 1 : undefined });
  // The four that fail are a whole round, after which a pause is due.
  for (let left = await client.flush(); left > 4; left = await client.flush());
  assert.equal(await client.flush(), 4);
  assert.equal(client.lost, 3);
  const found = errors.filter(({ status }) => status !== 500).map(({ code, record }) => [code, record.score]);
  assert.deepEqual(found.sort(([, a], [, b]) => a - b), [["invalid_request", 1], ["unknown_trace", 2], [undefined, 3], ["ignored", 20]]);
  const stored = new Set(server.requests.map(({ body }) => body.score));
  assert.equal(stored.size, 20);
  server.answer = ok;
});

test("reports survive a kill, also with half a line at the end", async (t) => {
  const spool = join(folder(t), "reports");
  // The app reports while the gateway is away, and dies.
  const script = `
    import { Cadenza } from ${JSON.stringify(new URL("../index.js", import.meta.url).href)};
    const client = new Cadenza({ url: "http://127.0.0.1:1", key: "${key}", spool: ${JSON.stringify(spool)}, onError() {} });
    await Promise.all(Array.from({ length: 50 }, (_, score) => client.report("t1", { score })));
    console.log("reported");
    setInterval(() => {}, 1000);`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", script], { stdio: ["ignore", "pipe", "inherit"] });
  await once(child.stdout, "data");
  child.kill("SIGKILL");
  await once(child, "exit");
  assert.equal(statSync(spool).mode & 0o777, process.platform === "win32" ? 0o666 : 0o600);
  appendFileSync(spool, '\n["half-of-one","{\\"trace_');

  // The next one has them all, but the gateway takes only ten of them.
  const server = await Server.start(t, () => (server.requests.length <= 10 ? ok() : failure(503, "overloaded")));
  const first = connect(t, server.url, { spool });
  assert.equal(first.errors.length, 0);
  await first.client.report("t1", { score: 50 });
  assert.equal(await first.client.close(), 41);
  assert.equal(first.errors[0].code, "spool");

  const taken = server.requests.slice(0, 10).map(({ headers }) => headers["idempotency-key"]);
  server.answer = ok;
  server.requests = [];
  const second = connect(t, server.url, { spool });
  assert.equal(await second.client.flush(), 0);
  assert.equal(server.requests.length, 41);
  assert.ok(server.requests.every(({ headers }) => !taken.includes(headers["idempotency-key"])));
  assert.ok(server.requests.some(({ body }) => body.score === 50));
  await second.client.close();
  const third = connect(t, server.url, { spool });
  assert.equal(await third.client.flush(), 0);
  assert.deepEqual([server.requests.length, second.errors, third.errors], [41, [], []]);
});

test("a client that starts sends what is left by itself", async (t) => {
  const spool = join(folder(t), "reports");
  writeFileSync(spool, '\n["id-1","{\\"score\\":1}"]\n["id-2","{\\"score\\":2}"]\n["id-1"]');
  const clock = fake(t);
  const server = await Server.start(t, ok);
  connect(t, server.url, { spool });
  await clock.next("timeouts", 1, 1000);
  await server.until("the report", () => server.requests.length === 1);
  assert.deepEqual([server.requests[0].headers["idempotency-key"], server.requests[0].text], ["id-2", '{"score":2}']);
});

test("there is a bound, and what is beyond it is counted", async (t) => {
  const spool = join(folder(t), "reports");
  const server = await Server.start(t, () => failure(503, "overloaded"));
  const { client, errors } = connect(t, server.url, { spool, spoolSize: 1000 });
  const kept = [];
  for (let i = 0; i < 20; i++) kept.push(await client.report("t1", { metadata: { text: "x".repeat(60) } }));
  assert.deepEqual([kept.filter(Boolean).length, client.lost, errors.length], [10, 10, 10]);
  assert.deepEqual([errors[0].code, errors[0].record.trace_id], ["lost", "t1"]);
  server.answer = ok;
  assert.equal(await client.flush(), 0);
  assert.equal(await client.report("t1", { score: 1 }), true);
});

test("the file shrinks", async (t) => {
  const spool = join(folder(t), "reports");
  const server = await Server.start(t, ok);
  const { client, errors } = connect(t, server.url, { spool });
  for (let i = 0; i < 60; i++) {
    await client.report("t1", { metadata: { text: "x".repeat(5000) } });
    await client.flush();
  }
  await client.report("t1", { score: 1 });
  assert.ok(statSync(spool).size < 150_000, `${statSync(spool).size} bytes`);
  assert.match(readFileSync(spool, "utf8"), /score/);
  await client.close();
  assert.deepEqual(errors, []);
});

test("a report on nothing, one after the end, and a spool that can't be", async (t) => {
  const server = await Server.start(t, ok);
  const { client, errors } = connect(t, server.url);
  await assert.rejects(client.report(undefined, { score: 1 }), TypeError);
  await client.close();
  assert.equal(await client.report("t1", { score: 1 }), false);
  assert.deepEqual([client.lost, errors[0].code], [1, "lost"]);
  assert.throws(() => connect(t, server.url, { spool: join(folder(t), "none", "reports") }), { code: "ENOENT" });
});
