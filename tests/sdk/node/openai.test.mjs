// The official Node SDK openai, unmodified: Chat Completions and Responses.

import assert from "node:assert/strict";
import test from "node:test";

import OpenAI from "openai";

import { call, collect, everything, expectedArguments, failure, gateway, weather } from "./gateway.mjs";

const clientOf = (apiKey) => new OpenAI({ baseURL: `${gateway.base_url}/v1`, apiKey, maxRetries: 0 });
const client = clientOf(gateway.key);
const model = gateway.model;
const abcdef = "sim: text=abcdef events=6 pace=1ms input=50";
const chatTools = [{ type: "function", function: { name: "weather", parameters: weather } }];
const responsesTools = [{ type: "function", name: "weather", parameters: weather, strict: false }];
const said = (content) => [{ role: "user", content }];
const chatStream = (text, more = {}) =>
  client.chat.completions.create({
    model,
    messages: said(text),
    stream: true,
    stream_options: { include_usage: true },
    ...more,
  });
const textOf = (chunks) => chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join("");
const classes = {
  400: OpenAI.BadRequestError,
  401: OpenAI.AuthenticationError,
  402: OpenAI.APIError,
  404: OpenAI.NotFoundError,
  429: OpenAI.RateLimitError,
};

test("chat: a text stream", async () => {
  const { kept, error } = await collect(chatStream(abcdef));
  assert.equal(error, null);
  assert.equal(textOf(kept), "abcdef");
  assert.equal(kept.at(-1).usage.total_tokens, 56);
});

test("chat: text, not streaming", async () => {
  const answer = await client.chat.completions.create({ model, messages: said(abcdef) });
  assert.equal(answer.choices[0].message.content, "abcdef");
  assert.equal(answer.usage.total_tokens, 56);
});

test("chat: tools", async () => {
  const { kept } = await collect(chatStream(call, { tools: chatTools }));
  const fragments = kept.flatMap((chunk) => chunk.choices[0]?.delta.tool_calls ?? []).map((each) => each.function.arguments);
  assert.deepEqual(JSON.parse(fragments.join("")), expectedArguments);
});

test("chat: the stream helper", async () => {
  const stream = client.chat.completions.stream({
    model,
    messages: said(everything),
    tools: chatTools,
    stream_options: { include_usage: true },
  });
  const answer = await stream.finalChatCompletion();
  assert.equal(answer.choices[0].message.content, "abcdef");
  assert.deepEqual(
    answer.choices[0].message.tool_calls.map((each) => JSON.parse(each.function.arguments)),
    [{ city: "simulated" }, { city: "simulated" }],
  );
  assert.equal(answer.usage.completion_tokens, 12);
});

for (const [status, expected] of Object.entries(classes)) {
  test(`chat and responses: ${status} before the stream`, async () => {
    const refusal = gateway.refusals[status];
    const refused = clientOf(refusal.key);
    const asked = { model: refusal.model, stream: true };
    const errors = [
      await failure(refused.chat.completions.create({ ...asked, messages: said(refusal.prompt) })),
      await failure(refused.responses.create({ ...asked, input: refusal.prompt })),
    ];
    for (const error of errors) {
      assert.ok(error instanceof expected);
      assert.equal(error.status, Number(status));
    }
  });
}

for (const how of ["error", "cut"]) {
  test(`chat: a failure in the stream (${how})`, async () => {
    const { kept, error } = await collect(chatStream(gateway.prompts[how]));
    assert.ok(error instanceof OpenAI.APIError);
    assert.equal(error.status, undefined);
    assert.ok(error.requestID);
    assert.equal(kept.filter((chunk) => chunk.choices[0]?.delta.content).length, 2);
  });
}

test("chat: keep-alives between events", async () => {
  const { kept, error } = await collect(chatStream(gateway.prompts.keepalive));
  assert.equal(error, null);
  assert.equal(textOf(kept), "abcdef");
});

test("responses: a text stream", async () => {
  const { kept, error } = await collect(client.responses.create({ model, input: abcdef, stream: true }));
  assert.equal(error, null);
  assert.equal(kept.at(-1).type, "response.completed");
  assert.equal(kept.at(-1).response.usage.total_tokens, 56);
  const deltas = kept.filter((event) => event.type === "response.output_text.delta");
  assert.equal(deltas.map((event) => event.delta).join(""), "abcdef");
});

test("responses: text, not streaming", async () => {
  const answer = await client.responses.create({ model, input: abcdef });
  assert.equal(answer.output_text, "abcdef");
});

test("responses: tools", async () => {
  const stream = client.responses.create({ model, input: call, tools: responsesTools, stream: true });
  const { kept } = await collect(stream);
  const deltas = kept.filter((event) => event.type === "response.function_call_arguments.delta");
  assert.deepEqual(JSON.parse(deltas.map((event) => event.delta).join("")), expectedArguments);
});

test("responses: the stream helper", async () => {
  const stream = client.responses.stream({ model, input: everything, tools: responsesTools });
  const answer = await stream.finalResponse();
  assert.equal(answer.status, "completed");
  assert.deepEqual(
    answer.output.map((item) => item.type),
    ["reasoning", "message", "function_call", "function_call"],
  );
  assert.equal(answer.usage.output_tokens, 12);
});

for (const how of ["failed", "cut"]) {
  test(`responses: a failure in the stream (${how})`, async () => {
    const stream = client.responses.create({ model, input: gateway.prompts[how], stream: true });
    const { kept, error } = await collect(stream);
    assert.ok(error !== null);
    assert.equal(kept.filter((event) => event.type === "response.output_text.delta").length, 2);
  });
}

test("responses: keep-alives between events", async () => {
  const stream = client.responses.stream({ model, input: gateway.prompts.keepalive });
  assert.equal((await stream.finalResponse()).output_text, "abcdef");
});

test("responses: tokens are counted, and estimated where no channel counts", async () => {
  assert.equal((await client.responses.inputTokens.count({ model, input: "12345678" })).input_tokens, 2);
  const estimated = await client.responses.inputTokens.count({ model: "sim-elsewhere", input: "12345678" });
  assert.ok(estimated.input_tokens > 2);
});

test("embeddings", async () => {
  const made = await client.embeddings.create({ model: "sim-embedding", input: ["one", "two"], dimensions: 4 });
  assert.deepEqual(
    made.data.map((each) => each.embedding.length),
    [4, 4],
  );
  assert.equal(made.usage.total_tokens, 2);
});

test("images", async () => {
  const made = await client.images.generate({ model: "sim-image", prompt: "a cat", n: 2 });
  assert.equal(made.data.length, 2);
  assert.equal(Buffer.from(made.data[0].b64_json, "base64").subarray(1, 4).toString(), "PNG");
});
