// An answer that survives its connection. The gateway keeps what it told; what has not come yet is asked for by the number
// of the last event that did (docs/reattach.md), a bounded number of times in a row, with growing pauses.

import { call, stopped } from "./call.mjs";

/** Before each try, from the last event on that came. Half a minute in all: a change of networks takes less. */
export const PAUSES_MS = [250, 500, 1000, 2000, 4000, 8000, 16000];

/**
 * Read an answer to its end, over as many connections as it takes; never rejects. Resolves to `{end, why}` as `call`
 * does, and takes `protocol`, `answer`, `signal`, `event` and `fetch` as it does.
 *
 * `first` is the request that asks, `{url, init}`; without one the answer is come back to at once, and `why` says why.
 * `named({id})` is called with the head of `first`. `rest()` is the request for what has not come yet, null while the
 * answer has no id. `released()` resolves to true if the request is known to have ended without a charge.
 * `pausing({why, ms, tried})` is called before `wait(ms)`, which is over early when `signal` aborts; `back()` when a
 * connection stands again.
 */
export async function callSteadily({ first, why = "", named, rest, released, pausing, back, wait, event, ...how }) {
  let broke = why;
  let request = first ?? rest();
  for (let tried = 0; ; tried += 1) {
    const returns = request !== first;
    let status = 0;
    let fresh = false;
    const ended = await call({
      ...how,
      ...request,
      head: (head) => {
        status = head.status;
        if (!returns) named(head);
        else if (status === 200) back();
      },
      event: (each) => {
        fresh ||= each.data !== undefined;
        event(each);
      },
    });
    if (fresh) tried = 0;
    if (ended.end === "interrupted") broke = ended.why;
    if (isOver(ended, { returns, status })) {
      return returns && ended.end === "refused" ? cut(`${broke} The rest is not to be had: ${ended.why}`) : ended;
    }
    request = rest();
    if (request === null) return ended;
    // A failed stream breaks off behind its last event for whoever comes back, too; a browser may drop that event.
    if (returns && status === 200 && !fresh && (await released())) return cut(broke);
    if (tried === PAUSES_MS.length) return cut(`${broke} Coming back to the answer failed ${tried} times: ${ended.why}`);
    const ms = PAUSES_MS[tried];
    pausing({ why: ended.why, ms, tried: tried + 1 });
    await wait(ms);
    if (how.signal.aborted) return stopped();
  }
}

/** True if no further connection would bring more of the answer. */
function isOver({ end, clean }, { returns, status }) {
  if (end === "interrupted") return returns && clean;
  if (end === "refused") return !returns || (status !== 429 && status < 500);
  return end !== "unreachable";
}

/** For an answer that had begun, not to be reached or refused is to be interrupted. */
function cut(why) {
  return { end: "interrupted", why: why.trim() };
}
