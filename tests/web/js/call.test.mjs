// What the playground says became of a call: only a whole answer is a success.
import assert from "node:assert/strict";
import { test } from "node:test";

import { ERRORS, WHOLE, json, response } from "./answers.mjs";

const { call, followSettlement } = await import(`${process.env.HOPTRIO_STATIC}/call.mjs`);
const { PROTOCOLS, emptyAnswer } = await import(`${process.env.HOPTRIO_STATIC}/protocols.mjs`);

async function outcome(name, answered, { signal = new AbortController().signal } = {}) {
  const answer = emptyAnswer();
  const seen = [];
  let head;
  const ended = await call({
    url: "http://gateway/",
    init: {},
    protocol: PROTOCOLS[name],
    answer,
    signal,
    head: (each) => (head = each),
    event: (each) => seen.push(each),
    fetch: typeof answered === "function" ? answered : async () => answered,
  });
  return { ...ended, answer, seen, head };
}

const CUT = { chat: "length", responses: "max_output_tokens", messages: "max_tokens", gemini: "MAX_TOKENS" };
const STOPPED = { chat: '"stop"', messages: '"end_turn"', gemini: '"STOP"' };

for (const name of Object.keys(PROTOCOLS)) {
  test(`${name}: an answer that the output limit ended is cut`, async () => {
    const cut =
      name === "responses"
        ? [
            ...WHOLE.responses.slice(0, -1),
            json({
              type: "response.incomplete",
              response: { status: "incomplete", incomplete_details: { reason: CUT.responses }, usage: {} },
            }),
          ]
        : WHOLE[name].map((each) => each.replace(STOPPED[name], `"${CUT[name]}"`));
    assert.deepEqual((await outcome(name, response(cut))).end, "cut");
  });

  const whole = WHOLE[name];

  test(`${name}: a whole answer is complete`, async () => {
    const { end, answer, head, seen } = await outcome(name, response(whole));
    assert.equal(end, "complete");
    assert.deepEqual([answer.text, answer.thought, answer.error], ["Hi", "hm", ""]);
    assert.ok(answer.finish && answer.usage);
    assert.deepEqual(head, { id: "req_1", status: 200 });
    assert.equal(seen.length, whole.length);
  });

  test(`${name}: cut before any event of its end, cleanly or not, is interrupted`, async () => {
    for (const breaks of [false, true]) {
      for (let count = 0; count < whole.length; count += 1) {
        const { end } = await outcome(name, response(whole.slice(0, count), { breaks }));
        assert.equal(end, "interrupted", `${count} events, breaks: ${breaks}`);
      }
    }
  });

  test(`${name}: an error in the stream is failed, whatever follows it`, async () => {
    for (const rest of [[], whole]) {
      for (const breaks of [false, true]) {
        const { end, why } = await outcome(name, response([...whole.slice(0, 2), ERRORS[name], ...rest], { breaks }));
        assert.deepEqual([end, why], ["failed", "server_error: broke"]);
      }
    }
  });
}

test("an event without its blank line at the end is interrupted", async () => {
  const { end } = await outcome("chat", response([...WHOLE.chat, "data: "]));
  assert.equal(end, "interrupted");
});

test("a keep-alive is told and is no event of the answer", async () => {
  const { end, seen } = await outcome("chat", response([": hopbase-keepalive\n\n", ...WHOLE.chat]));
  assert.equal(end, "complete");
  assert.deepEqual(seen[0], { comment: "hopbase-keepalive" });
});

test("a refusal says what the gateway said, and when to come again", async () => {
  const body = JSON.stringify({ error: { message: "too many", code: "rate_limit_exceeded" } });
  const { end, why, head } = await outcome("chat", response([body], { status: 429, headers: { "retry-after": "7" } }));
  assert.deepEqual([end, why], ["refused", "rate_limit_exceeded: too many (retry after 7 s)"]);
  assert.equal(head.status, 429);
});

test("a refusal that is no JSON is its status", async () => {
  const { end, why } = await outcome("chat", response(["<html>"], { status: 502 }));
  assert.deepEqual([end, why], ["refused", "HTTP 502"]);
});

test("a gateway that cannot be reached is not the answer's failure", async () => {
  const { end, head } = await outcome("chat", () => Promise.reject(new TypeError("Failed to fetch")));
  assert.deepEqual([end, head], ["unreachable", undefined]);
});

test("an abort is the user's, before the head and behind it", async () => {
  const control = new AbortController();
  control.abort();
  const refused = () => Promise.reject(new DOMException("aborted", "AbortError"));
  assert.equal((await outcome("chat", refused, { signal: control.signal })).end, "stopped");
  const broken = response(WHOLE.chat.slice(0, 2), { breaks: true });
  assert.equal((await outcome("chat", broken, { signal: control.signal })).end, "stopped");
});

test("an answer is gone on with where it was", async () => {
  const answer = emptyAnswer();
  const go = (parts, breaks) =>
    call({
      url: "",
      init: {},
      protocol: PROTOCOLS.chat,
      answer,
      signal: new AbortController().signal,
      head: () => {},
      event: () => {},
      fetch: async () => response(parts, { breaks }),
    });
  assert.equal((await go(WHOLE.chat.slice(0, 3), true)).end, "interrupted");
  assert.equal((await go(WHOLE.chat.slice(3), false)).end, "complete");
  assert.equal(answer.text, "Hi");
});

test("a settlement is followed until it is there", async () => {
  const records = [{ state: "running" }, { state: "running" }, { state: "captured", charge: "0.1" }];
  const told = [];
  const pauses = [];
  await followSettlement({
    url: "",
    headers: {},
    signal: new AbortController().signal,
    tell: (record) => told.push(record.state),
    wait: async (pause) => pauses.push(pause),
    fetch: async () => Response.json(records.shift()),
  });
  assert.deepEqual(told, ["running", "running", "captured"]);
  assert.deepEqual(pauses, [100, 200]);
});
