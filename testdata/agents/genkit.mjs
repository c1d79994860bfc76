// A loop of Genkit, through its plugin for Anthropic or that for what is like OpenAI.
import { anthropic } from "@genkit-ai/anthropic";
import { openAICompatible } from "@genkit-ai/compat-oai";
import { genkit, z } from "genkit";
import { door, key, model, read, task, url, write } from "./tools.mjs";

process.env.ANTHROPIC_BASE_URL = url;
const plugin = door === "messages" ? anthropic({ apiKey: key }) : openAICompatible({ name: "cadenza", apiKey: key, baseURL: url + "/v1" });
const ai = genkit({ plugins: [plugin] });
const { text } = await ai.generate({
  model: door === "messages" ? anthropic.model(model) : "cadenza/" + model,
  prompt: task,
  tools: [
    ai.defineTool({ name: "read", description: "Reads.", inputSchema: z.object({ path: z.string() }) }, read),
    ai.defineTool({ name: "write", description: "Writes.", inputSchema: z.object({ path: z.string(), content: z.string() }) }, write),
  ],
});
console.log(text);
