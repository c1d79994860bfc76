// A loop of Vercel's AI SDK, with whole answers: node aisdk.mjs VERSION
import { z } from "zod";
import { door, key, model, read, task, url, write } from "./tools.mjs";

const version = process.argv[2];
const { generateText, stepCountIs, isStepCount, tool } = await import("ai" + version);
const { createAnthropic } = await import("anthropic" + version);
const { createOpenAI } = await import("openai" + version);
const openai = createOpenAI({ baseURL: url + "/v1", apiKey: key });
const models = {
  messages: () => createAnthropic({ baseURL: url + "/v1", apiKey: key })(model),
  responses: () => openai.responses(model),
  chat: () => openai.chat(model),
};
const { text } = await generateText({
  model: models[door](),
  prompt: task,
  maxRetries: 0,
  stopWhen: (stepCountIs ?? isStepCount)(5),
  providerOptions: { openai: { store: false, include: ["reasoning.encrypted_content"] } },
  tools: {
    read: tool({ description: "Reads.", inputSchema: z.object({ path: z.string() }), execute: read }),
    write: tool({ description: "Writes.", inputSchema: z.object({ path: z.string(), content: z.string() }), execute: write }),
  },
});
console.log(text);
