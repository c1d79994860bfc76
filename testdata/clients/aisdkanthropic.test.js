import assert from "node:assert/strict";
import { test } from "node:test";
import * as anthropic2 from "ai-sdk-anthropic-2";
import * as anthropic3 from "ai-sdk-anthropic-3";
import * as anthropic4 from "@ai-sdk/anthropic";
import * as ai5 from "ai-5";
import * as ai6 from "ai-6";
import * as ai7 from "ai";
import { z } from "zod";
import { all, baseURL, key, pixel, raises } from "./gateway.js";

// Apps stay on a version for long, and each version checks answers in its own way.
for (const [version, ai, { createAnthropic }] of [[5, ai5, anthropic2], [6, ai6, anthropic3], [7, ai7, anthropic4]]) {
  const model = createAnthropic({ baseURL, apiKey: key });
  const shared = { maxRetries: 0, maxOutputTokens: 100 };
  const steps = (ai.isStepCount ?? ai.stepCountIs)(20);

  // asked makes a call whole, and streamed.
  async function* asked(request) {
    yield await ai.generateText({ ...shared, ...request });
    const answer = ai.streamText({ ...shared, ...request });
    await answer.consumeStream({ onError: (e) => { throw e; } });
    yield answer;
  }

  test(`AI SDK ${version}: a text`, async () => {
    for await (const answer of asked({ model: model("hello"), prompt: "Hello." })) {
      assert.deepEqual([await answer.text, await answer.finishReason], ["Hello from the gateway.", "stop"]);
      const usage = await answer.usage;
      assert.deepEqual([usage.inputTokens, usage.outputTokens], [11, 4]);
    }
  });

  test(`AI SDK ${version}: two tools at once, and twelve steps of one`, async () => {
    const called = [];
    const tool = (input, execute) => ai.tool({ description: "It helps.", inputSchema: z.object(input), execute });
    const place = { city: z.string() };
    const weather = { get_weather: tool(place, ({ city }) => (called.push(city), "Sunny.")), get_time: tool(place, ({ city }) => (called.push(city), "Noon.")) };
    for await (const answer of asked({ model: model("weather"), prompt: "Gent?", stopWhen: steps, tools: weather })) {
      assert.equal(await answer.text, "It is sunny in Gent, at noon.");
      assert.deepEqual(called.splice(0), ["Gent", "Gent"]);
    }
    const count = { count: tool({ n: z.number() }, ({ n }) => (called.push(n), { counted: n })) };
    for await (const answer of asked({ model: model("steps"), prompt: "Count.", stopWhen: steps, tools: count })) {
      assert.equal(await answer.text, "Counted to 12.");
      assert.deepEqual(called.splice(0), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    }
  });

  test(`AI SDK ${version}: thoughts with a tool go back`, async () => {
    const tools = { look: ai.tool({ inputSchema: z.object({}), execute: async () => "Seen." }) };
    for await (const answer of asked({ model: model("pondering"), prompt: "Why?", stopWhen: steps, tools })) {
      assert.equal(await answer.text, "Because.");
      assert.deepEqual((await answer.steps).map((s) => s.reasoningText), ["Let me look.", "Now I see."]);
    }
  });

  test(`AI SDK ${version}: an image, and a conversation`, async () => {
    const messages = [{ role: "user", content: [{ type: "text", text: "What is it?" }, { type: "image", image: Buffer.from(pixel.split(",")[1], "base64"), mediaType: "image/png" }] }];
    for await (const answer of asked({ model: model("vision"), messages })) assert.match(await answer.text, /image/);
    for await (const answer of asked({ model: model("echo"), messages: [{ role: "user", content: "One." }] })) {
      const next = [...(await answer.response).messages, { role: "user", content: "Two." }];
      assert.equal((await ai.generateText({ ...shared, model: model("echo"), messages: [{ role: "user", content: "One." }, ...next] })).text, "Two.");
    }
  });

  test(`AI SDK ${version}: errors`, async () => {
    const unknown = await raises(ai.generateText({ ...shared, model: model("nobody"), prompt: "Hello." }));
    assert.ok(ai.APICallError.isInstance(unknown), unknown.constructor.name);
    assert.equal(unknown.statusCode, 404);
    for (const id of ["truncated", "interrupted"]) {
      const seen = [];
      const answer = ai.streamText({ ...shared, model: model(id), prompt: "Hello.", onError: ({ error }) => void seen.push(error) });
      await answer.consumeStream({ onError: (e) => void seen.push(e) });
      assert.ok(seen.length > 0, id);
      await all(answer.textStream).catch(() => {});
    }
  });
}
