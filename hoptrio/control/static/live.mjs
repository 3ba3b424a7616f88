// Keeps a page current: takes the part of it that the server sends again whenever it changed, and changes no more of the
// document than has changed, so that focus, selection and the place of a reader stay.

const part = document.getElementById("live");
const state = document.getElementById("live-state");

let source = null;
let over = false;

if (part?.dataset.live) {
  watch();
  // A browser gives a host few connections, so a page that nobody sees holds none.
  document.addEventListener("visibilitychange", watch);
  addEventListener("pagehide", leave);
  addEventListener("pageshow", watch);
}

function watch() {
  if (document.hidden) leave();
  else if (source === null && !over) follow(part.dataset.live);
}

function leave() {
  source?.close();
  source = null;
}

function follow(url) {
  source = new EventSource(url);
  source.addEventListener("open", () => say("on", "live"));
  source.addEventListener("message", ({ data }) => {
    const next = document.createElement("template");
    next.innerHTML = data;
    morph(part, next.content);
  });
  source.addEventListener("error", ({ target }) => {
    const closed = target.readyState === EventSource.CLOSED;
    say("off", closed ? "no longer live; reload the page" : "connection lost; trying again");
  });
  source.addEventListener("over", () => {
    over = true;
    leave();
    say("", "settled; this is final");
  });
}

function say(value, words) {
  state.dataset.state = value;
  state.firstElementChild.textContent = words;
}

/** Make the children of `node` what those of `next` are. Elements with the same `data-key` are the same. */
export function morph(node, next) {
  const keyed = new Map();
  for (const child of node.children) if (child.dataset.key) keyed.set(child.dataset.key, child);
  let here = node.firstChild;
  for (const wanted of [...next.childNodes]) {
    const key = wanted.dataset?.key;
    const have = key ? keyed.get(key) : here;
    if (!have || !alike(have, wanted)) {
      node.insertBefore(wanted, here);
    } else {
      if (have === here) here = here.nextSibling;
      else node.insertBefore(have, here);
      update(have, wanted);
    }
  }
  while (here) {
    const gone = here;
    here = here.nextSibling;
    gone.remove();
  }
}

function alike(one, other) {
  return one.nodeName === other.nodeName && one.dataset?.key === other.dataset?.key;
}

function update(node, next) {
  if (node.nodeType !== Node.ELEMENT_NODE) {
    if (node.nodeValue !== next.nodeValue) node.nodeValue = next.nodeValue;
    return;
  }
  for (const { name, value } of next.attributes) if (node.getAttribute(name) !== value) node.setAttribute(name, value);
  for (const { name } of [...node.attributes]) {
    // What a person has opened stays open.
    if (!next.hasAttribute(name) && !(name === "open" && node.nodeName === "DETAILS")) node.removeAttribute(name);
  }
  morph(node, next);
}
