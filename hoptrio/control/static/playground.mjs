// The playground: a conversation with the data plane, called from this browser as any other client would.
// All of the state is `talk`, plain data kept in this tab (sessionStorage); the document is drawn from it. Whatever a
// provider says goes into the page as text, never as markup.

import { followSettlement } from "./call.mjs";
import { PROTOCOLS, emptyAnswer } from "./protocols.mjs";
import { PAUSES_MS, callSteadily } from "./reattach.mjs";

const STORED = "hoptrio.playground";
/** Events of one answer that are kept and shown; a burst of more would only make the page slow. */
const EVENTS_MAX = 2000;
const SAVE_MS = 500;
/** A page that was about to be left and is still there after this has stayed. */
const LEAVE_MS = 1000;

const BADGES = {
  running: ["streaming", ""],
  waiting: ["reconnecting", "warn"],
  complete: ["complete", "good"],
  cut: ["complete (cut at the output limit)", "warn"],
  failed: ["failed", "bad"],
  refused: ["refused", "bad"],
  unreachable: ["unreachable", "bad"],
  interrupted: ["interrupted", "bad"],
  stopped: ["stopped", "warn"],
};

const GOES_ON = new Set(["running", "waiting"]);
/** Ends that leaving the page may bring about. */
const BROKEN = new Set(["interrupted", "unreachable"]);

const at = (id) => document.getElementById(id);
const page = at("playground");
const [form, list, log, status] = [at("ask"), at("conversation"), at("events"), at("status")];
const { gateway, records } = page.dataset;

const talk = restored();
/** What is drawn of each turn, and the tasks that go on for it. */
const views = new Map();
let running = null;
let shown = null;
/** The newest of `shown`'s events that is drawn. */
let drawn = 0;
let saving = null;
let drawing = false;
let leaving = false;

// -- state ----------------------------------------------------------------------------------------------------------

function restored() {
  try {
    const found = JSON.parse(sessionStorage.getItem(STORED));
    if (Array.isArray(found?.turns)) return found;
  } catch {
    // What cannot be read is as good as nothing.
  }
  return { settings: {}, turns: [] };
}

function save() {
  clearTimeout(saving);
  saving = null;
  const settings = Object.fromEntries(new FormData(form));
  for (const kept of [talk.turns, talk.turns.map((turn) => ({ ...turn, events: [] })), []]) {
    try {
      sessionStorage.setItem(STORED, JSON.stringify({ settings, turns: kept }));
      return;
    } catch {
      // Over the browser's quota: without the raw events, and at last without anything.
    }
  }
}

function saveSoon() {
  saving ??= setTimeout(save, SAVE_MS);
}

// -- asking ---------------------------------------------------------------------------------------------------------

function ask(text) {
  const { protocol, model, max_tokens: maxTokens } = Object.fromEntries(new FormData(form));
  talk.turns.push({ role: "user", text });
  const turn = {
    role: "assistant",
    protocol,
    model,
    state: "running",
    why: "",
    id: "",
    answer: emptyAnswer(),
    startedAt: Date.now(),
    firstMs: null,
    lastMs: null,
    count: 0,
    returns: 0,
    seen: 0,
    events: [],
    record: null,
  };
  const turns = talk.turns.map((each) => (each.role === "user" ? each : { role: each.role, text: each.answer.text }));
  const { path, headers, body } = PROTOCOLS[protocol].request({
    model,
    maxTokens: Number(maxTokens),
    // An answer that never came is no part of the conversation.
    turns: turns.filter((each) => each.text !== ""),
  });
  talk.turns.push(turn);
  show(turn);
  return run(turn, {
    url: gateway + path,
    init: { method: "POST", headers: { ...headers, ...PROTOCOLS[protocol].key(secret()) }, body: JSON.stringify(body) },
  });
}

/** Carry `turn` on to its end from where its answer is: by its `first` request, or by coming back to it. */
async function run(turn, first) {
  // A clock that nobody sets, from the start of the turn, which may be before that of the page.
  const began = performance.now() - (Date.now() - turn.startedAt);
  const since = () => Math.round(performance.now() - began);
  const stop = new AbortController();
  running = { turn, stop };
  const now = (state, why) => {
    Object.assign(turn, { state, why });
    status.textContent = [BADGES[state][0], why].filter(Boolean).join(": ");
    saveSoon();
    drawSoon();
  };
  draw();
  const { end, why } = await callSteadily({
    first,
    why: turn.why,
    rest: () => restOf(turn),
    released: () => isReleased(turn, stop.signal),
    protocol: PROTOCOLS[turn.protocol],
    answer: turn.answer,
    signal: stop.signal,
    wait: (ms) => pause(ms, stop.signal),
    named: ({ id }) => {
      turn.id = id;
      saveSoon();
      drawSoon();
    },
    event: (event) => {
      note(turn, event, since());
      saveSoon();
      drawSoon();
    },
    pausing: ({ why, ms, tried }) => {
      now("waiting", `${why} Coming back to the answer in ${ms / 1000} s (try ${tried} of ${PAUSES_MS.length}).`);
    },
    back: () => {
      note(turn, { mark: `came back behind event ${turn.count}` }, since());
      turn.returns += 1;
      now("running", "");
    },
  });
  if (leaving && BROKEN.has(end)) await pause(LEAVE_MS, stop.signal);
  turn.lastMs = since();
  turn.state = end;
  turn.why = why;
  running = null;
  save();
  draw();
  status.textContent = [BADGES[end][0], turn.why].filter(Boolean).join(": ");
  settle(turn);
}

function note(turn, event, ms) {
  if (event.data !== undefined) {
    turn.firstMs ??= ms;
    turn.count += 1;
  }
  turn.seen += 1;
  turn.events.push({ n: turn.seen, ms, ...event });
  if (turn.events.length > EVENTS_MAX) turn.events.splice(0, turn.events.length - EVENTS_MAX);
}

/** The request for the events of an answer that have not come yet; null while nobody knows what it is called. */
function restOf({ id, count }) {
  return id ? { url: `${recordOf(id)}/events?after=${count}`, init: { headers: bearer() } } : null;
}

async function isReleased({ id }, signal) {
  let state = "";
  const tell = (record) => (state = record.state);
  const once = AbortSignal.any([signal, AbortSignal.timeout(LEAVE_MS)]);
  await followSettlement({ url: recordOf(id), headers: bearer(), signal: once, tell, wait: (ms) => pause(ms, once) });
  return state === "released";
}

function recordOf(id) {
  return `${gateway}/v1/requests/${encodeURIComponent(id)}`;
}

function bearer() {
  return { authorization: `Bearer ${secret()}` };
}

/** Resolves after `ms`, or as soon as `signal` aborts or this browser is on the network again. */
function pause(ms, signal) {
  return new Promise((resolve) => {
    const over = new AbortController();
    const done = () => {
      clearTimeout(timer);
      over.abort();
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", done, { signal: over.signal });
    addEventListener("online", done, { signal: over.signal });
  });
}

/** Ask what it cost until that is known; a stream whose client left goes on until its provider ends it. */
async function settle(turn) {
  if (!turn.id || turn.state === "refused" || !talk.turns.includes(turn)) return;
  const view = viewOf(turn);
  view.follow?.abort();
  view.follow = new AbortController();
  await followSettlement({
    url: recordOf(turn.id),
    headers: bearer(),
    signal: view.follow.signal,
    wait: (ms) => pause(ms, view.follow.signal),
    tell: (record) => {
      turn.record = record;
      saveSoon();
      drawSoon();
    },
  });
}

/** What a reload has cut goes on from the events that came; what was not settled yet is asked for. */
function resume() {
  for (const turn of talk.turns.filter((each) => each.role === "assistant")) {
    if (GOES_ON.has(turn.state)) goOn(turn);
    else if (turn.record === null || turn.record.state === "running") settle(turn);
  }
}

function goOn(turn) {
  turn.why = "The page was loaded again.";
  if (turn.id) {
    run(turn);
    return;
  }
  turn.state = "interrupted";
  turn.why += " The answer had not begun, so it is not known how to come back to it.";
}

function secret() {
  return form.elements.key.value.trim();
}

// -- drawing --------------------------------------------------------------------------------------------------------

function drawSoon() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(draw);
}

function draw() {
  drawing = false;
  form.elements.send.disabled = running !== null;
  form.elements.stop.disabled = running === null;
  at("nothing").hidden = talk.turns.length > 0;
  for (const turn of talk.turns) drawTurn(turn, viewOf(turn));
  if (shown !== null) drawEvents();
}

function viewOf(turn) {
  let view = views.get(turn);
  if (view === undefined) {
    const node = at(turn.role === "user" ? "user-turn" : "answer-turn").content.firstElementChild.cloneNode(true);
    const part = (name) => node.querySelector(`.${name}`);
    view = { node, part, said: part("said"), thought: part("thought") };
    part("show-events")?.addEventListener("click", () => show(turn));
    list.append(node);
    views.set(turn, view);
    node.scrollIntoView({ block: "nearest" });
  }
  return view;
}

function drawTurn(turn, { part, said, thought }) {
  if (turn.role === "user") {
    said.textContent = turn.text;
    return;
  }
  grow(said, turn.answer.text);
  grow(thought, turn.answer.thought);
  const [word, tone] = BADGES[turn.state];
  part("state").textContent = word;
  part("state").className = `badge state ${tone}`;
  part("why").textContent = turn.why;
  part("via").textContent = `${PROTOCOLS[turn.protocol].name} · ${turn.model}`;
  part("timing").textContent = timing(turn);
  const link = part("request");
  link.textContent = turn.id;
  link.href = records + encodeURIComponent(turn.id);
  part("cost").textContent = cost(turn);
}

/** Text only ever grows at its end: what is there is left alone, so that a selection survives. */
function grow(node, text) {
  const have = node.textContent;
  if (text.startsWith(have)) node.append(text.slice(have.length));
  else node.textContent = text;
  node.normalize();
}

function timing({ firstMs, lastMs, count, returns }) {
  const words = [];
  if (firstMs !== null) words.push(`first event ${seconds(firstMs)}`);
  if (lastMs !== null) words.push(`${seconds(lastMs)} in all`);
  if (count > 0) words.push(`${count} ${count === 1 ? "event" : "events"}`);
  if (returns > 0) words.push(`came back ${returns} ${returns === 1 ? "time" : "times"}`);
  return words.join(", ");
}

function cost({ record, id, state }) {
  if (state === "refused") return "nothing charged";
  if (record === null) return id && !GOES_ON.has(state) ? "cost not known yet" : "";
  if (record.state === "running") return `running, ${record.hold} ${record.currency} held`;
  const charge = record.charge === null ? "nothing" : `${record.charge} ${record.currency}`;
  const why = record.reason ? ` (${record.reason})` : "";
  const usage = record.usage;
  const tokens = usage ? `, ${usage.input_tokens} tokens in, ${usage.output_tokens} out` : "";
  return record.state === "captured" ? `charged ${charge}${tokens}` : `${record.state}${why}, nothing charged`;
}

function seconds(ms) {
  return `${(ms / 1000).toFixed(3)} s`;
}

function show(turn) {
  shown = turn;
  drawn = 0;
  log.replaceChildren();
  draw();
}

function drawEvents() {
  const fresh = shown.events.filter(({ n }) => n > drawn);
  // Whoever scrolled up to read is left there.
  const follows = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
  log.append(...fresh.map(row));
  while (log.childElementCount > EVENTS_MAX) log.firstElementChild.remove();
  if (fresh.length > 0 && follows) log.scrollTop = log.scrollHeight;
  drawn = shown.seen;
  at("events-of").textContent = shown.id;
}

function row(event) {
  const item = document.createElement("li");
  item.append(element("time", "", `+${(event.ms / 1000).toFixed(3)}`));
  const raw = element("span", "raw", "");
  if (event.comment !== undefined) raw.append(element("span", "comment", `: ${event.comment}`));
  else if (event.mark) raw.append(element("span", "comment", `(${event.mark})`));
  else if (event.blank) raw.append(element("span", "comment", "(blank line)"));
  else {
    if (event.event !== "message") raw.append(element("span", "name", `${event.event} `));
    raw.append(event.data);
  }
  item.append(raw);
  return item;
}

function element(name, className, text) {
  const node = document.createElement(name);
  node.className = className;
  node.textContent = text;
  return node;
}

// -- the form -------------------------------------------------------------------------------------------------------

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const text = form.elements.text.value.trim();
  if (running !== null || text === "") return;
  form.elements.text.value = "";
  status.textContent = "streaming";
  ask(text);
});

form.elements.text.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
});

form.elements.stop.addEventListener("click", () => running?.stop.abort());

form.elements.clear.addEventListener("click", () => {
  running?.stop.abort();
  for (const { node, follow } of views.values()) {
    follow?.abort();
    node.remove();
  }
  talk.turns.length = 0;
  views.clear();
  shown = null;
  log.replaceChildren();
  at("events-of").textContent = "";
  status.textContent = "";
  save();
  draw();
});

form.addEventListener("change", saveSoon);

// A browser breaks the calls of a page that it leaves, before the page is told: that is no end of the answer.
addEventListener("beforeunload", () => {
  leaving = true;
  setTimeout(() => (leaving = false), LEAVE_MS);
});
addEventListener("pagehide", save);
addEventListener("pageshow", ({ persisted }) => persisted && location.reload());

for (const [name, value] of Object.entries(talk.settings)) {
  if (form.elements[name]) form.elements[name].value = value;
}
shown = talk.turns.findLast((turn) => turn.role === "assistant") ?? null;
draw();
resume();
drawSoon();
at("no-scripts").remove();
