import assert from "node:assert/strict";
import { test } from "node:test";
import { createOpenAI } from "@ai-sdk/openai";
import { OpenAIEmbeddings } from "@langchain/openai";
import { embed, embedMany } from "ai";
import OpenAI, { BadRequestError } from "openai";
import { baseURL, key, raises } from "./gateway.js";

const client = new OpenAI({ baseURL, apiKey: key, maxRetries: 0 });
const model = "docs_search";
const texts = ["a cat", "a dog", "a cat", "a bird", "a fish"];

// numbers are the vectors of the texts, asked for as numbers, with eight each.
async function numbers(options) {
  const { data } = await client.embeddings.create({ model, input: texts, encoding_format: "float", ...options });
  return data.map((d) => d.embedding);
}

// same compares vectors whose numbers may be rounded to 32 bits.
function same(got, want) {
  assert.equal(got.length, want.length);
  got.forEach((vector, i) => assert.deepEqual(Array.from(vector, Math.fround), Array.from(want[i], Math.fround)));
}

test("openai: numbers", async () => {
  const { data: answer, response } = await client.embeddings.create({ model, input: texts, encoding_format: "float", user: "u1" }).withResponse();
  assert.deepEqual([answer.object, answer.model, answer.data.length], ["list", model, 5]);
  answer.data.forEach((d, i) => assert.deepEqual([d.object, d.index, d.embedding.length], ["embedding", i, 8]));
  assert.deepEqual(answer.data[0].embedding, answer.data[2].embedding);
  assert.notDeepEqual(answer.data[0].embedding, answer.data[1].embedding);
  assert.deepEqual(answer.usage, { prompt_tokens: 10, total_tokens: 10 });
  assert.equal(response.headers.get("cadenza-served-by"), "canned/hash");
  assert.equal(response.headers.get("cadenza-attempts"), "2");
});

test("openai: base64, which it asks for by itself", async () => {
  const answer = await client.embeddings.create({ model, input: texts });
  same(answer.data.map((d) => d.embedding), await numbers());
});

test("openai: dimensions, a text and tokens", async () => {
  const [vector] = await numbers({ input: "a cat", dimensions: 300 });
  assert.equal(vector.length, 300);
  assert.equal((await numbers({ input: [[1, 2], [3]] })).length, 2);
  assert.equal((await numbers({ input: [1, 2] })).length, 1);
});

test("openai: errors", async () => {
  const empty = await raises(client.embeddings.create({ model, input: ["a", ""] }), BadRequestError);
  assert.deepEqual([empty.code, empty.param], ["invalid_request", "input[1]"]);
  const task = await raises(client.embeddings.create({ model: "hello", input: "a" }), BadRequestError);
  assert.match(task.message, /docs_search/);
  const other = await raises(client.chat.completions.create({ model, messages: [{ role: "user", content: "Hello." }] }), BadRequestError);
  assert.equal(other.param, "model");
  const listed = [];
  for await (const m of client.models.list()) listed.push(m.id);
  assert.ok(listed.includes(model));
});

test("AI SDK: embed and embedMany", async () => {
  const embeddings = createOpenAI({ baseURL, apiKey: key }).textEmbeddingModel(model);
  const one = await embed({ model: embeddings, value: texts[0], maxRetries: 0 });
  const many = await embedMany({ model: embeddings, values: texts, maxRetries: 0 });
  const want = await numbers();
  same([one.embedding], want.slice(0, 1));
  same(many.embeddings, want);
  assert.equal(many.usage.tokens, 10);
});

test("LangChain: documents and a query", async () => {
  const embeddings = new OpenAIEmbeddings({ model, apiKey: key, configuration: { baseURL }, maxRetries: 0 });
  const want = await numbers();
  same(await embeddings.embedDocuments(texts), want);
  same([await embeddings.embedQuery(texts[1])], [want[1]]);
});
