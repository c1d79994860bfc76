import assert from "node:assert/strict";
import { test } from "node:test";
import { connect, failure, fake, flag, Server, until } from "./server.js";

const bulk = "/ofrep/v1/evaluate/flags";
const events = "/ofrep/v1/events";
const streams = { eventStreams: [{ type: "other" }, { type: "sse", endpoint: { requestUri: `${events}?token=t1` }, inactivityDelaySec: 120 }] };

// Gateway has flags, and streams of events that a test writes to.
class Gateway {
  values = { color: "red", size: 1 };
  streams = [];
  more = streams;

  static async start(t) {
    const gateway = new Gateway();
    gateway.server = await Server.start(t, (request, response) => (gateway.answer ?? gateway.usual)(request, response));
    return gateway;
  }

  usual = ({ path, headers }, response) => {
    if (path === events) {
      response.writeHead(200, { "Content-Type": "text/event-stream; charset=utf-8" });
      response.flushHeaders();
      this.streams.push(response);
      return;
    }
    const etag = `"${JSON.stringify(this.values).replaceAll('"', "")}"`;
    if (headers["if-none-match"] === etag) return void response.writeHead(304, { ETag: etag }).end();
    const flags = Object.entries(this.values).map(([key, value]) => flag(key, value, { metadata: { version: "v1" } }));
    return { headers: { ETag: etag }, body: { flags: [...flags, { key: "broken", errorCode: "GENERAL", errorDetails: "it is broken" }], ...this.more } };
  };

  asked = (path) => this.server.asked(path);
  // open waits for a stream, and for the refresh that follows.
  async open(n) {
    await until(`stream ${n}`, () => this.streams.length === n && this.asked(bulk).length >= 2 * n);
    return this.streams.at(-1);
  }
}

const start = async (t, options) => {
  const gateway = await Gateway.start(t);
  return { gateway, clock: fake(t), ...connect(t, gateway.server.url, options) };
};

test("flags are refreshed by events", async (t) => {
  const { gateway, client, errors } = await start(t, { context: { plan: "pro" } });
  const flags = await client.follow({ user: "ann" });
  assert.equal(flags.get("color", "none"), "red");
  assert.deepEqual(flags.details("size", 0), { value: 1, reason: "STATIC", variant: "default", metadata: { version: "v1" }, traceId: undefined, error: undefined, stale: false });
  const stream = await gateway.open(1);
  assert.deepEqual(gateway.asked(bulk).map(({ body, headers }) => [body, headers["if-none-match"]]), [
    [{ context: { plan: "pro", user: "ann" } }, undefined],
    [{ context: { plan: "pro", user: "ann" } }, '"{color:red,size:1}"'],
  ]);
  const [asked] = gateway.asked(events);
  assert.deepEqual([asked.query.get("token"), asked.headers.accept, asked.headers.authorization], ["t1", "text/event-stream", undefined]);

  const changes = [];
  const stop = flags.onChange((keys) => changes.push(keys));
  gateway.values = { color: "blue", weight: 2 };
  stream.write(': hello\r\n\r\nevent: message\r\ndata: {"type":"refetchEval');
  stream.write('uation",\ndata:"etag":"e2","lastModified":1771622898}\r');
  stream.write('\n\r\ndata: {"type":"other"}\n\n');
  await until("the change", () => changes.length === 1);
  assert.deepEqual(changes[0].sort(), ["color", "size", "weight"]);
  assert.deepEqual([flags.get("color", ""), flags.get("weight", 0), flags.get("size", 7)], ["blue", 2, 7]);
  assert.equal(gateway.asked(bulk).at(-1).query.toString(), "flagConfigEtag=e2&flagConfigLastModified=1771622898");

  // A 304 changes nothing and keeps the flags.
  stream.write('data: {"type":"refetchEvaluation"}\n\n');
  await until("the 304", () => gateway.asked(bulk).length === 4);
  assert.equal(flags.get("color", ""), "blue");
  for (const color of ["green", "brown"]) {
    gateway.values = { color };
    stream.write('data: {"type":"refetchEvaluation"}\n\n');
    await until(color, () => flags.get("color", "") === color);
    stop();
  }
  assert.deepEqual(changes.slice(1), [["color", "weight"]]);
  assert.deepEqual(errors.map(({ code }) => code), ["FLAG_NOT_FOUND"]);
});

test("what is no flag, and what is broken", async (t) => {
  const { client, errors } = await start(t);
  const flags = await client.follow();
  assert.deepEqual([flags.get("other", 5), flags.get("broken", 6), flags.get("color", true)], [5, 6, true]);
  await until("the errors", () => errors.length === 3);
  assert.deepEqual(errors.map(({ code }) => code), ["FLAG_NOT_FOUND", "GENERAL", "TYPE_MISMATCH"]);
});

test("a stream that is cut is opened again, each time later, and misses nothing", async (t) => {
  const { gateway, clock, client, errors } = await start(t);
  const flags = await client.follow();
  for (let n = 1; n <= 4; n++) {
    const stream = await gateway.open(n);
    gateway.values = { color: `after ${n}` };
    if (n % 2) stream.destroy();
    else stream.end();
    await clock.next("sleeps", n, 500 * 2 ** (n - 1), 1000 * 2 ** (n - 1));
    await until("the new value", () => flags.get("color", "") === `after ${n}`);
  }
  assert.deepEqual(errors.map(({ code }) => code), ["away", "away"]);
  // One that held is no failure in a row.
  const stream = await gateway.open(5);
  clock.tick(60_000);
  const opened = clock.timeouts.length;
  stream.write(": here\n\n");
  await until("it is read", () => clock.timeouts.length > opened);
  clock.tick(60_000);
  stream.end();
  await clock.next("sleeps", 5, 500, 1000);
});

test("a stream that says nothing is dead", async (t) => {
  const { gateway, clock, client, errors } = await start(t);
  await client.follow();
  const stream = await gateway.open(1);
  for (let n = 3; n <= 5; n++) { // after those for the stream to open and for its first word
    clock.tick(89_999);
    stream.write(": here\n\n");
    await until("it is read", () => clock.timeouts.length === n);
  }
  assert.deepEqual([errors, clock.timeouts], [[], [10_000, 90_000, 90_000, 90_000, 90_000]]);
  clock.tick(90_000);
  await until("an error", () => errors.length === 1);
  assert.match(errors[0].message, /silent/);
  await clock.next("sleeps", 1, 500, 1000);
  await gateway.open(2);
});

test("a stream whose token has ended gets a new one", async (t) => {
  const { gateway, clock, client, errors } = await start(t);
  gateway.answer = (request, response) => {
    if (request.path === events && request.query.get("token") === "t1") return failure(401, "invalid_api_key");
    return gateway.usual(request, response);
  };
  await client.follow();
  await until("the refusal", () => errors.length === 1);
  gateway.more = { eventStreams: [{ type: "sse", url: `${gateway.server.url}${events}?token=t2` }] };
  await clock.next("sleeps", 1, 500, 1000);
  await until("the stream", () => gateway.streams.length === 1);
  assert.equal(gateway.asked(bulk)[1].headers["if-none-match"], undefined);
});

test("flags without events are asked for now and then", async (t) => {
  const { gateway, clock, client } = await start(t, { poll: 5000 });
  gateway.more = {};
  const flags = await client.follow();
  for (const [i, color] of ["blue", "green"].entries()) {
    gateway.values = { color };
    await clock.next("sleeps", i + 1, 5000);
    await until(color, () => flags.get("color", "") === color);
  }
  await until("it waits", () => clock.sleeps.length === 3);
  flags.close();
  clock.tick(100_000);
  const other = await client.follow(); // by then the first would have asked
  other.close();
  assert.equal(gateway.asked(bulk).length, 4);
});

test("flags of a gateway that is away at the start, and later", async (t) => {
  const { gateway, clock, client, errors } = await start(t);
  gateway.answer = () => ({ status: 503, headers: { "Retry-After": "30" }, body: "" });
  const flags = await client.follow();
  let { value, stale, error } = flags.details("color", "default");
  assert.deepEqual([value, stale, error.status], ["default", false, 503]);
  assert.equal(errors.length, 1);
  gateway.answer = undefined;
  await clock.next("sleeps", 1, 30_000);
  const stream = await gateway.open(1);
  assert.equal(flags.get("color", "default"), "red");

  gateway.answer = () => failure(401, "invalid_api_key");
  stream.write('data: {"type":"refetchEvaluation"}\n\n');
  await until("the 401", () => errors.length === 2);
  ({ value, stale, error } = flags.details("color", "default"));
  assert.deepEqual([value, stale, error.code], ["red", true, "invalid_api_key"]);
  gateway.answer = undefined;
  await clock.next("sleeps", 2, 1000, 2000);
  await until("it is fresh", () => !flags.details("color", "").stale);
});

test("flags of two contexts are two sets", async (t) => {
  const { gateway, client } = await start(t);
  gateway.answer = (request, response) => {
    if (request.path === bulk) gateway.values = { user: request.body.context.user };
    return gateway.usual(request, response);
  };
  const [ann, bob] = await Promise.all([client.follow({ user: "ann" }), client.follow({ user: "bob" })]);
  assert.deepEqual([ann.get("user", ""), bob.get("user", "")], ["ann", "bob"]);
});

test("an endless event", async (t) => {
  const { gateway, client, errors } = await start(t);
  await client.follow();
  (await gateway.open(1)).write("data: " + "x".repeat(70_000));
  await until("an error", () => errors.length === 1);
  assert.match(errors[0].message, /too long/);
});

test("closing a client ends its streams", async (t) => {
  const { gateway, clock, client, errors } = await start(t);
  await client.follow();
  const stream = await gateway.open(1);
  let closed = false;
  stream.on("close", () => (closed = true));
  await client.close();
  await until("the stream's end", () => closed);
  const late = await client.follow(); // does not hang
  late.close();
  assert.deepEqual([gateway.asked(events).length, clock.sleeps, errors], [1, [], []]);
});
