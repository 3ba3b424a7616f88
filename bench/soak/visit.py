"""Visit: one client's call, drawn by a seed: what it asks of the provider, and how it behaves. Pure.

The mixture is what a gateway meets in an hour: answers of every length and protocol, on their own channel or converted,
clients that leave, come back, ask twice or read slowly, and a provider that fails in every way it can.
"""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING

import msgspec

from bench.asked import Asked
from bench.dialogs import DIALOGS
from bench.scenario import CONVERSIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["KINDS", "MODEL", "Visit", "visits"]

#: How often each kind comes, in percent.
KINDS = {
    "paced": 26,
    "short": 20,
    "kept": 8,
    "plain": 10,
    "leaving": 8,
    "failing": 8,
    "returning": 6,
    "websocket": 5,
    "big": 3,
    "slow": 3,
    "retrying": 2,
    "refused": 1,
}
#: Behind it the protocol of the channel.
MODEL = "bench-"
#: Of those that may be converted, this share is.
CONVERTED = 0.3
FAILURES = ("status", "cut", "reset", "error", "stall")
_CONVERTIBLE = frozenset({"paced", "short", "kept", "plain", "leaving"})
_LENGTHS = (20, 50, 100)
_SECOND_NS = 10**9
_KIB = 1024


class Visit(msgspec.Struct, frozen=True, kw_only=True):
    """One call. `channel` is the protocol of the provider that answers."""

    number: int
    kind: str
    protocol: str
    channel: str
    asked: Asked
    #: Events after which its client leaves, whether or not it comes back; 0 = it stays.
    leaves_after: int = 0
    #: It comes back, or asks again, so much later.
    returns_s: float = 0.0
    #: What it takes in a second; 0 = all it gets.
    reading_bytes_s: int = 0

    @property
    def lasts_s(self) -> float:
        """How long the provider takes, if it is let."""
        return self.asked.pace_ns * self.asked.events / _SECOND_NS

    @property
    def streams(self) -> bool:
        """It asks for a stream."""
        return self.kind != "plain"


def visits(seed: int, run: int, *, longest_s: float = 60.0) -> Iterator[Visit]:
    """Without end; no answer is meant to take longer than `longest_s`."""
    draw = random.Random(seed)
    for number in itertools.count():
        yield _visit(draw, number, run, longest_s)


def _visit(draw: random.Random, number: int, run: int, longest_s: float) -> Visit:
    (kind,) = draw.choices(list(KINDS), list(KINDS.values()))
    protocol = channel = "responses" if kind == "websocket" else draw.choice(list(DIALOGS))
    if kind in _CONVERTIBLE and draw.random() < CONVERTED:
        channel = draw.choice([to for client, to in CONVERSIONS if client == protocol != to])
    asked = _asked(draw, kind, number, run, longest_s)
    return Visit(
        number=number,
        kind=kind,
        protocol=protocol,
        channel=channel,
        asked=asked,
        leaves_after=draw.randrange(1, asked.events) if kind in ("leaving", "returning", "retrying") else 0,
        returns_s=draw.uniform(0.0, 3.0) if kind in ("returning", "retrying") else 0.0,
        # Responses, with its text five times, takes half a minute of the longest's minute then.
        reading_bytes_s=int(32 * _KIB * 60 / longest_s) if kind == "slow" else 0,
    )


def _asked(draw: random.Random, kind: str, number: int, run: int, longest_s: float) -> Asked:
    variant = draw.randrange(8)
    events, lasts_s, size = _measure(draw, kind, longest_s)
    fails = kind == "failing"
    return Asked(
        run=run,
        number=number,
        events=events,
        pace_ns=int(lasts_s / events * _SECOND_NS),
        size=size,
        input=17 + 13 * variant,
        output=events + 11 * variant,
        fail=draw.choice(FAILURES) if fails else "",
        fail_after=draw.randrange(1, events) if fails else 0,
    )


def _measure(draw: random.Random, kind: str, longest_s: float) -> tuple[int, float, int]:
    """Events, seconds they take, and bytes of an event."""
    match kind:
        case "short" | "kept" | "refused":
            return draw.randrange(1, 4), 0.0, 40
        case "plain":
            return draw.choice((1, 5, 20)), draw.uniform(0.0, longest_s / 12), 40
        case "big":
            # Responses tells the whole text four times more at its end: all of it together stays below the backlog,
            # beyond which a client has left.
            return 2, draw.uniform(0.0, 2.0), draw.choice((64, 256)) * _KIB
        case "slow":
            return 60, min(3.0, longest_s / 4), 4 * _KIB
        case "paced":
            return draw.choice(_LENGTHS), draw.uniform(longest_s / 12, longest_s), 40
        case _:
            return 20, draw.uniform(longest_s / 30, longest_s / 4), 40
