// One call of the data plane, from the first byte to what became of it. What it needs is given to it (fetch, clock), so
// that it runs under node as in a browser. Coming back to a stream is the same call with another URL and the answer so far.

import { isCut, isWhole, refusalOf } from "./protocols.mjs";
import { readEvents } from "./sse.mjs";

/** How a call ended. Only `complete` is a success, and `cut` one that the output limit ended. */
export const ENDS = ["complete", "cut", "failed", "refused", "unreachable", "interrupted", "stopped"];

/**
 * Call and read to the end; never rejects. Resolves to `{end, why, clean}`, `end` one of ENDS, `why` words for people, `clean`
 * true if the body ended instead of breaking.
 *
 * `head({id, status})` is called when the answer's head is there, `event(event)` for each event, comment and blank line,
 * after `protocol.take` has added it to `answer`.
 */
export async function call({ url, init, protocol, answer, signal, head, event, fetch = globalThis.fetch }) {
  let response;
  try {
    response = await fetch(url, { ...init, signal, cache: "no-store", credentials: "omit" });
  } catch (error) {
    return signal.aborted ? stopped() : unreachable(error);
  }
  head({ id: response.headers.get("x-request-id") ?? "", status: response.status });
  try {
    if (!response.ok) return await refused(response);
    const clean = await readEvents(response, (each) => {
      if (each.data !== undefined) protocol.take(answer, each);
      event(each);
    });
    return ended(answer, clean);
  } catch (error) {
    if (signal.aborted) return stopped();
    return answer.error
      ? { end: "failed", why: answer.error }
      : { end: "interrupted", why: `The connection broke before the end of the answer (${error.message}).` };
  }
}

function ended(answer, clean) {
  if (answer.error) return { end: "failed", why: answer.error };
  if (clean && isWhole(answer)) return { end: isCut(answer) ? "cut" : "complete", why: "" };
  return { end: "interrupted", why: "The body ended before the answer did.", clean };
}

function unreachable({ message }) {
  const origin = globalThis.location?.origin ?? "this page";
  // A browser does not tell a script which of the two it is.
  return { end: "unreachable", why: `The gateway cannot be reached, or does not allow ${origin} (${message}).` };
}

async function refused(response) {
  const wait = response.headers.get("retry-after");
  const why = refusalOf(response.status, await response.text());
  return { end: "refused", why: wait ? `${why} (retry after ${wait} s)` : why };
}

/** The end of what a person ended. */
export function stopped() {
  return { end: "stopped", why: "You stopped it. The gateway reads on to the end of the answer and settles by it." };
}

/**
 * Ask what became of a request until it is settled: `tell(record)` gets each answer of `GET /v1/requests/{id}`.
 * Gives up silently when `signal` aborts or the gateway refuses.
 */
export async function followSettlement({ url, headers, signal, tell, wait, fetch = globalThis.fetch }) {
  for (let pause = 100; !signal.aborted; pause = Math.min(pause * 2, 5000)) {
    try {
      const response = await fetch(url, { headers, signal, cache: "no-store", credentials: "omit" });
      if (!response.ok) return;
      const record = await response.json();
      tell(record);
      if (record.state !== "running") return;
    } catch {
      return;
    }
    await wait(pause);
  }
}
