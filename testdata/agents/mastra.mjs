// A loop of Mastra's agent.
import { Agent } from "@mastra/core/agent";
import { createTool } from "@mastra/core/tools";
import { createAnthropic } from "anthropic7";
import { createOpenAI } from "openai7";
import { z } from "zod";
import { door, key, model, read, task, url, write } from "./tools.mjs";

const baseURL = url + "/v1";
const models = {
  messages: () => createAnthropic({ baseURL, apiKey: key })(model),
  responses: () => createOpenAI({ baseURL, apiKey: key }).responses(model),
  chat: () => ({ id: "cadenza/" + model, url: baseURL, apiKey: key }),
};
const coder = new Agent({
  id: "coder", name: "coder", instructions: "You work on files.", model: models[door](), maxRetries: 0,
  tools: {
    read: createTool({ id: "read", description: "Reads.", inputSchema: z.object({ path: z.string() }), execute: read }),
    write: createTool({ id: "write", description: "Writes.", inputSchema: z.object({ path: z.string(), content: z.string() }), execute: write }),
  },
});
const { text } = await coder.generate(task, { providerOptions: { openai: { store: false, include: ["reasoning.encrypted_content"] } } });
console.log(text);
