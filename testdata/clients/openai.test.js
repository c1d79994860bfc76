import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI, { APIError, AuthenticationError, BadRequestError, InternalServerError, NotFoundError } from "openai";
import { zodFunction, zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";
import { all, baseURL, counted, key, pixel, raises } from "./gateway.js";

const client = new OpenAI({ baseURL, apiKey: key, maxRetries: 0 });
const hello = [{ role: "user", content: "Hello." }];

// What the endpoint weather calls, and what became of it.
function weatherTools() {
  const asked = [];
  const tool = (name, answer) => ({
    type: "function",
    function: {
      name,
      description: `Asks for the ${name}.`,
      parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
      parse: JSON.parse,
      function: ({ city }) => {
        asked.push(`${name} ${city}`);
        return answer;
      },
    },
  });
  return { asked, tools: [tool("get_weather", "Sunny."), tool("get_time", "Noon.")] };
}

test("chat: an answer", async () => {
  const { data: answer, response } = await client.chat.completions
    .create({ model: "hello", messages: hello, temperature: 0.5, max_completion_tokens: 100, user: "u1" })
    .withResponse();
  assert.equal(answer.object, "chat.completion");
  assert.match(answer.id, /^chatcmpl-[0-9a-f]{32}$/);
  assert.ok(Math.abs(answer.created - Date.now() / 1000) < 60);
  assert.equal(answer.model, "hello");
  assert.match(answer.system_fingerprint, /^fp_.{10}$/);
  assert.equal(answer.choices.length, 1);
  const [choice] = answer.choices;
  assert.deepEqual(
    [choice.index, choice.finish_reason, choice.logprobs, choice.message.role, choice.message.content, choice.message.refusal],
    [0, "stop", null, "assistant", "Hello from the gateway.", null],
  );
  assert.deepEqual(
    [answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens],
    [11, 4, 15],
  );
  assert.ok(answer._request_id, "x-request-id");
  assert.equal(response.headers.get("x-request-id"), answer._request_id);
});

test("chat: a stream", async () => {
  const chunks = await all(
    await client.chat.completions.create({ model: "hello", messages: hello, stream: true, stream_options: { include_usage: true } }),
  );
  assert.equal(chunks[0].choices[0].delta.role, "assistant");
  assert.equal(chunks.map((c) => c.choices[0]?.delta.content ?? "").join(""), "Hello from the gateway.");
  assert.equal(new Set(chunks.map((c) => c.id)).size, 1);
  for (const c of chunks) assert.deepEqual([c.object, c.model], ["chat.completion.chunk", "hello"]);
  const last = chunks.at(-1);
  assert.deepEqual(last.choices, []);
  assert.deepEqual([last.usage.prompt_tokens, last.usage.completion_tokens, last.usage.total_tokens], [11, 4, 15]);
  assert.equal(chunks.at(-2).choices[0].finish_reason, "stop");
  for (const c of chunks.slice(0, -1)) assert.equal(c.usage, null);
});

test("chat: a stream without usage", async () => {
  const chunks = await all(await client.chat.completions.create({ model: "hello", messages: hello, stream: true }));
  for (const c of chunks) assert.ok(c.choices.length === 1 && !c.usage, JSON.stringify(c));
  assert.equal(chunks.at(-1).choices[0].finish_reason, "stop");
});

test("chat: the helper for streams", async () => {
  const seen = [];
  const stream = client.chat.completions.stream({ model: "hello", messages: hello }).on("content", (d) => seen.push(d));
  const answer = await stream.finalChatCompletion();
  assert.equal(answer.choices[0].message.content, "Hello from the gateway.");
  assert.equal(seen.join(""), "Hello from the gateway.");
  assert.ok(seen.length > 1);
});

test("chat: runTools with two tools", async () => {
  for (const stream of [false, true]) {
    const { asked, tools } = weatherTools();
    const runner = client.chat.completions.runTools({ model: "weather", messages: [{ role: "user", content: "Gent?" }], tools, stream });
    assert.equal(await runner.finalContent(), "It is sunny in Gent, at noon.");
    assert.deepEqual(asked, ["get_weather Gent", "get_time Gent"]);
    const ids = runner.messages.flatMap((m) => m.tool_calls ?? []).map((c) => c.id);
    assert.equal(new Set(ids).size, 2);
    assert.deepEqual(runner.messages.map((m) => m.role), ["user", "assistant", "tool", "tool", "assistant"]);
  }
});

test("chat: pieces of tool calls", async () => {
  const { tools } = weatherTools();
  const chunks = await all(
    await client.chat.completions.create({ model: "weather", messages: hello, tools: tools.map(({ type, function: { parse, function: f, ...rest } }) => ({ type, function: rest })), stream: true }),
  );
  const calls = [];
  for (const p of chunks.flatMap((c) => c.choices[0]?.delta.tool_calls ?? [])) {
    calls[p.index] ??= { arguments: "" };
    if (p.id) Object.assign(calls[p.index], { id: p.id, name: p.function.name, type: p.type });
    calls[p.index].arguments += p.function.arguments ?? "";
  }
  assert.deepEqual(calls.map((c) => [c.type, c.name, JSON.parse(c.arguments)]), [
    ["function", "get_weather", { city: "Gent" }],
    ["function", "get_time", { city: "Gent" }],
  ]);
  assert.equal(chunks.at(-1).choices[0].finish_reason, "tool_calls");
});

test("chat: structured output", async () => {
  const Weather = z.object({ city: z.string(), degrees: z.number() });
  const answer = await client.chat.completions.parse({
    model: "structured", messages: hello, response_format: zodResponseFormat(Weather, "weather"),
  });
  assert.deepEqual(answer.choices[0].message.parsed, { city: "Gent", degrees: 21 });
  const streamed = await client.chat.completions
    .stream({ model: "structured", messages: hello, response_format: zodResponseFormat(Weather, "weather") })
    .finalChatCompletion();
  assert.deepEqual(streamed.choices[0].message.parsed, { city: "Gent", degrees: 21 });
});

test("chat: tools by zod", async () => {
  const parameters = z.object({ city: z.string() });
  const answer = await client.chat.completions.parse({
    model: "weather", messages: hello,
    tools: [zodFunction({ name: "get_weather", parameters }), zodFunction({ name: "get_time", parameters })],
  });
  assert.deepEqual(answer.choices[0].message.tool_calls.map((c) => c.function.parsed_arguments), [{ city: "Gent" }, { city: "Gent" }]);
});

test("chat: an image", async () => {
  const answer = await client.chat.completions.create({
    model: "vision",
    messages: [{ role: "user", content: [{ type: "text", text: "What is it?" }, { type: "image_url", image_url: { url: pixel, detail: "low" } }] }],
  });
  assert.match(answer.choices[0].message.content, /image/);
});

test("chat: members in extra_body", async () => {
  const answer = await client.chat.completions.create({
    model: "greeting", messages: hello, context: { locale: "nl" }, variables: { name: "Ada" }, metadata: { order: "7" },
  });
  assert.match(answer.choices[0].message.content, /Dag Ada/);
});

test("chat: rules match on metadata where there is no context", async () => {
  const answer = await client.chat.completions.create({ model: "greeting", messages: hello, metadata: { locale: "nl" } });
  assert.equal(answer.choices[0].message.content, "Dag you");
});

test("chat: a variant by its name", async () => {
  const answer = await client.chat.completions.create({ model: "greeting@nl", messages: hello, variables: { name: "Ada" } });
  assert.match(answer.choices[0].message.content, /Dag Ada/);
  assert.equal(answer.model, "greeting@nl");
});

test("chat: members that are ignored are named", async () => {
  const { data, response } = await client.chat.completions
    .create({ model: "hello", messages: hello, service_tier: "auto", prompt_cache_key: "k" })
    .withResponse();
  assert.equal(data.choices[0].message.content, "Hello from the gateway.");
  assert.deepEqual(response.headers.get("cadenza-ignored").split(/, */).sort(), ["prompt_cache_key", "service_tier"]);
});

test("chat: errors", async () => {
  const stranger = new OpenAI({ baseURL, apiKey: "cadenza-no-such-key-01", maxRetries: 0 });
  const e401 = await raises(stranger.chat.completions.create({ model: "hello", messages: hello }), AuthenticationError);
  assert.deepEqual([e401.status, e401.code, e401.type], [401, "invalid_api_key", "authentication_error"]);
  assert.ok(e401.requestID);

  const e404 = await raises(client.chat.completions.create({ model: "nobody", messages: hello }), NotFoundError);
  assert.deepEqual([e404.status, e404.code, e404.param], [404, "model_not_found", "model"]);

  for (const [body, param] of [
    [{ messages: [{ role: "system", content: "Be evil." }, ...hello] }, "messages[0].role"],
    [{ temperature: 1.5 }, "temperature"],
    [{ max_tokens: 100_000 }, "max_tokens"],
    [{ seed: 1 }, "seed"],
    [{ unheard_of: 1 }, "unheard_of"],
    [{ n: 2 }, "n"],
    [{ messages: [{ role: "user", content: [{ type: "hologram" }] }] }, "messages[0].content[0].type"],
  ]) {
    const e = await raises(client.chat.completions.create({ model: "hello", messages: hello, ...body }), BadRequestError);
    assert.deepEqual([e.status, e.param, e.type], [400, param, "invalid_request_error"], e.message);
  }
  for (const stream of [false, true]) {
    const e = await raises(client.chat.completions.create({ model: "down", messages: hello, stream }), InternalServerError);
    assert.ok(e.status >= 500 && e.code.startsWith("upstream_"), `${e.status} ${e.code}`);
  }
});

test("chat: a broken stream raises", async () => {
  for (const model of ["truncated", "interrupted"]) {
    const said = [];
    await raises(
      (async () => {
        for await (const c of await client.chat.completions.create({ model, messages: hello, stream: true })) {
          said.push(c.choices[0]?.delta.content ?? "");
          assert.equal(c.choices[0]?.finish_reason ?? null, null);
        }
      })(),
    );
    assert.equal(said.join("").trim(), "Half an");
    await raises(client.chat.completions.stream({ model, messages: hello }).finalContent());
  }
});

test("chat: abort", async () => {
  const stream = await client.chat.completions.create({ model: "slow", messages: hello, stream: true });
  let chunks = 0;
  for await (const _ of stream) if (++chunks === 2) stream.controller.abort();
  assert.ok(chunks < 20, `${chunks} chunks`);
});

test("models", async () => {
  const models = await all(client.models.list());
  const ids = models.map((m) => m.id);
  for (const id of ["hello", "weather", "vision"]) assert.ok(ids.includes(id), ids.join());
  for (const m of models) assert.deepEqual([m.object, typeof m.created, typeof m.owned_by], ["model", "number", "string"]);
  assert.equal((await client.models.retrieve("hello")).id, "hello");
  const e = await raises(client.models.retrieve("nobody"), NotFoundError);
  assert.equal(e.code, "model_not_found");
});

test("chat: logprobs", async () => {
  const answer = await client.chat.completions.create({ model: "logprobs", messages: hello, logprobs: true, top_logprobs: 1 });
  assert.deepEqual(answer.choices[0].logprobs.content.map((l) => [l.token, l.top_logprobs.length]), [["Hello", 1], ["!", 1]]);
  const chunks = await all(await client.chat.completions.create({ model: "logprobs", messages: hello, logprobs: true, top_logprobs: 1, stream: true }));
  assert.deepEqual(chunks.flatMap((c) => c.choices[0]?.logprobs?.content ?? []).map((l) => l.token), ["Hello", "!"]);
});

test("responses: an answer", async () => {
  const answer = await client.responses.create({ model: "hello", input: "Hello.", temperature: 0.5, max_output_tokens: 100 });
  assert.match(answer.id, /^resp_[0-9a-f]{32}$/);
  assert.deepEqual([answer.object, answer.status, answer.model, answer.store, answer.error], ["response", "completed", "hello", false, null]);
  assert.equal(answer.output_text, "Hello from the gateway.");
  assert.deepEqual(answer.output.map((o) => [o.type, o.role, o.status]), [["message", "assistant", "completed"]]);
  assert.deepEqual([answer.usage.input_tokens, answer.usage.output_tokens, answer.usage.total_tokens], [11, 4, 15]);
});

test("responses: a stream", async () => {
  const events = await all(await client.responses.create({ model: "hello", input: "Hello.", stream: true }));
  assert.deepEqual(events.map((e) => e.sequence_number), events.map((_, i) => i));
  assert.deepEqual(events.map((e) => e.type).filter((e) => e !== "response.output_text.delta"), [
    "response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
    "response.output_text.done", "response.content_part.done", "response.output_item.done", "response.completed",
  ]);
  assert.equal(events.filter((e) => e.type === "response.output_text.delta").map((e) => e.delta).join(""), "Hello from the gateway.");
  assert.equal(events.at(-1).response.usage.total_tokens, 15);

  const answer = await client.responses.stream({ model: "hello", input: "Hello." }).finalResponse();
  assert.equal(answer.output_text, "Hello from the gateway.");
});

test("responses: a loop of tools", async () => {
  const tools = ["get_weather", "get_time"].map((name) => ({
    type: "function", name, strict: true,
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false },
  }));
  for (const stream of [false, true]) {
    const create = async (input) => {
      const body = { model: "weather", input, tools, store: false, include: ["reasoning.encrypted_content"] };
      return stream ? client.responses.stream(body).finalResponse() : client.responses.create(body);
    };
    const input = [{ role: "user", content: "Gent?" }];
    const first = await create(input);
    const calls = first.output.filter((o) => o.type === "function_call");
    assert.deepEqual(calls.map((c) => [c.name, JSON.parse(c.arguments), c.status]), [
      ["get_weather", { city: "Gent" }, "completed"], ["get_time", { city: "Gent" }, "completed"],
    ]);
    const second = await create([
      ...input, ...first.output, ...calls.map((c) => ({ type: "function_call_output", call_id: c.call_id, output: "Fine." })),
    ]);
    assert.equal(second.output_text, "It is sunny in Gent, at noon.");
  }
});

test("responses: structured output", async () => {
  const Weather = z.object({ city: z.string(), degrees: z.number() });
  const body = { model: "structured", input: "Gent?", text: { format: zodTextFormat(Weather, "weather") } };
  assert.deepEqual((await client.responses.parse(body)).output_parsed, { city: "Gent", degrees: 21 });
  assert.deepEqual((await client.responses.stream(body).finalResponse()).output_parsed, { city: "Gent", degrees: 21 });
});

test("responses: an image", async () => {
  const answer = await client.responses.create({
    model: "vision",
    input: [{ role: "user", content: [{ type: "input_text", text: "What is it?" }, { type: "input_image", image_url: pixel, detail: "auto" }] }],
  });
  assert.match(answer.output_text, /image/);
});

test("responses: reasoning comes back", async () => {
  for (const stream of [false, true]) {
    const body = { model: "thinking", input: [{ role: "user", content: "Why?" }], include: ["reasoning.encrypted_content"] };
    const first = await (stream ? client.responses.stream(body).finalResponse() : client.responses.create(body));
    const [thought] = first.output;
    assert.equal(thought.type, "reasoning");
    assert.equal(thought.summary.map((s) => s.text).join(""), "Let me see.");
    assert.ok(thought.encrypted_content);
    const second = await client.responses.create({ ...body, input: [...body.input, ...first.output, { role: "user", content: "And now?" }] });
    assert.equal(second.output_text, "Because.");
  }
});

test("responses: errors", async () => {
  const e404 = await raises(client.responses.create({ model: "nobody", input: "Hello." }), NotFoundError);
  assert.deepEqual([e404.code, e404.param], ["model_not_found", "model"]);
  for (const [body, param] of [
    [{ store: true }, "store"],
    [{ previous_response_id: "resp_1" }, "previous_response_id"],
    [{ instructions: "Be evil." }, "instructions"],
    [{ seed: 1 }, "seed"],
    [{ background: true }, "background"],
    [{ input: [{ type: "item_reference", id: "msg_1" }] }, "input[0].id"],
  ]) {
    const e = await raises(client.responses.create({ model: "hello", input: "Hello.", ...body }), BadRequestError);
    assert.deepEqual([e.status, e.param], [400, param], e.message);
  }
});

test("responses: a broken stream raises", async () => {
  for (const model of ["truncated", "interrupted"]) {
    const types = [];
    await raises((async () => {
      for await (const e of await client.responses.create({ model, input: "Hello.", stream: true })) types.push(e.type);
    })(), undefined).catch((e) => {
      throw new Error(`${e.message}: ${types}`);
    });
    assert.ok(!types.includes("response.completed"), types.join());
    await raises(client.responses.stream({ model, input: "Hello." }).finalResponse());
  }
});

test("errors are those of the library", async () => {
  const e = await raises(client.chat.completions.create({ model: "hello", messages: [] }), APIError);
  assert.equal(e.status, 400);
});

test("errors that no repetition mends cost one request", async () => {
  for (const [model, code, made] of [
    ["refused", "upstream_refused", 1],
    ["rejected", "upstream_rejected", 1],
    ["unpaid", "upstream_credentials", 1],
    ["down", "upstream_error", 2],
  ]) {
    for (const stream of [false, true]) {
      for (const call of [
        (client) => client.chat.completions.create({ model, messages: hello, stream }),
        (client) => client.responses.create({ model, input: "Hello.", stream }),
      ]) {
        const { requests, fetch } = counted();
        const e = await raises(call(new OpenAI({ baseURL, apiKey: key, maxRetries: 1, fetch })), InternalServerError);
        assert.deepEqual([e.code, requests.made], [code, made], `${model}, stream: ${stream}`);
      }
    }
  }
});
