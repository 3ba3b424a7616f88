// The official Node SDK @google/genai, unmodified.

import assert from "node:assert/strict";
import test from "node:test";

import { ApiError, GoogleGenAI } from "@google/genai";

import { call, collect, expectedArguments, failure, gateway } from "./gateway.mjs";

const clientOf = (apiKey) => new GoogleGenAI({ apiKey, httpOptions: { baseUrl: gateway.base_url } });
const client = clientOf(gateway.key);
const model = gateway.model;
const abcdef = "sim: text=abcdef events=6 reasoning=2 pace=1ms input=50 cached=20";
const parameters = { type: "OBJECT", properties: { city: { type: "STRING" } }, required: ["city"] };
const tools = [{ functionDeclarations: [{ name: "weather", description: "The weather", parameters }] }];
const streamed = (contents, config = {}) => client.models.generateContentStream({ model, contents, config });
const textOf = (chunks) =>
  chunks
    .flatMap((chunk) => chunk.candidates?.[0].content?.parts ?? [])
    .filter((part) => !part.thought)
    .map((part) => part.text ?? "")
    .join("");

test("a text stream", async () => {
  const { kept, error } = await collect(streamed(abcdef));
  assert.equal(error, null);
  assert.equal(textOf(kept), "abcdef");
  assert.equal(kept.at(-1).candidates[0].finishReason, "STOP");
  assert.equal(kept.at(-1).usageMetadata.totalTokenCount, 58);
});

test("text, not streaming", async () => {
  const answer = await client.models.generateContent({ model, contents: abcdef });
  assert.equal(textOf([answer]), "abcdef");
  assert.equal(answer.usageMetadata.thoughtsTokenCount, 2);
});

test("tools", async () => {
  const { kept } = await collect(streamed(call, { tools }));
  const calls = kept.flatMap((chunk) => chunk.functionCalls ?? []);
  assert.deepEqual(
    calls.map((each) => [each.name, each.args]),
    [["weather", expectedArguments]],
  );
});

test("the chat helper keeps the history", async () => {
  const chat = client.chats.create({ model });
  const { kept } = await collect(chat.sendMessageStream({ message: abcdef }));
  assert.equal(textOf(kept), "abcdef");
  assert.equal(chat.getHistory()[0].role, "user");
});

for (const status of [400, 401, 402, 404, 429]) {
  test(`${status} before the stream`, async () => {
    const refusal = gateway.refusals[status];
    const asked = { model: refusal.model, contents: refusal.prompt };
    const error = await failure(clientOf(refusal.key).models.generateContentStream(asked));
    assert.ok(error instanceof ApiError);
    assert.equal(error.status, status);
  });
}

for (const how of ["error", "cut"]) {
  test(`a failure in the stream (${how})`, async () => {
    const { kept, error } = await collect(streamed(gateway.prompts[how]));
    assert.ok(error instanceof ApiError);
    assert.equal(kept.length, 2);
  });
}

test("keep-alives between events", async () => {
  const { kept, error } = await collect(streamed(gateway.prompts.keepalive));
  assert.equal(error, null);
  assert.equal(textOf(kept), "abcdef");
});

test("tokens are counted, and estimated where no channel counts", async () => {
  assert.equal((await client.models.countTokens({ model: gateway.model, contents: "12345678" })).totalTokens, 2);
  const estimated = await client.models.countTokens({ model: "sim-elsewhere", contents: "12345678" });
  assert.ok(estimated.totalTokens > 2);
});
