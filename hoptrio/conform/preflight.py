"""Preflight: one plain stream in each protocol before anything is tried, so that a wrong set-up is told as such."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import trio

from hoptrio.conform.case import Play
from hoptrio.conform.cases.scripts import PLAIN
from hoptrio.conform.checks import endings
from hoptrio.conform.client import Unreachable
from hoptrio.conform.wire import Ending, as_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hoptrio.conform.case import Trial
    from hoptrio.conform.run import Runner
    from hoptrio.protocols.events import Protocol

__all__ = ["NotReady", "Ready", "preflight"]

_MESSAGE_CHARS = 300
_NO_SUCH = (400, 404, 405, 501)
_DENIED = (401, 403)


class NotReady(Exception):
    """Nothing can be tried; the message says what is wrong, and what to do about it."""


class Ready(NamedTuple):
    """The protocols that pass a stream, and what was said of the others."""

    served: tuple[Protocol, ...]
    refused: dict[Protocol, str]


async def preflight(runner: Runner, protocols: Sequence[Protocol], upstream: str) -> Ready:
    """Ask for one stream in each of `protocols`; `upstream` is where the provider listens. Raises NotReady."""
    served: list[Protocol] = []
    refused: dict[Protocol, str] = {}
    broken: dict[Protocol, str] = {}
    for protocol, trial in (await _trials(runner, protocols)).items():
        if isinstance(trial, Unreachable):
            raise NotReady(f"{trial}: is the gateway running, and is --url right?")
        if not trial.asked:
            refused[protocol] = _why(trial, upstream)
            continue
        served.append(protocol)
        if found := endings.clean(trial):
            broken[protocol] = f"{found.words}{_message(trial)}"
    if not served:
        raise NotReady(f"no stream reaches the provider at {upstream}: {_listed(refused)}")
    if len(broken) == len(served):
        raise NotReady(f"not even a plain stream passes: {_listed(broken)}")
    return Ready(tuple(served), refused)


async def _trials(runner: Runner, protocols: Sequence[Protocol]) -> dict[Protocol, Trial | Unreachable]:
    """All at once: a gateway that never answers is found out in the time that one takes."""
    trials: dict[Protocol, Trial | Unreachable] = {}

    async def attempt(protocol: Protocol) -> None:
        try:
            trials[protocol] = await runner.attempt(protocol, Play(script=PLAIN, checks=(), seconds=20.0))
        except Unreachable as error:
            trials[protocol] = error

    async with trio.open_nursery() as nursery:
        for protocol in protocols:
            nursery.start_soon(attempt, protocol)
    return {protocol: trials[protocol] for protocol in protocols}


def _listed(reasons: dict[Protocol, str]) -> str:
    return "; ".join(f"{protocol}: {why}" for protocol, why in reasons.items())


def _why(trial: Trial, upstream: str) -> str:
    """Why the provider was not asked. Raises NotReady for what holds for every protocol."""
    status = trial.wire.status
    if status in _DENIED:
        raise NotReady(f"the gateway refused the key with a {status}{_message(trial)}: is --key right?")
    if status in _NO_SUCH:
        return f"answered {status}{_message(trial)}"
    if status == 200:
        return f"answered 200 without asking the provider: its channel has to be http://{upstream}"
    if not status and trial.wire.ending is not Ending.OPEN:
        return "closed the connection without an answer: does it speak HTTP, with or without TLS?"
    if not status:
        return f"gave no answer within {trial.wire.ended_s:.0f} s"
    return f"answered {status}{_message(trial)}: does its channel point to http://{upstream}?"


def _message(trial: Trial) -> str:
    """The gateway's own words, on one line."""
    value = as_json(trial.wire.body)
    error = value.get("error", value.get("detail")) if isinstance(value, dict) else None
    words = error.get("message") if isinstance(error, dict) else error
    return f" ({' '.join(words.split())[:_MESSAGE_CHARS]})" if isinstance(words, str) else ""
