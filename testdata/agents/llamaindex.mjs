// A loop of LlamaIndex's agent.
import { Anthropic } from "@llamaindex/anthropic";
import { tool } from "@llamaindex/core/tools";
import { OpenAI, OpenAIResponses } from "@llamaindex/openai";
import { agent } from "@llamaindex/workflow";
import { z } from "zod";
import { door, key, model, read, task, url, write } from "./tools.mjs";

process.env.ANTHROPIC_BASE_URL = url;
const openai = { model, apiKey: key, baseURL: url + "/v1", maxRetries: 0 };
const models = {
  // The class knows by a model's name whether it takes tools.
  messages: () => Object.defineProperty(new Anthropic({ model, apiKey: key, maxRetries: 0 }), "supportToolCall", { value: true }),
  responses: () => new OpenAIResponses(openai),
  chat: () => new OpenAI(openai),
};
const coder = agent({
  llm: models[door](),
  tools: [
    tool({ name: "read", description: "Reads.", parameters: z.object({ path: z.string() }), execute: read }),
    tool({ name: "write", description: "Writes.", parameters: z.object({ path: z.string(), content: z.string() }), execute: write }),
  ],
});
const { data } = await coder.run(task);
console.log(data.result);
