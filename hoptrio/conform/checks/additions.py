"""Additions: what a client got that the provider never sent. Pure."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from hoptrio.conform.checks.endings import complete
from hoptrio.conform.checks.events import (
    answered,
    data_of,
    is_error,
    is_terminal,
    kind_of,
    member,
    sent,
    words_of,
)
from hoptrio.conform.checks.relaying import WRITTEN_ANEW
from hoptrio.conform.verdict import Finding, Verdict, departs, differs
from hoptrio.conform.wire import read
from hoptrio.protocols.events import Protocol

if TYPE_CHECKING:
    from hoptrio.conform.case import Check, Trial

__all__ = [
    "kept_alive",
    "no_forged_events",
    "no_interim",
    "no_noise",
    "no_smuggled_event",
    "nothing_invented",
    "usage_chunk_is_bare",
    "usage_withheld",
]

#: Of a silence that nothing interrupted.
_WHOLE = 0.85
#: Of a silence, when all that came before it has arrived.
_BEGUN = 0.3


def no_noise(trial: Trial) -> Finding | None:
    """No comment of the provider reached the client, least of all as data."""
    theirs = {comment for asked in trial.asked for comment in read([(0.0, each) for each in asked.sent]).comments}
    if any(event.data in theirs for event in trial.wire.events):
        return departs("a comment of the provider became data")
    if theirs & set(trial.wire.reading.comments):
        words = "comments of the provider were passed on"
        return departs(words + ", which Google's SDKs fail on") if trial.protocol is Protocol.GEMINI else differs(words)
    return None


def no_forged_events(trial: Trial) -> Finding | None:
    """While the provider was silent, behind its first piece, nothing came that a client takes for the model's."""
    wire = trial.wire
    if trial.protocol is Protocol.GEMINI and wire.reading.comments:
        return departs("comments were written, which Google's SDKs fail on")
    if not wire.events:
        return departs(answered(wire))
    begun_s, idle_s = wire.events[0].at_s, trial.settings.idle_s
    added = [event for event in wire.events if begun_s + idle_s * _BEGUN < event.at_s < begun_s + idle_s * _WHOLE]
    if not added:
        return None
    if trial.protocol is Protocol.MESSAGES and all(kind_of(event) == "ping" for event in added):
        return differs("pings that the provider never sent keep the stream alive")
    return departs("events in the model's name keep the stream alive")


def nothing_invented(trial: Trial) -> Finding | None:
    """Nothing but the failure itself was added to what the provider said."""
    theirs = data_of(sent(trial))
    added = [event for event in trial.wire.events if event.data not in theirs and not is_error(trial.protocol, event)]
    if words_of(trial.protocol, added) or any(is_terminal(trial.protocol, event) for event in added):
        return departs("output was invented")
    return Finding(Verdict.PASS, WRITTEN_ANEW) if added else None


def kept_alive(silence_s: float) -> Check:
    """Something was written in every interval of a silence of the provider, which lasts `silence_s`."""

    def check(trial: Trial) -> Finding | None:
        wire, settings = trial.wire, trial.settings
        if wire.status != 200:
            return departs(answered(wire))
        gap_s = max((later - at for at, later in pairwise([0.0, *(at for at, _ in wire.pieces)])), default=0.0)
        if gap_s <= settings.kept_s:
            return None
        if gap_s >= silence_s * _WHOLE:
            return differs(f"nothing was written in {gap_s:.0f} s of silence: it keeps no stream alive here")
        return departs(f"{gap_s:.0f} s passed without a byte, and the interval is {settings.keepalive_s:g} s")

    return check


def no_interim(trial: Trial) -> Finding | None:
    """Keep-alives are body bytes: proxies do not count a 1xx as life."""
    return departs(f"an interim {trial.wire.interim[0]} was sent") if trial.wire.interim else None


def no_smuggled_event(trial: Trial) -> Finding | None:
    """No line of the stream was begun by a string of the provider."""
    names = {event.name for event in trial.wire.events} | {event.data for event in trial.wire.events}
    return departs("a string of the provider forged an event") if {b"forged", b"{}"} & names else None


def usage_chunk_is_bare(trial: Trial) -> Finding | None:
    """Chat: the usage comes in a chunk whose choices are empty."""
    chunks = [event for event in trial.wire.events if member(event, "usage")]
    if not chunks:
        return departs("the usage that was asked for did not come")
    return departs("the usage stands on a chunk with choices") if member(chunks[-1], "choices") else None


def usage_withheld(trial: Trial) -> Finding | None:
    """Chat: no usage for a client that did not ask; or a clear refusal, before the provider is asked."""
    if trial.wire.status == 400 and not trial.asked:
        return None
    if any(member(event, "usage") for event in trial.wire.events):
        return departs("usage that the client did not ask for was sent to it")
    return complete(trial)
