"""The server that the SDKs are run against.

The suite is written for a gateway under the default contract (a failure is an error event and then an abort). By
itself it is run against the simulated provider, which is told to behave as the gateway would. ``HOPTRIO_SDK_BASE_URL``
names a running gateway instead; everything that then differs is in `Gateway`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.support.running import simulator

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Refusal:
    """A request that is refused: with which key, for which model, saying what."""

    key: str
    model: str
    prompt: str


@dataclass(frozen=True)
class Gateway:
    """A server, and what makes it behave in each way the suite tests."""

    base_url: str
    key: str
    model: str
    #: By status: 400, 401, 402, 404, 429.
    refusals: dict[int, Refusal]
    #: Prompts, by what happens: "error" and "cut" in the stream; keep-alives by protocol ("comment" or "blank").
    prompts: dict[str, str]

    def refusal(self, status: int) -> Refusal:
        return self.refusals[status]


def against_simulator(base_url: str) -> Gateway:
    """The simulated provider, told to do what a gateway would make of its failures."""
    key, model = "sk-simulated", "sim-small"
    return Gateway(
        base_url=base_url,
        key=key,
        model=model,
        refusals={status: Refusal(key, model, f"sim: fail=status:{status}") for status in (400, 401, 402, 404, 429)},
        prompts={
            "error": "sim: events=5 pace=1ms fail=error@2 after=cut",
            "failed": "sim: events=5 pace=1ms fail=failed@2 after=cut",
            "cut": "sim: events=5 pace=1ms fail=error@2 after=cut",
            "cut-responses": "sim: events=5 pace=1ms fail=failed@2 after=cut",
            "keepalive": "sim: text=abcdef events=6 pace=1ms between=comment",
            "keepalive-gemini": "sim: text=abcdef events=6 pace=1ms between=blank",
        },
    )


def against_gateway(base_url: str) -> Gateway:
    """A gateway in front of the simulated provider, with a keep-alive far below 100 ms, and a key without balance."""
    key, model = os.environ.get("HOPTRIO_SDK_KEY", "sk-hoptrio-demo"), "sim-small"
    poor = os.environ.get("HOPTRIO_SDK_POOR_KEY", "")
    return Gateway(
        base_url=base_url,
        key=key,
        model=model,
        refusals={
            400: Refusal(key, model, "sim: fail=status:400"),
            401: Refusal("sk-wrong", model, "hello"),
            402: Refusal(poor, model, "hello"),
            404: Refusal(key, "no-such-model", "hello"),
            429: Refusal(key, model, "sim: fail=status:429"),
        },
        prompts={
            "error": "sim: events=5 pace=1ms fail=error@2",
            "failed": "sim: events=5 pace=1ms fail=failed@2",
            "cut": "sim: events=5 pace=1ms fail=cut@2",
            "cut-responses": "sim: events=5 pace=1ms fail=cut@2",
            "keepalive": "sim: text=abcdef events=6 pace=100ms",
            "keepalive-gemini": "sim: text=abcdef events=6 pace=100ms",
        },
    )


@pytest.fixture(scope="session")
def gateway() -> Iterator[Gateway]:
    """The server under test."""
    given = os.environ.get("HOPTRIO_SDK_BASE_URL")
    if given:
        yield against_gateway(given)
        return
    with simulator() as base_url:
        yield against_simulator(base_url)
