"""How values read on a page: amounts, times, spans of time, the tone of a state. Pure; the filters of the templates.

Amounts are exact decimal strings, times UTC: what a page says can be found in a log or a statement.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from hoptrio.ledger.report import iso_ms
from hoptrio.money import format_nanos

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["FILTERS", "UNKNOWN", "failure_words", "since", "span", "tone"]

#: What stands where nothing is known: a dash.
UNKNOWN = "\N{EN DASH}"
_REASONS = {
    "no_evidence": "no usage at the end",
    "not_dispatched": "not dispatched",
    "provider_error": "the provider's error",
    "header_timeout": "no response head in time",
    "truncated": "broken off by the provider",
    "stalled": "stalled",
    "deadline": "deadline passed",
    "internal": "failure of the gateway",
    "event_too_large": "event too large",
    "unconvertible": "could not be converted",
    "shutdown": "gateway stopped",
    "orphaned": "gateway died",
    "operator": "released by hand",
}
_TONES = {
    "captured": "good",
    "refused": "warn",
    "released": "bad",
    "open": "",
    "good": "good",
    "certified": "good",
    "doubted": "warn",
    "due": "warn",
    "tried": "warn",
    "paused": "warn",
    "expired": "bad",
    "cooling": "bad",
    "uncertified": "bad",
    "revoked": "bad",
    "disabled": "bad",
}


def amount(nanos: int | None) -> str:
    """An exact decimal string; what is not known is a dash."""
    return UNKNOWN if nanos is None else format_nanos(nanos)


def when(at_ms: int) -> str:
    """``2026-11-30 10:00:00``, in UTC."""
    return datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def moment(at: str) -> str:
    """An RFC 3339 time in UTC, as `when` has it."""
    return at[:19].replace("T", " ")


def span(seconds: float | None) -> str:
    """A span of time in the two largest units that matter: ``340 ms``, ``4.1 s``, ``2 min 5 s``, ``3 h 20 min``."""
    if seconds is None:
        return UNKNOWN
    if seconds < 1 and not isinstance(seconds, int):
        return f"{round(seconds * 1000)} ms"
    if seconds < 60:
        return f"{seconds} s" if isinstance(seconds, int) else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{hours // 24} days"


def since(at_ms: int, now_ms: int) -> str:
    """How long ago, in words."""
    return f"{span(max(0, now_ms - at_ms) / 1000)} ago"


def failure_words(reason: str | None) -> str:
    """A reason for people; one that is not known stands as it is."""
    return "" if reason is None else _REASONS.get(reason, reason.replace("_", " "))


def tone(state: str) -> str:
    """The class of a badge: good, warn, bad, or "" for what is neither."""
    return _TONES.get(state, "")


def count(number: float) -> str:
    """Thousands apart: ``12,345``; a rate keeps a decimal while it is small and has one."""
    return f"{number:,.0f}" if number >= 100 or number == int(number) else f"{number:.1f}"


def many(number: int, one: str, several: str) -> str:
    """A count with its noun."""
    return f"{count(number)} {one if number == 1 else several}"


FILTERS: Mapping[str, Callable[..., Any]] = {
    "amount": amount,
    "when": when,
    "moment": moment,
    "iso": iso_ms,
    "span": span,
    "since": since,
    "failure": failure_words,
    "tone": tone,
    "count": count,
    "many": many,
}
