// The official Node SDK openai, unmodified: its WebSocket client of the Responses API.

import assert from "node:assert/strict";
import test from "node:test";

import OpenAI from "openai";
import { ResponsesWS } from "openai/resources/responses/ws";

import { call, expectedArguments, gateway, weather } from "./gateway.mjs";

const model = gateway.model;
const abcdef = "sim: text=abcdef events=6 pace=1ms input=50";
const tools = [{ type: "function", name: "weather", parameters: weather, strict: false }];
const ends = ["response.completed", "response.failed", "error"];

// What `talk` makes of a connection; it is closed behind it.
async function connected(talk, apiKey = gateway.key) {
  const client = new OpenAI({ baseURL: `${gateway.base_url}/v1`, apiKey, maxRetries: 0 });
  const socket = new ResponsesWS(client);
  const events = socket.stream();
  try {
    return await talk(async (body) => {
      socket.send({ type: "response.create", model, ...body });
      const kept = [];
      for (;;) {
        const { value, done } = await events.next();
        assert.ok(!done);
        if (value.type === "error" && value.error?.error) return [...kept, value.error.error];
        if (value.type !== "message") continue;
        kept.push(value.message);
        if (ends.includes(value.message.type)) return kept;
      }
    });
  } finally {
    await events.return?.();
    socket.close();
  }
}

test("turns follow one another on one connection", () =>
  connected(async (turn) => {
    const first = await turn({ input: abcdef, store: false });
    const deltas = first.filter((event) => event.type === "response.output_text.delta");
    assert.equal(deltas.map((event) => event.delta).join(""), "abcdef");
    assert.equal(first.at(-1).response.usage.total_tokens, 56);
    const second = await turn({ input: abcdef, previous_response_id: first.at(-1).response.id, stream_id: "two" });
    assert.equal(second.at(-1).type, "response.completed");
    assert.ok(second.every((event) => event.stream_id === "two"));
  }));

test("a tool is called and its result continues the answer", () =>
  connected(async (turn) => {
    const asked = (await turn({ input: call, tools, store: false })).at(-1).response;
    const [{ call_id, arguments: given }] = asked.output;
    assert.deepEqual(JSON.parse(given), expectedArguments);
    const input = [{ type: "function_call_output", call_id, output: "rain" }];
    const answer = await turn({ input, tools, previous_response_id: asked.id });
    assert.equal(answer.at(-1).type, "response.completed");
  }));

test("a refusal is an event, and the connection goes on", () =>
  connected(async (turn) => {
    const error = (await turn({ model: "no-such-model", input: "hello" })).at(-1);
    assert.equal(error.status, 404);
    assert.equal(error.error.code, "model_not_found");
    assert.equal((await turn({ input: abcdef })).at(-1).type, "response.completed");
  }));
