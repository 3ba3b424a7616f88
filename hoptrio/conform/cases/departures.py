"""Departures: clients that leave, or do not read: what the provider produced is read, counted and paid once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoptrio.conform.case import FREE, Case, Play
from hoptrio.conform.cases.scripts import PAID, PLAIN, always, single
from hoptrio.conform.checks import endings, provider
from hoptrio.conform.client import Manner
from hoptrio.protocols.events import Protocol

if TYPE_CHECKING:
    from hoptrio.conform.settings import Settings

__all__ = ["DEPARTURES"]

#: Moments around the last event of a stream whose last piece comes 100 ms after its first.
_MOMENTS_MS = (85, 95, 98, 100, 102, 104, 107, 112, 120, 140)
_LEAVES = Manner(leave_after_events=4)


def _at_the_end(protocol: Protocol, settings: Settings) -> tuple[Play, ...]:
    return tuple(
        Play(
            script=f"{PLAIN} events=2 pace=100ms",
            manner=Manner(leave_after_head_s=moment / 1000),
            checks=(),
            money=PAID,
            label=f"after {moment} ms",
        )
        for moment in _MOMENTS_MS
    )


def _retried(protocol: Protocol, settings: Settings) -> tuple[Play, ...]:
    return (
        Play(script=f"{PLAIN} fail=end@2", checks=(endings.broken,), money=FREE, label="without its terminal"),
        Play(script=PLAIN, checks=(endings.complete,), money=PAID, label="again"),
    )


def _never_reads(protocol: Protocol, settings: Settings) -> Play:
    return Play(
        script=f"{PLAIN} events=800 size=65536 pace=0",
        manner=Manner(stop_after_bytes=1024),
        checks=(provider.drained_unread,),
        money=PAID,
        seconds=90.0,
    )


DEPARTURES = (
    Case(
        number=44,
        name="leaving with the last byte",
        fault="A client that closes in the moment of the last event is charged nothing, or twice.",
        right="The charge is the same whenever it leaves.",
        protocols=(Protocol.CHAT,),
        plays=_at_the_end,
    ),
    Case(
        number=45,
        name="leaving in the midst",
        fault="A client that leaves gets all of its money back, while the provider goes on and is paid.",
        right="The provider is read to its end, and what it reports is charged.",
        plays=always(
            Play(script=f"{PLAIN} events=12 pace=300ms", manner=_LEAVES, checks=(provider.drained,), money=PAID)
        ),
    ),
    Case(
        number=47,
        name="a charge for half an answer",
        fault="A response without its terminal is charged, and the retry is charged again.",
        right="Only the complete one is paid.",
        protocols=(Protocol.RESPONSES,),
        plays=_retried,
    ),
    Case(
        number=48,
        name="leaving before the first byte",
        fault="Nobody knows whether a client that hangs up before the answer is charged.",
        right="As at any other moment: the provider is read to its end.",
        plays=always(
            Play(
                script=f"{PLAIN} head_delay=4s",
                manner=Manner(leave_once_asked=True),
                checks=(provider.drained,),
                seconds=7.0,
            )
        ),
    ),
    Case(
        number=94,
        name="a client that never reads",
        fault="A client that stays and reads nothing pins the provider's stream, or memory without end.",
        right="The client is dropped, and the provider is read to its end: 50 MB here.",
        protocols=(Protocol.CHAT,),
        plays=single(_never_reads),
    ),
)
