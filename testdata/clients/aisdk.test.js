import assert from "node:assert/strict";
import { test } from "node:test";
import { createOpenAI } from "@ai-sdk/openai";
import { APICallError, generateObject, generateText, isStepCount, Output, streamText, tool } from "ai";
import { z } from "zod";
import { all, baseURL, key, pixel, raises } from "./gateway.js";

const gateway = createOpenAI({ baseURL, apiKey: key });
// Nothing is stored, so that what a model said goes back whole, and not by its id.
const providerOptions = { openai: { store: false } };
const Weather = z.object({ city: z.string(), degrees: z.number() });

// The same calls go through both of OpenAI's APIs.
for (const [api, model] of [["chat", (id) => gateway.chat(id)], ["responses", (id) => gateway.responses(id)]]) {
  const shared = { maxRetries: 0, providerOptions };

  test(`${api}: generateText`, async () => {
    const answer = await generateText({ ...shared, model: model("hello"), prompt: "Hello.", temperature: 0.5, maxOutputTokens: 100 });
    assert.equal(answer.text, "Hello from the gateway.");
    assert.equal(answer.finishReason, "stop");
    assert.deepEqual([answer.usage.inputTokens, answer.usage.outputTokens, answer.usage.totalTokens], [11, 4, 15]);
    assert.deepEqual(answer.warnings ?? [], []);
  });

  test(`${api}: streamText`, async () => {
    const answer = streamText({ ...shared, model: model("hello"), prompt: "Hello." });
    const pieces = await all(answer.textStream);
    assert.equal(pieces.join(""), "Hello from the gateway.");
    assert.ok(pieces.length > 1);
    assert.equal(await answer.finishReason, "stop");
    assert.equal((await answer.usage).totalTokens, 15);
  });

  for (const streamed of [false, true]) {
    test(`${api}: twelve steps of tools${streamed ? ", streamed" : ""}`, async () => {
      const counted = [];
      const request = {
        ...shared, model: model("steps"), prompt: "Count.", stopWhen: isStepCount(20),
        tools: { count: tool({ description: "Counts.", inputSchema: z.object({ n: z.number() }), execute: async ({ n }) => (counted.push(n), { counted: n }) }) },
      };
      let steps, text;
      if (streamed) {
        const answer = streamText(request);
        await answer.consumeStream({ onError: (e) => { throw e; } });
        [steps, text] = [await answer.steps, await answer.text];
      } else {
        ({ steps, text } = await generateText(request));
      }
      assert.deepEqual(counted, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
      assert.equal(steps.length, 13);
      assert.deepEqual(steps.map((s) => s.finishReason), [...Array(12).fill("tool-calls"), "stop"]);
      assert.equal(text, "Counted to 12.");
    });
  }

  test(`${api}: thoughts with a tool go back`, async () => {
    for (const streamed of [false, true]) {
      const request = {
        ...shared, model: model("pondering"), prompt: "Why?", stopWhen: isStepCount(3),
        tools: { look: tool({ inputSchema: z.object({}), execute: async () => "Seen." }) },
      };
      const answer = streamed ? streamText(request) : await generateText(request);
      if (streamed) await answer.consumeStream({ onError: (e) => { throw e; } });
      assert.equal(await answer.text, "Because.");
    }
  });

  test(`${api}: objects`, async () => {
    const old = await generateObject({ ...shared, model: model("structured"), schema: Weather, prompt: "Gent?" });
    assert.deepEqual(old.object, { city: "Gent", degrees: 21 });
    const { output } = await generateText({ ...shared, model: model("structured"), output: Output.object({ schema: Weather }), prompt: "Gent?" });
    assert.deepEqual(output, { city: "Gent", degrees: 21 });
    const streamed = streamText({ ...shared, model: model("structured"), output: Output.object({ schema: Weather }), prompt: "Gent?" });
    await all(streamed.textStream);
    assert.deepEqual(await streamed.output, { city: "Gent", degrees: 21 });
  });

  test(`${api}: an image`, async () => {
    const image = Buffer.from(pixel.split(",")[1], "base64");
    const answer = await generateText({
      ...shared, model: model("vision"),
      messages: [{ role: "user", content: [{ type: "text", text: "What is it?" }, { type: "image", image, mediaType: "image/png" }] }],
    });
    assert.match(answer.text, /image/);
  });

  test(`${api}: a conversation`, async () => {
    const messages = [{ role: "user", content: "Hello." }];
    for (const text of ["One.", "Two."]) {
      const answer = await generateText({ ...shared, model: model("echo"), messages });
      messages.push(...answer.response.messages, { role: "user", content: text });
    }
    const answer = await generateText({ ...shared, model: model("echo"), messages });
    assert.equal(answer.text, "Two.");
  });

  test(`${api}: errors`, async () => {
    const unknown = await raises(generateText({ ...shared, model: model("nobody"), prompt: "Hello." }), APICallError);
    assert.equal(unknown.statusCode, 404);
    assert.match(unknown.message, /nobody/);
    const refused = await raises(generateText({ ...shared, model: model("hello"), instructions: "Be evil.", prompt: "Hello." }), APICallError);
    assert.equal(refused.statusCode, 400);
    const allowed = await generateText({ ...shared, model: model("led"), instructions: "Be kind.", prompt: "Hello." });
    assert.equal(allowed.text, "Hello from the gateway.");
  });

  test(`${api}: a broken stream raises`, async () => {
    for (const id of ["truncated", "interrupted"]) {
      const seen = [];
      const answer = streamText({ ...shared, model: model(id), prompt: "Hello.", onError: ({ error }) => void seen.push(error) });
      await answer.consumeStream({ onError: (e) => void seen.push(e) });
      const reason = await answer.finishReason.then((r) => r, (e) => (seen.push(e), "raised"));
      assert.ok(seen.length > 0 && reason !== "stop", `${id}: ${reason}`);
    }
  });

  test(`${api}: abort`, async () => {
    const controller = new AbortController();
    const answer = streamText({ ...shared, model: model("slow"), prompt: "Hello.", abortSignal: controller.signal });
    let pieces = 0;
    for await (const part of answer.fullStream) if (part.type === "text-delta" && ++pieces === 2) controller.abort();
    assert.ok(pieces < 20, `${pieces} pieces`);
  });
}

test("responses: what was said goes back by its id where store is not false", async () => {
  const messages = [{ role: "user", content: "Hello." }];
  const answer = await generateText({ model: gateway.responses("echo"), maxRetries: 0, messages });
  messages.push(...answer.response.messages, { role: "user", content: "Again." });
  const refused = await raises(generateText({ model: gateway.responses("echo"), maxRetries: 0, messages }), APICallError);
  assert.equal(refused.statusCode, 400);
  assert.match(refused.message, /store/);
});
