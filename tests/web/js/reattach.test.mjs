// An answer is come back to until it is whole, over, stopped or given up, and every event is told once.
import assert from "node:assert/strict";
import { test } from "node:test";

import { ERRORS, WHOLE, response } from "./answers.mjs";

const { PAUSES_MS, callSteadily } = await import(`${process.env.HOPTRIO_STATIC}/reattach.mjs`);
const { PROTOCOLS, emptyAnswer } = await import(`${process.env.HOPTRIO_STATIC}/protocols.mjs`);

const POST = { url: "http://gateway/v1/chat/completions", init: { method: "POST" } };
const KEPT_NO_MORE = JSON.stringify({ error: { message: "not kept any more", code: "gone" } });

/** A connection that breaks behind these events. */
const broken = (events) => response(events, { breaks: true });
const down = () => Promise.reject(new TypeError("Failed to fetch"));
const gone = (status) => response([KEPT_NO_MORE], { status });

/** An answer in `name`, of whose connections `answers` are what each leads to; what it became and what was told. */
async function read(name, answers, { first = POST, seen = 0, id = "", released = false, onWait = () => {} } = {}) {
  const told = { asked: [], pauses: [], words: [], events: seen, backs: 0, releases: 0 };
  const stop = new AbortController();
  const answer = emptyAnswer();
  const left = [...answers];
  const ended = await callSteadily({
    first,
    why: first ? "" : "The page was loaded again.",
    protocol: PROTOCOLS[name],
    answer,
    signal: stop.signal,
    named: (head) => (id = head.id),
    rest: () => (id ? { url: `after=${told.events}`, init: {} } : null),
    released: async () => {
      told.releases += 1;
      return released;
    },
    pausing: ({ why, ms, tried }) => told.words.push(`${tried}/${ms}: ${why}`),
    back: () => (told.backs += 1),
    event: ({ data }) => (told.events += data === undefined ? 0 : 1),
    wait: async (ms) => {
      told.pauses.push(ms);
      onWait(stop);
    },
    fetch: async (url) => {
      told.asked.push(url);
      const next = left.shift();
      return typeof next === "function" ? next() : next;
    },
  });
  return { ...ended, answer, ...told, left };
}

for (const name of Object.keys(PROTOCOLS)) {
  const whole = WHOLE[name];

  test(`${name}: cut at any event, the rest is asked for and the answer is that of one connection`, async () => {
    for (let cut = 0; cut <= whole.length; cut += 1) {
      const { end, answer, asked, events, backs } = await read(name, [
        broken(whole.slice(0, cut)),
        response(whole.slice(cut)),
      ]);
      assert.equal(end, "complete", `cut at ${cut}`);
      assert.deepEqual([answer.text, answer.thought], ["Hi", "hm"]);
      assert.deepEqual(asked, [POST.url, `after=${cut}`]);
      assert.deepEqual([events, backs], [whole.length, 1]);
    }
  });

  test(`${name}: an error that is told to who comes back is the answer's end`, async () => {
    const { end, why, left } = await read(name, [broken(whole.slice(0, 2)), broken([ERRORS[name]]), gone(410)]);
    assert.deepEqual([end, why, left.length], ["failed", "server_error: broke", 1]);
  });
}

test("an answer that came whole is not asked for again", async () => {
  const { end, asked, pauses } = await read("chat", [response(WHOLE.chat)]);
  assert.deepEqual([end, asked, pauses], ["complete", [POST.url], []]);
});

test("a page that was loaded again comes back at once, to where it was", async () => {
  const options = { first: null, id: "req_1", seen: 3 };
  const { end, asked, pauses } = await read("chat", [response(WHOLE.chat.slice(3))], options);
  assert.deepEqual([end, asked, pauses], ["complete", ["after=3"], []]);
});

test("keep-alives are no events: neither counted nor a sign of life", async () => {
  const alive = ": hopbase-keepalive\n\n";
  const { asked, pauses } = await read("chat", [
    broken([alive, ...WHOLE.chat.slice(0, 2)]),
    broken([alive]),
    response(WHOLE.chat.slice(2)),
  ]);
  assert.deepEqual(asked, [POST.url, "after=2", "after=2"]);
  assert.deepEqual(pauses, PAUSES_MS.slice(0, 2));
});

test("pauses grow while nothing comes, and begin anew with an event", async () => {
  const { end, pauses, words, backs } = await read("chat", [
    broken(WHOLE.chat.slice(0, 1)),
    down,
    gone(503),
    broken(WHOLE.chat.slice(1, 2)),
    gone(429),
    response(WHOLE.chat.slice(2)),
  ]);
  assert.equal(end, "complete");
  assert.deepEqual(pauses, [...PAUSES_MS.slice(0, 3), ...PAUSES_MS.slice(0, 2)]);
  assert.equal(backs, 2);
  assert.match(words[0], /^1\/250: The connection broke/);
  assert.match(words[1], /^2\/500: The gateway cannot be reached/);
});

test("the tries have an end, which is no success", async () => {
  const { end, why, pauses, answer } = await read("chat", [
    broken(WHOLE.chat.slice(0, 3)),
    ...Array.from({ length: PAUSES_MS.length }, () => down),
  ]);
  assert.equal(end, "interrupted");
  assert.match(why, /^The connection broke .* failed 7 times: The gateway cannot be reached/);
  assert.deepEqual(pauses, PAUSES_MS);
  assert.equal(answer.text, "Hi");
});

test("what is not kept, or nobody's, is interrupted with the reason, at once", async () => {
  for (const status of [401, 403, 404, 410]) {
    const { end, why, left } = await read("chat", [broken(WHOLE.chat.slice(0, 1)), gone(status), down]);
    assert.equal(end, "interrupted");
    assert.match(why, /^The connection broke .* The rest is not to be had: gone: not kept any more$/);
    assert.equal(left.length, 1);
  }
  const { end, why } = await read("chat", [gone(410)], { first: null, id: "req_1" });
  assert.equal(end, "interrupted");
  assert.equal(why, "The page was loaded again. The rest is not to be had: gone: not kept any more");
});

test("a rest that ends without a terminal is all there is", async () => {
  const { end, asked } = await read("chat", [response(WHOLE.chat.slice(0, 2)), response([]), down]);
  assert.deepEqual([end, asked.length], ["interrupted", 2]);
});

test("a request that was released has no more to tell than it told twice", async () => {
  const answers = [broken(WHOLE.chat.slice(0, 2)), broken([]), response(WHOLE.chat.slice(2))];
  assert.equal((await read("chat", answers, { released: true })).end, "interrupted");
});

test("a request that was charged is come back to whatever breaks", async () => {
  const { end, releases } = await read("chat", [broken(WHOLE.chat.slice(0, 2)), broken([]), response(WHOLE.chat.slice(2))]);
  assert.deepEqual([end, releases], ["complete", 1]);
});

test("what was refused, or never reached the gateway, is not tried again", async () => {
  for (const status of [401, 402, 429, 503]) {
    const { end, asked } = await read("chat", [gone(status), down]);
    assert.deepEqual([end, asked.length], ["refused", 1]);
  }
  assert.equal((await read("chat", [down, down])).end, "unreachable");
});

test("who stops is not brought back, in a pause either", async () => {
  const { end, asked } = await read("chat", [broken(WHOLE.chat.slice(0, 1)), response(WHOLE.chat.slice(1))], {
    onWait: (stop) => stop.abort(),
  });
  assert.deepEqual([end, asked.length], ["stopped", 1]);
});
