// What the official Node SDKs' accumulators make of given streams: standard input holds a list of
// { protocol, wire } (wire in base64), standard output gets a list of what was heard. Any error ends it.

import { readFileSync } from "node:fs";

import Anthropic from "@anthropic-ai/sdk";
import { GoogleGenAI } from "@google/genai";
import OpenAI from "openai";

const user = [{ role: "user", content: "x" }];
const answering = (wire) => async () =>
  new Response(wire, { status: 200, headers: { "content-type": "text/event-stream; charset=utf-8" } });
const openaiOf = (wire) => new OpenAI({ baseURL: "http://gateway/v1", apiKey: "k", maxRetries: 0, fetch: answering(wire) });
const parsed = (text) => JSON.parse(text || "{}");

const hearers = {
  async chat(wire) {
    const asked = { model: "m", messages: user, stream_options: { include_usage: true } };
    const answer = await openaiOf(wire).chat.completions.stream(asked).finalChatCompletion();
    const { message, finish_reason: finish } = answer.choices[0];
    const calls = (message.tool_calls ?? []).map((call) => [call.function.name, parsed(call.function.arguments)]);
    const { usage } = answer;
    const { cached_tokens: cached } = usage.prompt_tokens_details;
    const { reasoning_tokens: reasoning } = usage.completion_tokens_details;
    return { text: message.content, calls, finish, usage: [usage.prompt_tokens, cached, usage.completion_tokens, reasoning] };
  },
  async responses(wire) {
    const answer = await openaiOf(wire).responses.stream({ model: "m", input: "x" }).finalResponse();
    const made = answer.output.filter((item) => item.type === "function_call");
    const { usage } = answer;
    const { cached_tokens: cached } = usage.input_tokens_details;
    const { reasoning_tokens: reasoning } = usage.output_tokens_details;
    return {
      text: answer.output_text,
      calls: made.map((item) => [item.name, parsed(item.arguments)]),
      finish: answer.status === "completed" && made.length ? "tool_calls" : answer.status,
      usage: [usage.input_tokens, cached, usage.output_tokens, reasoning],
    };
  },
  async messages(wire) {
    const client = new Anthropic({ baseURL: "http://gateway", apiKey: "k", maxRetries: 0, fetch: answering(wire) });
    const answer = await client.messages.stream({ model: "m", max_tokens: 64, messages: user }).finalMessage();
    const blocks = (type) => answer.content.filter((block) => block.type === type);
    const { usage } = answer;
    const cached = usage.cache_read_input_tokens ?? 0;
    const given = usage.input_tokens + cached + (usage.cache_creation_input_tokens ?? 0);
    return {
      text: blocks("text").map((block) => block.text).join(""),
      calls: blocks("tool_use").map((block) => [block.name, block.input]),
      finish: answer.stop_reason === "tool_use" ? "tool_calls" : answer.stop_reason,
      usage: [given, cached, usage.output_tokens, usage.output_tokens_details?.thinking_tokens ?? 0],
    };
  },
  async gemini(wire) {
    globalThis.fetch = answering(wire);
    const client = new GoogleGenAI({ apiKey: "k", httpOptions: { baseUrl: "http://gateway" } });
    const parts = [];
    let usage, finish;
    for await (const chunk of await client.models.generateContentStream({ model: "m", contents: "x" })) {
      const candidate = chunk.candidates?.[0];
      parts.push(...(candidate?.content?.parts ?? []));
      finish = candidate?.finishReason ?? finish;
      usage = chunk.usageMetadata ?? usage;
    }
    const calls = parts.filter((part) => part.functionCall).map(({ functionCall: call }) => [call.name, call.args]);
    const reasoning = usage.thoughtsTokenCount ?? 0;
    const made = (usage.candidatesTokenCount ?? 0) + reasoning;
    return {
      text: parts.map((part) => (part.thought ? "" : part.text ?? "")).join(""),
      calls,
      finish: finish === "STOP" && calls.length ? "tool_calls" : finish,
      usage: [usage.promptTokenCount, usage.cachedContentTokenCount ?? 0, made, reasoning],
    };
  },
};

const heard = [];
for (const { protocol, wire } of JSON.parse(readFileSync(0, "utf8"))) {
  heard.push(await hearers[protocol](Buffer.from(wire, "base64")));
}
console.log(JSON.stringify(heard));
