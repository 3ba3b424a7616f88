"""A part that is taken over makes the document equal to it, and keeps the nodes that were there already."""

from __future__ import annotations

MORPH = """async () => {
  const { morph } = await import("/static/live.mjs");
  let seed = 7;
  const random = (below) => (seed = (seed * 1103515245 + 12345) % 2147483648) % below;
  const rows = () => {
    const keys = [..."abcdefgh"].filter(() => random(2)).sort(() => random(3) - 1);
    const row = (key) => `<tr data-key="${key}"><td class="${"xyz"[random(3)]}">${random(9)}</td></tr>`;
    const tail = random(2) ? `<tr><td>unkeyed ${random(9)}</td></tr>` : "";
    const rest = random(2) ? "text" : "";
    return `<h2>${random(3)}</h2><table><tbody>${keys.map(row).join("")}${tail}</tbody></table>${rest}`;
  };
  const node = document.createElement("div");
  for (let turn = 0; turn < 300; turn += 1) {
    const kept = new Map([...node.querySelectorAll("[data-key]")].map((each) => [each.dataset.key, each]));
    const wanted = rows();
    const next = document.createElement("template");
    next.innerHTML = wanted;
    morph(node, next.content);
    if (node.innerHTML !== new DOMParser().parseFromString(wanted, "text/html").body.innerHTML) return `turn ${turn}`;
    for (const each of node.querySelectorAll("[data-key]")) {
      if (kept.has(each.dataset.key) && kept.get(each.dataset.key) !== each) return `another ${each.dataset.key}`;
    }
  }
  node.innerHTML = "<details open><summary>x</summary></details>";
  const closed = document.createElement("template");
  closed.innerHTML = "<details><summary>y</summary></details>";
  morph(node, closed.content);
  return node.innerHTML;
}"""


def test_the_document_becomes_what_was_sent_and_keyed_rows_stay_themselves(operator):
    assert operator.open("/accounts").evaluate(MORPH) == '<details open=""><summary>y</summary></details>'
