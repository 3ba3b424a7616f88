// Answers in all four protocols, and a response that they come in.

export const json = (value) => `data: ${JSON.stringify(value)}\n\n`;
export const WHOLE = {
  chat: [
    json({ choices: [{ delta: { role: "assistant", content: "" } }] }),
    json({ choices: [{ delta: { reasoning_content: "hm" } }] }),
    json({ choices: [{ delta: { content: "Hi" } }] }),
    json({ choices: [{ delta: {}, finish_reason: "stop" }] }),
    json({ choices: [], usage: { prompt_tokens: 1 } }),
    "data: [DONE]\n\n",
  ],
  responses: [
    json({ type: "response.created", response: {} }),
    json({ type: "response.reasoning_summary_text.delta", delta: "hm" }),
    json({ type: "response.output_text.delta", delta: "Hi" }),
    json({ type: "response.completed", response: { status: "completed", usage: { input_tokens: 1 } } }),
  ],
  messages: [
    json({ type: "message_start", message: { usage: { input_tokens: 1 } } }),
    json({ type: "content_block_delta", delta: { type: "thinking_delta", thinking: "hm" } }),
    json({ type: "content_block_delta", delta: { type: "text_delta", text: "Hi" } }),
    json({ type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 1 } }),
    json({ type: "message_stop" }),
  ],
  gemini: [
    json({ candidates: [{ content: { parts: [{ text: "hm", thought: true }] } }] }),
    json({ candidates: [{ content: { parts: [{ text: "Hi" }] } }] }),
    json({ candidates: [{ finishReason: "STOP" }], usageMetadata: { promptTokenCount: 1 } }),
  ],
};
export const ERRORS = {
  chat: json({ error: { message: "broke", code: "server_error" } }),
  responses: json({ type: "response.failed", response: { error: { code: "server_error", message: "broke" } } }),
  messages: json({ type: "error", error: { type: "server_error", message: "broke" } }),
  gemini: json({ error: { code: 500, status: "server_error", message: "broke" } }).replace('"code":500,', ""),
};

/** A response whose body is these strings, then ends or breaks. */
export function response(parts, { breaks = false, status = 200, headers = {} } = {}) {
  const left = parts.map((part) => new TextEncoder().encode(part));
  const body = new ReadableStream({
    pull(controller) {
      if (left.length > 0) controller.enqueue(left.shift());
      else if (breaks) controller.error(new TypeError("network error"));
      else controller.close();
    },
  });
  return new Response(body, { status, headers: { "x-request-id": "req_1", ...headers } });
}
