// A loop of LangGraph's agent.
import { ChatAnthropic } from "@langchain/anthropic";
import { tool } from "@langchain/core/tools";
import { createReactAgent } from "@langchain/langgraph/prebuilt";
import { ChatOpenAI } from "@langchain/openai";
import { z } from "zod";
import { door, key, model, read, task, url, write } from "./tools.mjs";

const llm =
  door === "messages"
    ? new ChatAnthropic({ model, apiKey: key, anthropicApiUrl: url, maxTokens: 1000, maxRetries: 0 })
    : new ChatOpenAI({
        model, apiKey: key, configuration: { baseURL: url + "/v1" }, maxRetries: 0,
        useResponsesApi: door === "responses", ...(door === "responses" && { zdrEnabled: true }),
      });
const agent = createReactAgent({
  llm,
  tools: [
    tool(read, { name: "read", description: "Reads.", schema: z.object({ path: z.string() }) }),
    tool(write, { name: "write", description: "Writes.", schema: z.object({ path: z.string(), content: z.string() }) }),
  ],
});
const { messages } = await agent.invoke({ messages: [{ role: "user", content: task }] });
console.log(messages.at(-1).text);
