"""Parsing: however the provider's bytes are cut and spelled, the events are the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoptrio.conform.case import FREE, Case, Play
from hoptrio.conform.cases.scripts import PAID, PLAIN, exact, pieces, single, with_line_ends
from hoptrio.conform.checks import endings, relaying
from hoptrio.protocols.events import Protocol

if TYPE_CHECKING:
    from hoptrio.conform.settings import Settings

__all__ = ["PARSING"]

#: Between two writes that are to be two reads.
_APART_S = 0.003
_TEXT = "你好😀"
_BOM = b"\xef\xbb\xbf"
_WHOLE = (endings.complete, relaying.relayed)


def _split_text(protocol: Protocol, settings: Settings) -> Play:
    parts: list[bytes | float] = []
    for event in pieces(protocol, f"{PLAIN} events=1 text={_TEXT}"):
        at = event.find(_TEXT.encode())
        parts += [event] if at < 0 else _bytewise(event, at, at + len(_TEXT.encode()))
    return Play(exact=exact(parts), checks=_WHOLE, money=PAID)


def _bytewise(event: bytes, begin: int, end: int) -> list[bytes | float]:
    """The event, the bytes between each in a write of its own."""
    singles = [part for at in range(begin, end) for part in (event[at : at + 1], _APART_S)]
    return [event[:begin], _APART_S, *singles, event[end:]]


def _line_ends(protocol: Protocol, settings: Settings) -> tuple[Play, ...]:
    events = pieces(protocol, PLAIN)
    spelled = {"LF": [b"\n"], "CRLF": [b"\r\n"], "CR": [b"\r"], "mixed": [b"\r\n", b"\n", b"\r\n"]}
    return tuple(
        Play(exact=exact([with_line_ends(events, ends)]), checks=_WHOLE, money=PAID, label=label)
        for label, ends in spelled.items()
    )


def _between_cr_and_lf(protocol: Protocol, settings: Settings) -> Play:
    whole = with_line_ends(pieces(protocol, PLAIN), [b"\r\n"])
    parts: list[bytes | float] = []
    for half in whole.replace(b"\r\n", b"\r\0\n").split(b"\0"):
        parts += [half, _APART_S]
    return Play(exact=exact(parts), checks=(relaying.nothing_empty, *_WHOLE), money=PAID)


def _unterminated(protocol: Protocol, settings: Settings) -> tuple[Play, ...]:
    events = pieces(protocol, PLAIN)
    # The finish of a Chat stream stands before its usage and [DONE].
    last = -3 if protocol is Protocol.CHAT else -1
    half = [*events[:last], events[last][: len(events[last]) // 2]]
    return (
        Play(script=f"{PLAIN} wire=unterminated", checks=(relaying.last_event_decided,), label="whole"),
        Play(exact=exact(half), checks=(endings.broken,), money=FREE, label="half"),
    )


def _marked(protocol: Protocol, settings: Settings) -> tuple[Play, ...]:
    events = pieces(protocol, PLAIN)
    halves: list[bytes | float] = [_BOM[:1], _APART_S, _BOM[1:] + events[0], *events[1:]]
    found = (relaying.no_mark, *_WHOLE)
    return (
        Play(script=f"{PLAIN} wire=bom", checks=found, money=PAID, label="whole"),
        Play(exact=exact(halves), checks=found, money=PAID, label="cut"),
    )


PARSING = (
    Case(
        number=80,
        name="characters cut in two",
        fault="Text is decoded piece by piece, and a character across two reads is lost.",
        right="It arrives byte for byte.",
        plays=single(_split_text),
    ),
    Case(
        number=81,
        name="line ends",
        fault="Only one of LF, CRLF and CR is understood.",
        right="Each of them, and all in turn, make the same events.",
        plays=_line_ends,
    ),
    Case(
        number=82,
        name="a cut between CR and LF",
        fault="A read that ends between CR and LF makes a blank line too many.",
        right="No event is empty or torn.",
        plays=single(_between_cr_and_lf),
    ),
    Case(
        number=84,
        name="a last event without its blank line",
        fault="The terminal is lost because the body ends right behind it, or half of one counts.",
        right="A whole one is decided one way or the other, half of one is a failure.",
        plays=_unterminated,
    ),
    Case(
        number=85,
        name="a byte order mark",
        fault="A byte order mark hides the first event.",
        right="It is dropped, cut in two or not.",
        plays=_marked,
    ),
)
