// Keeps a page current: takes the part of it that the server sends again whenever it changed, and changes no more of the
// document than has changed, so that focus, selection and the place of a reader stay.

const part = document.getElementById("live");
const state = document.getElementById("live-state");

if (part?.dataset.live) follow(part.dataset.live);

function follow(url) {
  const source = new EventSource(url);
  source.addEventListener("open", () => say("on", "live"));
  source.addEventListener("message", ({ data }) => {
    const next = document.createElement("template");
    next.innerHTML = data;
    morph(part, next.content);
  });
  source.addEventListener("error", () => {
    const over = source.readyState === EventSource.CLOSED;
    say("off", over ? "no longer live; reload the page" : "connection lost; trying again");
  });
  source.addEventListener("over", () => {
    source.close();
    say("", "settled; this is final");
  });
  // A page that is left, or kept for the way back, holds no connection.
  addEventListener("pagehide", () => source.close());
  addEventListener("pageshow", ({ persisted }) => persisted && location.reload());
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
