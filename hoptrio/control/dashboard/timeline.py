"""A request's timeline as a drawing: three lanes over one axis of time. Pure.

    Hold      from the hold to its settlement
    Provider  waiting for the head and the first event, then the answer with its gaps
    Client    from the first byte it was sent to its end, with the keep-alives; and when it left

What the drawing shows is said again as rows (`Drawn.rows`), exactly, for those who do not see it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hoptrio.control.dashboard.plot import nice_step
from hoptrio.control.dashboard.words import failure_words, span

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["LEFT", "Bar", "Drawn", "Mark", "Row", "Tick", "draw"]

#: Lanes begin right of their names, and end so far from the edge that the last tick's label has room.
LEFT, MARGIN = 70, 24
#: The width that a tick's label needs.
TICK_WIDTH = 90

_WORDS = {
    "held": ("Hold placed", ""),
    "dispatched": ("Request sent to the provider", ""),
    "headers": ("Response head", ""),
    "first_event": ("First event", "good"),
    "body": ("Whole answer", "good"),
    "keepalive": ("Keep-alive sent", ""),
    "terminal": ("Terminal event", "good"),
    "provider_error": ("The provider's error", "bad"),
    "client_gone": ("Client gone; the provider is read on", "warn"),
    "client_gone_before_first_byte": ("Client gone before the first byte", "warn"),
    "ended": ("Provider's side over", ""),
    "captured": ("Settled: charged", "good"),
    "released": ("Settled: hold released", "bad"),
}
_LANES = {
    "held": "hold",
    "captured": "hold",
    "released": "hold",
    "keepalive": "client",
    "client_gone": "client",
    "client_gone_before_first_byte": "client",
}


class Bar(NamedTuple):
    """A span of time in a lane; `kind` is its class."""

    lane: str
    kind: str
    x: float
    width: float
    title: str


class Mark(NamedTuple):
    """A moment in a lane."""

    lane: str
    tone: str
    x: float
    title: str


class Tick(NamedTuple):
    """A moment of the axis."""

    x: float
    label: str


class Row(NamedTuple):
    """An event in words."""

    at_ms: int
    words: str
    tone: str


class Drawn(NamedTuple):
    """The whole drawing."""

    width: int
    left: int
    right: int
    bars: list[Bar]
    marks: list[Mark]
    ticks: list[Tick]
    rows: list[Row]


def draw(
    timeline: Sequence[tuple[int, str]],
    *,
    width: int = 1000,
    settled: tuple[int, str] | None = None,
    running_ms: int | None = None,
) -> Drawn:
    """Draw ((ms since the request came, event), ...), `width` units wide.

    `settled` is when the hold was resolved, and how ("captured" or "released"); `running_ms` the age of a request that
    goes on.
    """
    events = sorted([*timeline, *([] if settled is None else [settled])], key=_order)
    right = width - MARGIN
    last = max([1, running_ms or 0, *(at_ms for at_ms, _ in events)])
    scale = (right - LEFT) / last
    bars = [
        Bar(lane, kind, LEFT + start * scale, max(1.0, (end - start) * scale), f"{words}: {span((end - start) / 1000)}")
        for lane, kind, start, end, words in _spans(events, last)
    ]
    marks, rows = [], []
    for at_ms, event in events:
        words, tone = _said(event)
        rows.append(Row(at_ms, words, tone))
        if not event.startswith("gap ") and event != "ended":
            lane = _LANES.get(event, "provider")
            marks.append(Mark(lane, tone, LEFT + at_ms * scale, f"{words}: {span(at_ms / 1000)}"))
    step = nice_step(last * TICK_WIDTH / (right - LEFT))
    ticks = [Tick(LEFT + i * step * scale, span(i * step / 1000)) for i in range(int(last / step) + 1)]
    return Drawn(width, LEFT, right, bars, marks, ticks, rows)


def _order(event: tuple[int, str]) -> tuple[int, int]:
    """By time; what came in one read stands in the order in which it came about."""
    known = list(_WORDS)
    return event[0], known.index(event[1]) if event[1] in _WORDS else 0


def _said(event: str) -> tuple[str, str]:
    """What an event is called, and its tone. Two carry more: ``attempt_failed REASON CHANNEL``, ``gap MS``."""
    name, _, rest = event.partition(" ")
    if name == "attempt_failed":
        reason, _, channel = rest.partition(" ")
        return f"Attempt failed: {failure_words(reason)}" + (f" ({channel})" if channel else ""), "bad"
    if name == "gap":
        return f"Event after {span(int(rest) / 1000)} of silence", "warn"
    return _WORDS.get(name, (event, ""))


def _spans(events: Sequence[tuple[int, str]], last: int) -> list[tuple[str, str, int, int, str]]:
    """(lane, kind, from, to, words) of every bar."""
    at: dict[str, int] = {}
    for at_ms, event in events:
        # Of several attempts the last one counts, but the hold began once.
        if event.startswith("attempt_failed"):
            for name in ("headers", "first_event"):
                at.pop(name, None)
        elif event != "keepalive" or "keepalive" not in at:
            at[event] = at_ms
    spans = []
    over = at.get("captured", at.get("released", last))
    if "held" in at:
        spans.append(("hold", "", at["held"], over, "Held"))
    answer = at.get("first_event", at.get("body"))
    read = at.get("ended", last)
    if "dispatched" in at:
        sent = min(at_ms for at_ms, event in events if event == "dispatched")
        spans.append(("provider", "", sent, read if answer is None else answer, "Waiting for the provider"))
    if answer is not None:
        spans.append(("provider", "answer", answer, read, "Answer"))
    for at_ms, event in events:
        if event.startswith("gap "):
            spans.append(("provider", "gap", at_ms - int(event[4:]), at_ms, "Silence"))
    told = min((at[name] for name in ("first_event", "body", "keepalive") if name in at), default=None)
    if told is not None and "client_gone_before_first_byte" not in at:
        spans.append(("client", "answer", told, at.get("client_gone", over), "Client served"))
    return spans
