// Server-sent events, read from bytes however they are cut (WHATWG HTML, "Parsing an event stream"), in linear time.
// EventSource cannot POST and hides comments, so that nobody would see a keep-alive: hence this one.

/** Bytes in, events out: `{event, data, id}`, `{comment}` for a comment line, `{blank: true}` for a blank line alone. */
export class SseParser {
  #decoder = new TextDecoder("utf-8");
  #line = "";
  #afterCr = false;
  #data = [];
  #type = "";
  #id = "";
  #commented = false;

  /** Take a chunk (Uint8Array); returns what became whole with it, in order. */
  feed(chunk) {
    return this.#take(this.#decoder.decode(chunk, { stream: true }));
  }

  /** The body is over. True if it ended inside an event, which then is lost. */
  finish() {
    this.#take(this.#decoder.decode());
    return this.#line !== "" || this.#data.length > 0 || this.#type !== "";
  }

  #take(text) {
    const out = [];
    let start = 0;
    if (this.#afterCr && text !== "") {
      // The CR ended its line already; an LF behind it belongs to the same end.
      if (text[0] === "\n") start = 1;
      this.#afterCr = false;
    }
    const ends = /\r\n|\n|\r/g;
    ends.lastIndex = start;
    for (let end = ends.exec(text); end !== null; end = ends.exec(text)) {
      this.#takeLine(this.#line + text.slice(start, end.index), out);
      this.#line = "";
      start = ends.lastIndex;
      this.#afterCr = end[0] === "\r" && start === text.length;
    }
    this.#line += text.slice(start);
    return out;
  }

  #takeLine(line, out) {
    if (line === "") {
      this.#dispatch(out);
      return;
    }
    const colon = line.indexOf(":");
    if (colon === 0) {
      out.push({ comment: line.slice(1).trimStart() });
      this.#commented = true;
      return;
    }
    const field = colon < 0 ? line : line.slice(0, colon);
    let value = colon < 0 ? "" : line.slice(colon + 1);
    if (value.startsWith(" ")) value = value.slice(1);
    if (field === "data") this.#data.push(value);
    else if (field === "event") this.#type = value;
    else if (field === "id" && !value.includes("\0")) this.#id = value;
  }

  #dispatch(out) {
    if (this.#data.length > 0) {
      out.push({ event: this.#type || "message", data: this.#data.join("\n"), id: this.#id });
    } else if (this.#type === "" && !this.#commented) {
      out.push({ blank: true });
    }
    this.#data = [];
    this.#type = "";
    this.#commented = false;
  }
}

/**
 * Read a response to its end; `take(event)` is called for each event and comment as it comes.
 * Resolves to true if the body ended cleanly between two events; rejects as the body's reader does (abort, cut).
 */
export async function readEvents(response, take) {
  const parser = new SseParser();
  const reader = response.body.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return !parser.finish();
    for (const event of parser.feed(value)) take(event);
  }
}
