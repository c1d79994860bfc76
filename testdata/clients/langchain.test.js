import assert from "node:assert/strict";
import { test } from "node:test";
import { HumanMessage, SystemMessage, ToolMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { ChatOpenAI } from "@langchain/openai";
import { z } from "zod";
import { all, baseURL, key, pixel, raises } from "./gateway.js";

const Weather = z.object({ city: z.string(), degrees: z.number() });

for (const useResponsesApi of [false, true]) {
  const api = useResponsesApi ? "responses" : "chat";
  const model = (name, options) =>
    new ChatOpenAI({ model: name, apiKey: key, configuration: { baseURL }, maxRetries: 0, useResponsesApi, ...options });

  test(`${api}: invoke`, async () => {
    const answer = await model("hello", { temperature: 0.5, maxTokens: 100 }).invoke("Hello.");
    assert.equal(answer.text, "Hello from the gateway.");
    assert.deepEqual([answer.usage_metadata.input_tokens, answer.usage_metadata.output_tokens, answer.usage_metadata.total_tokens], [11, 4, 15]);
  });

  test(`${api}: stream`, async () => {
    const chunks = await all(await model("hello").stream("Hello."));
    assert.equal(chunks.map((c) => c.text).join(""), "Hello from the gateway.");
    assert.ok(chunks.length > 2);
    const whole = chunks.reduce((a, b) => a.concat(b));
    assert.equal(whole.usage_metadata.total_tokens, 15);
  });

  test(`${api}: a loop of tools`, async () => {
    const called = [];
    const tools = ["get_weather", "get_time"].map((name) =>
      tool(async ({ city }) => (called.push(`${name} ${city}`), "Fine."), { name, description: `Asks for ${name}.`, schema: z.object({ city: z.string() }) }),
    );
    const bound = model("weather").bindTools(tools);
    for (const streamed of [false, true]) {
      const messages = [new HumanMessage("Gent?")];
      let answer;
      for (let step = 0; step < 3; step++) {
        answer = streamed ? (await all(await bound.stream(messages))).reduce((a, b) => a.concat(b)) : await bound.invoke(messages);
        messages.push(answer);
        if (!answer.tool_calls?.length) break;
        for (const call of answer.tool_calls) {
          const result = await tools.find((t) => t.name === call.name).invoke(call);
          assert.ok(result instanceof ToolMessage);
          messages.push(result);
        }
      }
      assert.equal(answer.text, "It is sunny in Gent, at noon.");
    }
    assert.deepEqual(called, ["get_weather Gent", "get_time Gent", "get_weather Gent", "get_time Gent"]);
  });

  test(`${api}: structured output`, async () => {
    assert.deepEqual(await model("structured").withStructuredOutput(Weather, { name: "weather", method: "jsonSchema" }).invoke("Gent?"), { city: "Gent", degrees: 21 });
  });

  test(`${api}: structured output by a tool`, async () => {
    const found = await model("weather").withStructuredOutput(z.object({ city: z.string() }), { name: "get_weather", method: "functionCalling" }).invoke("Gent?");
    assert.deepEqual(found, { city: "Gent" });
  });

  test(`${api}: an image, and a message of the system`, async () => {
    const answer = await model("vision").invoke([
      new SystemMessage("Be brief."),
      new HumanMessage({ content: [{ type: "text", text: "What is it?" }, { type: "image_url", image_url: { url: pixel } }] }),
    ]);
    assert.match(answer.text, /image/);
  });

  test(`${api}: errors`, async () => {
    const unknown = await raises(model("nobody").invoke("Hello."));
    assert.equal(unknown.status ?? unknown.cause?.status, 404);
    const refused = await raises(model("hello").invoke([new SystemMessage("Be evil."), new HumanMessage("Hello.")]));
    assert.equal(refused.status ?? refused.cause?.status, 400);
  });

  test(`${api}: a broken stream raises`, async () => {
    for (const name of ["truncated", "interrupted"]) await raises((async () => all(await model(name).stream("Hello.")))());
  });
}
