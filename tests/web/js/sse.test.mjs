// The playground's event parser gives the same events however the bytes are cut.
import assert from "node:assert/strict";
import { test } from "node:test";

const { SseParser, readEvents } = await import(`${process.env.HOPTRIO_STATIC}/sse.mjs`);
const bytes = (text) => new TextEncoder().encode(text);

const STREAM =
  "\uFEFFdata: one\n\n" +
  ": hopbase-keepalive\n\n" +
  "event: response.created\r\ndata: {\"a\":\r\ndata: 1}\r\n\r\n" +
  "data: grüße 🌊\n\n" +
  "\n" +
  "data:nospace\rdata:  two spaces\r\r" +
  "id: 7\nretry: 100\nunknown: x\ndata\n\n" +
  "event: lost\n\n" +
  "data: [DONE]\n\n";

const EVENTS = [
  { event: "message", data: "one", id: "" },
  { comment: "hopbase-keepalive" },
  { event: "response.created", data: "{\"a\":\n1}", id: "" },
  { event: "message", data: "grüße 🌊", id: "" },
  { blank: true },
  { event: "message", data: "nospace\n two spaces", id: "" },
  { event: "message", data: "", id: "7" },
  { event: "message", data: "[DONE]", id: "7" },
];

function parsed(chunks) {
  const parser = new SseParser();
  const events = chunks.flatMap((chunk) => parser.feed(chunk));
  return { events, inside: parser.finish() };
}

test("events, comments, line ends and fields are as the standard says", () => {
  assert.deepEqual(parsed([bytes(STREAM)]), { events: EVENTS, inside: false });
});

test("a cut at any byte changes nothing", () => {
  const all = bytes(STREAM);
  for (let cut = 0; cut <= all.length; cut += 1) {
    assert.deepEqual(parsed([all.slice(0, cut), all.slice(cut)]), { events: EVENTS, inside: false }, `cut at ${cut}`);
  }
});

test("byte by byte changes nothing", () => {
  const each = Array.from(bytes(STREAM), (byte) => Uint8Array.of(byte));
  assert.deepEqual(parsed(each), { events: EVENTS, inside: false });
});

test("an event without its blank line is no event, and the end says so", () => {
  for (const text of ["data: x", "data: x\n", "event: x\n", "dat"]) {
    assert.deepEqual(parsed([bytes(text)]), { events: [], inside: true }, text);
  }
});

test("a large event in small pieces takes linear time", () => {
  const piece = bytes("x".repeat(64));
  const parser = new SseParser();
  parser.feed(bytes("data: "));
  for (let i = 0; i < 65536; i += 1) parser.feed(piece);
  const [event] = parser.feed(bytes("\n\n"));
  assert.equal(event.data.length, 64 * 65536);
});

test("a body that breaks rejects, and what came before it was told", async () => {
  const body = new ReadableStream({
    pull(controller) {
      if (this.sent) controller.error(new TypeError("cut"));
      else controller.enqueue(bytes("data: a\n\n"));
      this.sent = true;
    },
  });
  const told = [];
  await assert.rejects(readEvents({ body }, (event) => told.push(event.data)), /cut/);
  assert.deepEqual(told, ["a"]);
});
