"""The gateway that the SDKs are run against: `hoptrio serve` in front of the simulated provider, default contract.

``HOPTRIO_SDK_BASE_URL`` names another one that runs already, with ``HOPTRIO_SDK_KEY`` and ``HOPTRIO_SDK_POOR_KEY``.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.support.deployment import Deployment, config_for, served
from tests.support.node import install_sdks
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
    #: Prompts, by what happens in the stream: "error", "failed" (Responses), "cut", "keepalive".
    prompts: dict[str, str]
    #: A key that may make one request a minute; "" = there is none.
    limited: str = ""

    def refusal(self, status: int) -> Refusal:
        return self.refusals[status]


def describe(base_url: str, key: str, poor: str, limited: str = "") -> Gateway:
    """A gateway in front of the simulated provider that keeps alive after 100 ms; `poor` is a key without a balance."""
    model = "sim-small"
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
            "keepalive": "sim: text=abcdef events=6 pace=250ms",
        },
        limited=limited,
    )


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """The gateway under test."""
    given = os.environ.get("HOPTRIO_SDK_BASE_URL")
    if given:
        key, poor = os.environ.get("HOPTRIO_SDK_KEY", "sk-hoptrio-demo"), os.environ.get("HOPTRIO_SDK_POOR_KEY", "")
        yield describe(given, key, poor)
        return
    with simulator() as provider:
        config = config_for(provider)
        config["contracts"]["test"]["keepalive_seconds"] = 0.1
        config["models"] |= {
            "sim-embedding": {"input": "0.02", "max_input_tokens": 8_192},
            "sim-image": {"input": "0", "image": "0.04", "max_input_tokens": 4_000},
        }
        config["models"]["sim-elsewhere"] = config["models"]["sim-small"]
        config["channels"]["simulated"]["models"] += ["sim-embedding", "sim-image"]
        config["channels"]["elsewhere"] = {
            **config["channels"]["simulated"],
            "protocols": ["chat"],
            "models": ["sim-elsewhere"],
        }
        deployment = Deployment(tmp_path_factory.mktemp("gateway"), config)
        key, poor = deployment.add_account("rich"), deployment.add_account("poor", "0")
        limited = deployment.books("key", "create", "--account", "rich", "--rpm", "1")["secret"]
        with served(deployment) as server:
            yield describe(server.url, key, poor, limited)


@pytest.fixture(scope="session")
def packages() -> None:
    """The pinned SDKs of Node."""
    install_sdks()
