"""Stalls and the deadline: a model that hangs is noticed, whatever else is sent; a healthy one is left alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoptrio.conform.case import FREE, Case, Play
from hoptrio.conform.cases.scripts import PLAIN, exact, pieces, single
from hoptrio.conform.checks import endings
from hoptrio.protocols.events import Protocol

if TYPE_CHECKING:
    from hoptrio.conform.settings import Settings

__all__ = ["STALLS"]

_EVERY_S = 5.0
#: Beyond the deadline, until it is clear that there is none.
_OVER_S = 40.0
_EMPTY = {
    Protocol.CHAT: b'data: {"id":"chatcmpl-sim-1","object":"chat.completion.chunk","created":1,"model":"conform",'
    b'"choices":[{"index":0,"delta":{"content":""},"finish_reason":null}]}\n\n',
    Protocol.MESSAGES: b'event: ping\ndata: {"type":"ping"}\n\n',
    Protocol.GEMINI: b'data: {"modelVersion":"conform","responseId":"sim-1"}\n\n',
}


def _stalled(script: str, settings: Settings) -> Play:
    return Play(script=f"{PLAIN} {script}", checks=(endings.stalled,), money=FREE, seconds=settings.stalled_s)


def _silent(protocol: Protocol, settings: Settings) -> Play:
    return _stalled("fail=silence@2", settings)


def _commented(protocol: Protocol, settings: Settings) -> Play:
    return _stalled("fail=comments@2 every=1s", settings)


def _repeated(protocol: Protocol, settings: Settings) -> Play:
    begun = pieces(protocol, "events=2 pace=0 fail=end@2")
    quiet = begun[1] if protocol is Protocol.RESPONSES else _EMPTY[protocol]
    # It goes on for longer than anybody should watch.
    noise = [step for _ in range(int(settings.stalled_s / _EVERY_S) + 4) for step in (_EVERY_S, quiet)]
    return Play(
        exact=exact([*begun, *noise]),
        checks=(endings.stalled,),
        money=FREE,
        seconds=settings.stalled_s,
    )


def _steady(protocol: Protocol, settings: Settings) -> Play:
    count = int((settings.deadline_s + _OVER_S) / _EVERY_S)
    return Play(
        script=f"{PLAIN} events={count} pace={_EVERY_S}s",
        checks=(endings.deadline_kept,),
        seconds=settings.deadline_s + _OVER_S,
    )


def _dead(protocol: Protocol, settings: Settings) -> Play:
    return Play(
        script=f"{PLAIN} fail=cut@2", checks=(endings.broken, endings.ended_within(endings.CLOSE_S)), money=FREE
    )


STALLS = (
    Case(
        number=5,
        name="a silent provider",
        fault="A provider that falls silent leaves the client before an open socket for ever.",
        right="The stream fails once the model made no progress for the stall limit.",
        plays=single(_silent),
    ),
    Case(
        number=14,
        name="comments that mask a stall",
        fault="Any byte of the provider counts as life, so that its heartbeats hide a dead model.",
        right="Comments are no progress.",
        plays=single(_commented),
    ),
    Case(
        number=15,
        name="events that mask a stall",
        fault="Repeated status events, pings and empty deltas count as progress.",
        right="Only what moves the answer is progress.",
        plays=single(_repeated),
    ),
    Case(
        number=17,
        name="an error, and an open stream",
        fault="The failure is told, and the connection stays open.",
        right="What has failed ends at once.",
        plays=single(_dead),
    ),
    Case(
        number=18,
        name="a steady long stream",
        fault="A limit on the whole time cuts streams that are healthy, or there is none at all.",
        right="A steady stream goes on until the deadline, and then fails visibly.",
        plays=single(_steady),
    ),
)
