"""Turns: an agent reads a file with a tool of its own, through a real gateway, and tells what was in it.

The simulated model calls the tool and then quotes its result, so that the words of the file, which stand nowhere else,
reach the agent's output only if call and result went the whole way. All counts are the script's, and so is the charge.
"""

from __future__ import annotations

import re
import secrets
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from hoptrio.protocols.convert import possible
from hoptrio.protocols.events import Protocol
from tests.clients.agents import AGENTS, NOTE
from tests.clients.packages import MODULES
from tests.support.deployment import Deployment, as_records, config_for, served
from tests.support.guides import Place, files_of
from tests.support.running import simulator

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.clients.agents import Agent
    from tests.clients.outside import Outside

__all__ = ["Outcome", "Site", "Turn", "all_turns", "books", "site", "take"]

#: What the simulated model says and reports at every request of a turn.
SCRIPT = {"events": 4, "pace": "1ms", "reasoning": 2, "input": 1000, "cached": 400, "output": 50}
USAGE = {"input_tokens": 600, "cached_input_tokens": 400, "cache_write_tokens": 0, "output_tokens": 50}
#: A part of the output, which providers of Messages need not report.
REASONING_TOKENS = {"messages": 0}
PRICES = {"input": "0.50", "cached_input": "0.05", "output": "2.00"}
CHARGE = sum(
    Decimal(PRICES[price]) * tokens / 10**6 for price, tokens in (("input", 600), ("cached_input", 400), ("output", 50))
)
DEPOSIT = Decimal(1000)
REFUSED = re.compile(r"cannot be served by a \w+ channel")
_SHOWN_CHARS = 600


class Turn(NamedTuple):
    """`channel` is the protocol of the only channel there is for it."""

    agent: Agent
    channel: str

    @property
    def possible(self) -> bool:
        """False where docs/conversion.md promises a 400."""
        spoken, channel = Protocol(self.agent.protocol), Protocol(self.channel)
        return spoken is channel or possible(spoken, channel, stream=True)


@dataclass(frozen=True)
class Outcome:
    """What came of a turn; no `faults` = all is well."""

    turn: Turn
    requests: int
    charge: Decimal
    seconds: float
    #: Hosts that the agent would have talked to.
    outside: list[str]
    faults: list[str] = field(default_factory=list)


@dataclass
class Site:
    """A gateway with an account for each protocol, whose channels speak nothing else."""

    deployment: Deployment
    url: str
    keys: dict[str, str]
    #: Records looked at already, by id.
    seen: dict[str, dict[str, Any]] = field(default_factory=dict)

    def fresh(self) -> list[dict[str, Any]]:
        """The records since the last call, oldest first."""
        records = as_records(self.deployment)
        fresh = [record for identity, record in records.items() if identity not in self.seen]
        self.seen = records
        return fresh[::-1]


@contextmanager
def site(directory: Path) -> Iterator[Site]:
    """Processes of its own, until the block ends."""
    with simulator() as provider:
        deployment = Deployment(directory, _config(provider))
        keys = {protocol.value: deployment.add_account(protocol.value, str(DEPOSIT)) for protocol in Protocol}
        with served(deployment) as server:
            yield Site(deployment, server.url, keys)


def _config(provider: str) -> dict[str, Any]:
    config = config_for(provider)
    [channel] = config["channels"].values()
    models = sorted({agent.model for agent in AGENTS})
    config["models"] = {name: PRICES | {"max_input_tokens": 400_000, "max_output_tokens": 128_000} for name in models}
    config["channels"] = {
        each: channel
        | {
            "protocols": [each],
            "base_url": channel["base_url"][each],
            "models": models,
            "route": "dedicated",
            "accounts": [each],
        }
        for each in channel["protocols"]
    }
    return config


def all_turns(names: tuple[str, ...] = ()) -> list[Turn]:
    """Every agent on channels of every protocol, its own first; `names` are parts of agents' names."""
    agents = [agent for agent in AGENTS if not names or any(name.lower() in agent.name.lower() for name in names)]
    return [
        Turn(agent, channel)
        for agent in agents
        for channel in sorted((each.value for each in Protocol), key=lambda each: each != agent.protocol)
    ]


def take(turn: Turn, here: Site, network: Outside, directory: Path) -> Outcome:
    """Run the agent in an empty directory with a home of its own, and look at everything."""
    agent = turn.agent
    place = Place(
        directory,
        here.url,
        here.keys[turn.channel],
        modules=MODULES,
        environment=agent.environment | network.environment,
    )
    if agent.environment.get("HOPTRIO_API_KEY"):
        place.environment = {**place.environment, "HOPTRIO_API_KEY": place.key}
    for path, text in files_of(agent.guide).items():
        place.write(path, text)
    secret = secrets.token_hex(8)
    place.write(NOTE, secret)
    network.forget()
    began = time.monotonic()
    try:
        prompt = agent.prompt(SCRIPT)
        run = place.run([*agent.argv], prompt) if agent.by_stdin else place.run([*agent.argv, prompt], "")
    except subprocess.TimeoutExpired:
        run = None
    records = here.fresh()
    faults = ["it did not end"] if run is None else list(_faults(turn, run, secret, records))
    return Outcome(
        turn,
        len(records),
        sum((Decimal(record["charge"] or 0) for record in records), Decimal(0)),
        time.monotonic() - began,
        network.hosts,
        faults,
    )


def _faults(
    turn: Turn, run: subprocess.CompletedProcess[str], secret: str, records: list[dict[str, Any]]
) -> Iterator[str]:
    printed = run.stdout + run.stderr
    if not turn.possible:
        if any(record["state"] == "captured" for record in records) or not REFUSED.search(printed):
            yield f"it was not refused: {printed[-_SHOWN_CHARS:]}"
        return
    if run.returncode:
        yield f"exit status {run.returncode}: {printed[-_SHOWN_CHARS:]}"
    elif secret not in run.stdout:
        yield f"the tool's result is not in the answer: {printed[-_SHOWN_CHARS:]}"
    if len(records) < 2:
        yield f"there are {len(records)} requests, not one for the call and one for the result"
    for record in records:
        yield from _wrong(turn, record)


def _wrong(turn: Turn, record: dict[str, Any]) -> Iterator[str]:
    reasoning = REASONING_TOKENS.get(turn.channel, SCRIPT["reasoning"])
    expected = {
        "state": "captured",
        "evidence": "sse_terminal",
        "protocol": turn.agent.protocol,
        "channel": turn.channel,
        "usage": USAGE | {"reasoning_tokens": reasoning},
        "flags": [],
        "attempts": 1,
    }
    for name, value in expected.items():
        if record[name] != value:
            yield f"{record['id']}: {name} is {record[name]}, not {value}"
    if record["charge"] is None or Decimal(record["charge"]) != CHARGE:
        yield f"{record['id']}: the charge is {record['charge']}, not {CHARGE}"


def books(here: Site, outcomes: list[Outcome]) -> list[str]:
    """What is wrong with the ledger after all turns."""
    audit = here.deployment.audit()
    faults = [str(each) for each in audit["violations"]]
    if audit["open_holds"]:
        faults.append(f"{audit['open_holds']} holds are open")
    for account in here.keys:
        charged = sum((each.charge for each in outcomes if each.turn.channel == account), Decimal(0))
        balance, held = here.deployment.balance(account)
        if (Decimal(balance), held) != (DEPOSIT - charged, "0"):
            faults.append(f"{account} has {balance} and {held} held, but was charged {charged}")
    return faults
