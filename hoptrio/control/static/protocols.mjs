// The four protocols as a client speaks them: how a conversation is sent, and what the events of the answer mean.
// Pure: no network, no document.

const asJson = { "content-type": "application/json" };

/** What an answer has said so far. Plain data, so that it can be stored and gone on with after a reload. */
export function emptyAnswer() {
  return { text: "", thought: "", terminal: false, finish: "", error: "", usage: null };
}

/** True if these events end with the protocol's own end, so that the answer may be called whole. */
export function isWhole(answer) {
  return answer.terminal && answer.error === "";
}

const CUT = new Set(["length", "max_output_tokens", "max_tokens", "MAX_TOKENS"]);

/** True if the model stopped at the output limit: the answer is whole as the protocol has it, and not to its reader. */
export function isCut(answer) {
  return CUT.has(answer.finish);
}

function parsed(data) {
  try {
    return JSON.parse(data);
  } catch {
    return null;
  }
}

function said(error, fallback) {
  if (typeof error === "string") return error || fallback;
  const message = error?.message || fallback;
  const kind = error?.code || error?.status || error?.type;
  return kind && !message.startsWith(String(kind)) ? `${kind}: ${message}` : message;
}

/** The message of an error's body, in whichever protocol's shape it is. */
export function refusalOf(status, body) {
  const value = parsed(body);
  const error = (Array.isArray(value) ? value[0] : value)?.error;
  return error ? said(error, `HTTP ${status}`) : `HTTP ${status}`;
}

const chat = {
  name: "Chat Completions",
  request: ({ model, turns, maxTokens }) => ({
    path: "/v1/chat/completions",
    headers: { ...asJson },
    body: {
      model,
      stream: true,
      stream_options: { include_usage: true },
      max_completion_tokens: maxTokens,
      messages: turns.map(({ role, text }) => ({ role, content: text })),
    },
  }),
  key: (secret) => ({ authorization: `Bearer ${secret}` }),
  take(answer, { data }) {
    if (data === "[DONE]") {
      answer.terminal = true;
      return;
    }
    const chunk = parsed(data);
    if (chunk?.error) answer.error = said(chunk.error, "the provider failed");
    if (chunk?.usage) answer.usage = chunk.usage;
    // A usage chunk has no choice at all.
    const choice = chunk?.choices?.[0];
    if (!choice) return;
    const delta = choice.delta ?? {};
    answer.thought += delta.reasoning_content ?? delta.reasoning ?? "";
    answer.text += (delta.content ?? "") + (delta.refusal ?? "");
    if (choice.finish_reason) answer.finish = choice.finish_reason;
  },
};

const responses = {
  name: "Responses",
  request: ({ model, turns, maxTokens }) => ({
    path: "/v1/responses",
    headers: { ...asJson },
    body: {
      model,
      stream: true,
      max_output_tokens: maxTokens,
      input: turns.map(({ role, text }) => ({ role, content: text })),
    },
  }),
  key: chat.key,
  take(answer, { data }) {
    const event = parsed(data);
    switch (event?.type) {
      case "response.output_text.delta":
      case "response.refusal.delta":
        answer.text += event.delta ?? "";
        break;
      case "response.reasoning_text.delta":
      case "response.reasoning_summary_text.delta":
        answer.thought += event.delta ?? "";
        break;
      case "response.completed":
      case "response.incomplete":
        answer.terminal = true;
        answer.finish = event.response?.incomplete_details?.reason ?? event.response?.status ?? "";
        answer.usage = event.response?.usage ?? null;
        break;
      case "response.failed":
        answer.error = said(event.response?.error, "the response failed");
        break;
      case "error":
        answer.error = said(event.error ?? event, "the provider failed");
        break;
      default:
    }
  },
};

const messages = {
  name: "Messages",
  request: ({ model, turns, maxTokens }) => ({
    path: "/v1/messages",
    headers: { ...asJson, "anthropic-version": "2023-06-01" },
    body: {
      model,
      stream: true,
      max_tokens: maxTokens,
      messages: turns.map(({ role, text }) => ({ role, content: text })),
    },
  }),
  key: (secret) => ({ "x-api-key": secret }),
  take(answer, { data }) {
    const event = parsed(data);
    switch (event?.type) {
      case "content_block_delta":
        answer.text += event.delta?.text ?? "";
        answer.thought += event.delta?.thinking ?? "";
        break;
      case "message_start":
        answer.usage = event.message?.usage ?? null;
        break;
      case "message_delta":
        answer.finish = event.delta?.stop_reason ?? answer.finish;
        answer.usage = { ...answer.usage, ...event.usage };
        break;
      case "message_stop":
        answer.terminal = true;
        break;
      case "error":
        answer.error = said(event.error, "the provider failed");
        break;
      default:
    }
  },
};

const gemini = {
  name: "Gemini",
  request: ({ model, turns, maxTokens }) => ({
    path: `/v1beta/models/${encodeURIComponent(model)}:streamGenerateContent?alt=sse`,
    headers: { ...asJson },
    body: {
      generationConfig: { maxOutputTokens: maxTokens },
      contents: turns.map(({ role, text }) => ({ role: role === "assistant" ? "model" : role, parts: [{ text }] })),
    },
  }),
  key: (secret) => ({ "x-goog-api-key": secret }),
  take(answer, { data }) {
    const event = parsed(data);
    if (event?.error) answer.error = said(event.error, "the provider failed");
    if (event?.usageMetadata) answer.usage = event.usageMetadata;
    const candidate = event?.candidates?.[0];
    for (const part of candidate?.content?.parts ?? []) {
      answer[part.thought ? "thought" : "text"] += part.text ?? "";
    }
    const finish = candidate?.finishReason ?? event?.promptFeedback?.blockReason;
    if (finish) {
      // There is no event for the end: the clean end of the body behind this one is it.
      answer.finish = finish;
      answer.terminal = true;
    }
  },
};

/** By the name that the gateway uses. Each: `request(...)`, `key(secret)` (headers), `take(answer, event)`. */
export const PROTOCOLS = { chat, responses, messages, gemini };
