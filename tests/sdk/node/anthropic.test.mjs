// The official Node SDK @anthropic-ai/sdk, unmodified.

import assert from "node:assert/strict";
import test from "node:test";

import Anthropic from "@anthropic-ai/sdk";

import { call, collect, everything, expectedArguments, failure, gateway, weather } from "./gateway.mjs";

const clientOf = (apiKey) => new Anthropic({ baseURL: gateway.base_url, apiKey, maxRetries: 0 });
const client = clientOf(gateway.key);
const abcdef = "sim: text=abcdef events=6 pace=1ms input=50 cached=20";
const tools = [{ name: "weather", description: "The weather", input_schema: weather }];
const asked = (content, more = {}) => ({
  model: gateway.model,
  max_tokens: 1000,
  messages: [{ role: "user", content }],
  ...more,
});
const streamed = (text, more = {}) => client.messages.create({ ...asked(text, more), stream: true });
const deltasOf = (events) => events.filter((event) => event.type === "content_block_delta").map((event) => event.delta);
const classes = {
  400: Anthropic.BadRequestError,
  401: Anthropic.AuthenticationError,
  402: Anthropic.APIError,
  404: Anthropic.NotFoundError,
  429: Anthropic.RateLimitError,
};

test("a text stream", async () => {
  const { kept, error } = await collect(streamed(abcdef));
  assert.equal(error, null);
  assert.equal(
    deltasOf(kept)
      .map((delta) => delta.text)
      .join(""),
    "abcdef",
  );
  assert.equal(kept.at(-1).type, "message_stop");
  assert.equal(kept.at(-2).usage.output_tokens, 6);
});

test("text, not streaming", async () => {
  const answer = await client.messages.create(asked(abcdef));
  assert.equal(answer.content[0].text, "abcdef");
  assert.equal(answer.usage.cache_read_input_tokens, 20);
});

test("tools", async () => {
  const { kept } = await collect(streamed(call, { tools }));
  const fragments = deltasOf(kept).map((delta) => delta.partial_json);
  assert.deepEqual(JSON.parse(fragments.join("")), expectedArguments);
});

test("the stream helper", async () => {
  const answer = await client.messages.stream(asked(everything, { tools })).finalMessage();
  assert.deepEqual(
    answer.content.map((block) => block.type),
    ["thinking", "text", "tool_use", "tool_use"],
  );
  assert.deepEqual(answer.content[2].input, { city: "simulated" });
  assert.equal(answer.usage.output_tokens, 12);
});

for (const [status, expected] of Object.entries(classes)) {
  test(`${status} before the stream`, async () => {
    const refusal = gateway.refusals[status];
    const error = await failure(
      clientOf(refusal.key).messages.create({ ...asked(refusal.prompt), model: refusal.model, stream: true }),
    );
    assert.ok(error instanceof expected);
    assert.equal(error.status, Number(status));
  });
}

for (const how of ["error", "cut"]) {
  test(`a failure in the stream (${how})`, async () => {
    const { kept, error } = await collect(streamed(gateway.prompts[how]));
    assert.ok(error instanceof Anthropic.APIError);
    assert.equal(error.status, undefined);
    assert.equal(deltasOf(kept).length, 2);
  });
}

test("keep-alives between events", async () => {
  assert.equal(await client.messages.stream(asked(gateway.prompts.keepalive)).finalText(), "abcdef");
});

test("tokens are counted, and estimated where no channel counts", async () => {
  const { messages } = asked("12345678");
  assert.equal((await client.messages.countTokens({ model: gateway.model, messages })).input_tokens, 2);
  const { data, response } = await client.messages.countTokens({ model: "sim-elsewhere", messages }).withResponse();
  assert.ok(data.input_tokens > 2);
  assert.equal(response.headers.get("x-hoptrio-estimated"), "true");
});
