import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import Anthropic, { APIError, AuthenticationError, BadRequestError, InternalServerError, NotFoundError } from "@anthropic-ai/sdk";
import { betaTool } from "@anthropic-ai/sdk/helpers/beta/json-schema";
import { zodOutputFormat } from "@anthropic-ai/sdk/helpers/zod";
import { z } from "zod";
import { all, counted, key, pixel, raises, url } from "./gateway.js";

const client = new Anthropic({ baseURL: url, apiKey: key, maxRetries: 0 });
const hello = [{ role: "user", content: "Hello." }];
const ask = (model, more) => ({ model, max_tokens: 100, messages: hello, ...more });

// What the endpoint weather calls, and what became of it.
function weatherTools() {
  const asked = [];
  const tool = (name, answer) =>
    betaTool({
      name,
      description: `Asks for the ${name}.`,
      inputSchema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
      run: ({ city }) => {
        asked.push(`${name} ${city}`);
        return answer;
      },
    });
  return { asked, tools: [tool("get_weather", "Sunny."), tool("get_time", "Noon.")] };
}
const declared = weatherTools().tools.map(({ name, description, input_schema }) => ({ name, description, input_schema }));

test("messages: an answer", async () => {
  const { data: answer, response, request_id } = await client.messages
    .create(ask("hello", { temperature: 0.5, metadata: { user_id: "u1" } }))
    .withResponse();
  assert.match(answer.id, /^msg_[0-9a-f]{32}$/);
  assert.deepEqual(
    [answer.type, answer.role, answer.model, answer.stop_reason, answer.stop_sequence],
    ["message", "assistant", "hello", "end_turn", null],
  );
  assert.deepEqual(answer.content, [{ type: "text", text: "Hello from the gateway." }]);
  assert.deepEqual([answer.usage.input_tokens, answer.usage.output_tokens], [11, 4]);
  assert.ok(request_id && answer._request_id === request_id, "request-id");
  assert.equal(response.headers.get("cadenza-trace-id"), request_id);
});

test("messages: a bearer token is the key, too", async () => {
  const bearer = new Anthropic({ baseURL: url, apiKey: null, authToken: key, maxRetries: 0 });
  const answer = await bearer.messages.create(ask("hello"));
  assert.equal(answer.content[0].text, "Hello from the gateway.");
});

test("messages: a stream", async () => {
  const events = await all(await client.messages.create(ask("hello", { stream: true })));
  const types = events.map((e) => e.type).filter((type, i, list) => type !== list[i - 1]);
  assert.deepEqual(types, ["message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop"]);
  assert.equal(events.map((e) => e.delta?.text ?? "").join(""), "Hello from the gateway.");
  const last = events.at(-2);
  assert.deepEqual([last.delta.stop_reason, last.usage.input_tokens, last.usage.output_tokens], ["end_turn", 11, 4]);
});

test("messages: the helper for streams", async () => {
  const seen = [];
  const stream = client.messages.stream(ask("hello")).on("text", (piece) => seen.push(piece));
  const streamed = await stream.finalMessage();
  assert.equal(seen.join(""), "Hello from the gateway.");
  assert.ok(seen.length > 1);
  assert.equal(await stream.finalText(), "Hello from the gateway.");
  const whole = await client.messages.create(ask("hello"));
  assert.deepEqual({ ...streamed, id: "" }, { ...whole, id: "", parsed_output: null });
});

test("messages: toolRunner with two tools", async () => {
  for (const stream of [false, true]) {
    const { asked, tools } = weatherTools();
    const runner = client.beta.messages.toolRunner(ask("weather", { messages: [{ role: "user", content: "Gent?" }], tools, stream }));
    const answer = await runner.runUntilDone();
    assert.equal(answer.content[0].text, "It is sunny in Gent, at noon.");
    assert.deepEqual(asked.sort(), ["get_time Gent", "get_weather Gent"]);
  }
});

test("messages: tool calls, whole and streamed", async () => {
  const params = ask("weather", { tools: declared, tool_choice: { type: "auto", disable_parallel_tool_use: false } });
  for (const answer of [await client.messages.create(params), await client.messages.stream(params).finalMessage()]) {
    assert.equal(answer.stop_reason, "tool_use");
    assert.deepEqual(
      answer.content.map((b) => [b.type, b.name, b.input]),
      [["tool_use", "get_weather", { city: "Gent" }], ["tool_use", "get_time", { city: "Gent" }]],
    );
    assert.equal(new Set(answer.content.map((b) => b.id)).size, 2);
    const results = answer.content.map(({ id }, i) => ({ type: "tool_result", tool_use_id: id, content: "Fine.", is_error: i === 0 }));
    const next = await client.messages.create({
      ...params, messages: [...hello, { role: "assistant", content: answer.content }, { role: "user", content: [...results, { type: "text", text: "So?" }] }],
    });
    assert.equal(next.content[0].text, "It is sunny in Gent, at noon.");
  }
});

test("messages: twelve steps", async () => {
  const counted = [];
  const count = betaTool({
    name: "count", description: "Counts.", inputSchema: { type: "object", properties: { n: { type: "number" } }, required: ["n"] },
    run: ({ n }) => { counted.push(n); return "ok"; },
  });
  const answer = await client.beta.messages.toolRunner(ask("steps", { tools: [count] })).runUntilDone();
  assert.equal(answer.content[0].text, "Counted to 12.");
  assert.deepEqual(counted, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
});

test("messages: structured output", async () => {
  const Weather = z.object({ city: z.string(), degrees: z.number() });
  const answer = await client.messages.parse(ask("structured", { output_config: { format: zodOutputFormat(Weather) } }));
  assert.deepEqual(answer.parsed_output, { city: "Gent", degrees: 21 });
});

test("messages: an image", async () => {
  const answer = await client.messages.create(
    ask("vision", {
      system: [{ type: "text", text: "Look closely.", cache_control: { type: "ephemeral" } }],
      messages: [{ role: "user", content: [{ type: "image", source: { type: "base64", media_type: "image/png", data: pixel.split(",")[1] } }, { type: "text", text: "What is it?" }] }],
    }),
  );
  assert.match(answer.content[0].text, /image/);
});

test("messages: context and variables", async () => {
  const answer = await client.messages.create(ask("greeting", { context: { locale: "nl" }, variables: { name: "Ada" } }));
  assert.match(answer.content[0].text, /Dag Ada/);
  const byMetadata = await client.messages.create(ask("greeting@nl", { metadata: { user_id: "u1", order: "7" } }));
  assert.deepEqual([byMetadata.content[0].text, byMetadata.model], ["Dag you", "greeting@nl"]);
});

test("messages: members that are ignored are named", async () => {
  const { data, response } = await client.messages
    .create(ask("hello", { service_tier: "auto", messages: [{ role: "user", content: [{ type: "text", text: "Hi", cache_control: { type: "ephemeral" } }] }] }))
    .withResponse();
  assert.equal(data.content[0].text, "Hello from the gateway.");
  assert.deepEqual(response.headers.get("cadenza-ignored").split(/, */).sort(), ["messages[0].content[0].cache_control", "service_tier"]);
});

test("messages: thoughts go back to the target that had them", async () => {
  const tools = [{ name: "look", input_schema: { type: "object" } }];
  for (const answer of [
    await client.messages.create(ask("pondering", { tools })),
    await client.messages.stream(ask("pondering", { tools })).finalMessage(),
  ]) {
    assert.deepEqual(answer.content.map((b) => b.type), ["thinking", "redacted_thinking", "tool_use"]); // the second is the call's own data
    assert.equal(answer.content[0].thinking, "Let me look.");
    assert.match(answer.content[0].signature, /^cdz1_/);
    const { data, response } = await client.messages
      .create(ask("pondering", {
        tools,
        messages: [...hello, { role: "assistant", content: answer.content }, { role: "user", content: [{ type: "tool_result", tool_use_id: answer.content[2].id, content: "A tree." }] }],
      }))
      .withResponse();
    assert.deepEqual(data.content.map((b) => b.thinking ?? b.text), ["Now I see.", "Because."]);
    assert.equal(response.headers.get("cadenza-ignored"), null);
  }
  const { response } = await client.messages
    .create(ask("thinking", { messages: [...hello, { role: "assistant", content: [{ type: "thinking", thinking: "Hm.", signature: "EuYB" }, { type: "text", text: "Yes." }] }, ...hello] }))
    .withResponse();
  assert.equal(response.headers.get("cadenza-ignored"), "messages[1]");
});

test("messages: errors", async () => {
  const stranger = new Anthropic({ baseURL: url, apiKey: "cadenza-no-such-key-01", maxRetries: 0 });
  const e401 = await raises(stranger.messages.create(ask("hello")), AuthenticationError);
  assert.deepEqual([e401.status, e401.type, e401.errorCode], [401, "authentication_error", "invalid_api_key"]);
  assert.ok(e401.requestID);
  const e404 = await raises(client.messages.create(ask("nobody")), NotFoundError);
  assert.deepEqual([e404.type, e404.errorCode, e404.details.param], ["not_found_error", "model_not_found", "model"]);
  for (const [more, param] of [
    [{ temperature: 1.5 }, "temperature"],
    [{ max_tokens: 801 }, "max_tokens"],
    [{ top_k: 1 }, "top_k"],
    [{ unheard_of: 1 }, "unheard_of"],
    [{ system: "Be evil." }, "system"],
    [{ container: "c" }, "container"],
    [{ tools: [{ type: "web_search_20250305", name: "web_search" }] }, "tools[0]"],
    [{ thinking: { type: "enabled", budget_tokens: 1024 } }, "thinking.budget_tokens"],
    [{ messages: [{ role: "user", content: [{ type: "hologram" }] }] }, "messages[0].content[0].type"],
  ]) {
    const e = await raises(client.messages.create(ask("hello", more)), BadRequestError);
    assert.deepEqual([e.status, e.details.param, e.type], [400, param, "invalid_request_error"], e.message);
  }
  for (const stream of [false, true]) {
    const e = await raises(client.messages.create(ask("down", { stream })), InternalServerError);
    assert.ok(e.status >= 500 && e.errorCode.startsWith("upstream_"), `${e.status} ${e.errorCode}`);
    assert.equal(e.error.request_id, e.requestID);
  }
});

test("messages: errors that no repetition mends cost one request", async () => {
  for (const [model, code, made] of [
    ["refused", "upstream_refused", 1],
    ["rejected", "upstream_rejected", 1],
    ["unpaid", "upstream_credentials", 1],
    ["down", "upstream_error", 2],
  ]) {
    for (const stream of [false, true]) {
      const { requests, fetch } = counted();
      const repeats = new Anthropic({ baseURL: url, apiKey: key, maxRetries: 1, fetch });
      const e = await raises(repeats.messages.create(ask(model, { stream })), InternalServerError);
      assert.deepEqual([e.errorCode, requests.made], [code, made], `${model}, stream: ${stream}`);
    }
  }
});

test("messages: a broken stream raises an error", async () => {
  for (const model of ["interrupted", "truncated"]) {
    const e = await raises(all(await client.messages.create(ask(model, { stream: true }))), APIError);
    assert.deepEqual([e.type, e.errorCode], ["api_error", "upstream_interrupted"]);
    await raises(client.messages.stream(ask(model)).finalMessage(), APIError);
  }
});

test("messages: counting tokens", async () => {
  const count = async (content) => (await client.messages.countTokens({ model: "hello", messages: [{ role: "user", content }] })).input_tokens;
  assert.equal(await count("a".repeat(400)), 57);
  const few = await count("How far is the sun?");
  const many = await count("How far is the sun? ".repeat(100));
  assert.ok(few > 6 && few < 20 && many > 500 && many < 800, `${few} and ${many}`);
  const e = await raises(client.messages.countTokens({ model: "nobody", messages: hello }), NotFoundError);
  assert.equal(e.errorCode, "model_not_found");
});

test("messages: models", async () => {
  const models = await all(client.models.list());
  assert.ok(models.some((m) => m.id === "hello" && m.type === "model" && m.display_name === "hello"));
  const one = await client.models.retrieve("hello");
  assert.ok(Math.abs(Date.parse(one.created_at) - Date.now()) < 600_000, one.created_at);
  await raises(client.models.retrieve("nobody"), NotFoundError);
});

// The members that the library sends in the body, of which none may be unknown.
test("messages: the documented table has all members of the library", () => {
  const page = readFileSync(new URL("../../docs/apis.md", import.meta.url), "utf8").split("\n### Members of a message request\n")[1].split("\n### ")[0];
  const table = new Set([...page.matchAll(/^\| `([a-z_.]+)` \|/gm)].map((m) => m[1]));
  const inHeaders = ["betas", "user_profile_id", "workspace_id"];
  for (const file of ["messages/messages.d.ts", "beta/messages/messages.d.ts"]) {
    const types = readFileSync(new URL(`./node_modules/@anthropic-ai/sdk/resources/${file}`, import.meta.url), "utf8").replace(/\/\*\*.*?\*\//gs, "");
    const body = types.match(/^export interface MessageCreateParamsBase \{(.*?)^\}/ms)[1];
    const members = [...body.matchAll(/^ +(\w+)\??:/gm)].map((m) => m[1]);
    assert.ok(members.length > 15, `${members}`);
    assert.deepEqual(members.filter((m) => !table.has(m) && !inHeaders.includes(m)), [], file);
  }
});
