// A loop of @openai/agents, through either of OpenAI's APIs.
import { Agent, OpenAIProvider, Runner, setTracingDisabled, tool } from "@openai/agents";
import { z } from "zod";
import { door, key, model, read, task, url, write } from "./tools.mjs";

setTracingDisabled(true);
const agent = new Agent({
  name: "coder",
  model,
  instructions: "You work on files.",
  tools: [
    tool({ name: "read", description: "Reads.", parameters: z.object({ path: z.string() }), execute: read }),
    tool({ name: "write", description: "Writes.", parameters: z.object({ path: z.string(), content: z.string() }), execute: write }),
  ],
});
const modelProvider = new OpenAIProvider({ baseURL: url + "/v1", apiKey: key, useResponses: door === "responses" });
const result = await new Runner({ modelProvider }).run(agent, task);
console.log(result.finalOutput);
