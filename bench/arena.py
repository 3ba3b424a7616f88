"""Arena: the provider, the contestants of one scenario, and their rounds in turn.

Contestants are started afresh for each scenario, so that none inherits the heap or the ledger of another load. A round
asks each of them once, one after the other, so that what changes on the machine meets all of them alike.
"""

from __future__ import annotations

import resource
import tempfile
import time
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from bench.contestants.contestant import Absent, Contestant, Place
from bench.counters import sample
from bench.job import INTERRUPTED, Job, Shape
from bench.process import fetch, module, run_client, running
from bench.provider import Served
from bench.reconcile import Prices, Reconciled, reconcile, reconcile_balance
from bench.result import Run, ScenarioResults, run_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bench.books import Balance
    from bench.contestants.contestant import Kind
    from bench.cores import Cores
    from bench.job import Outcome
    from bench.process import Running
    from bench.scenario import Scenario

__all__ = ["Arena", "ProviderEnded", "Told", "arena"]

_WARMING = Shape(streams=32, at_once=16, events=2)
#: After the clients are done: a provider goes on for those that left, and a gateway settles.
_QUIET_S = 30.0
_POLL_S = 0.1


class Told(NamedTuple):
    """Whom to tell what is being done: `step` names it, `streams` counts those that are over."""

    step: Callable[[str, int], None]
    streams: Callable[[int], None]


class _Card:
    """What is noted of one scenario while it is played: who is there with which load for how many rounds."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.there: list[tuple[Contestant, Shape, int]] = []
        self.absent: dict[str, str] = {}
        self.runs: list[Run] = []

    def results(self) -> ScenarioResults:
        scenario = self.scenario
        return ScenarioResults(
            name=scenario.name,
            family=scenario.family,
            title=scenario.title,
            per=scenario.per,
            streams=scenario.shape.streams,
            runs=tuple(self.runs),
            absent=self.absent,
        )


class ProviderEnded(Exception):
    """The provider is gone, which is no contestant's fault; with its last words."""


class Arena:
    """The provider runs; `play` is for one scenario."""

    def __init__(self, provider: Running, provider_port: int, cores: Cores, told: Told) -> None:
        self._provider = provider
        self._port = provider_port
        self._cores = cores
        self.told = told
        self._runs = count(1)

    def play(
        self, scenarios: Sequence[Scenario], kinds: Sequence[Kind], *, rounds: int | None = None
    ) -> list[ScenarioResults]:
        """Scenarios that are compared with each other, their rounds in turn, too. A contestant that fails is absent
        from then on, with the reason."""
        found = [_Card(scenario) for scenario in scenarios]
        with ExitStack() as stack:
            for card in found:
                self._prepare(card.scenario)
                for kind in kinds:
                    self._enter(card, kind, stack)
            for number in range(rounds or max(card.scenario.rounds for card in found)):
                for card in found:
                    self._round(card, number)
        return [card.results() for card in found]

    def _enter(self, card: _Card, kind: Kind, stack: ExitStack) -> None:
        """Start one contestant, and let it warm up."""
        scenario = card.scenario
        shape = kind.limits.fit(scenario.shape)
        why = _unfit(kind, scenario, shape)
        if shape is None or why:
            card.absent[kind.name] = why
            return
        self.told.step(f"{scenario.name}: {kind.name} starts", _WARMING.streams)
        try:
            contestant = stack.enter_context(self.started(kind, scenario.workers))
            self.run(scenario, contestant, shape=_WARMING)
            card.there.append((contestant, shape, kind.limits.rounds))
        except (Absent, RuntimeError, OSError) as error:
            card.absent[kind.name] = self._why(error)

    def _round(self, card: _Card, number: int) -> None:
        for contestant, shape, most in card.there:
            if contestant.name in card.absent or number >= most:
                continue
            self.told.step(f"{card.scenario.name}: {contestant.name}", shape.streams)
            try:
                card.runs.append(self.run(card.scenario, contestant, shape=shape, number=number))
            except (RuntimeError, OSError) as error:
                card.absent[contestant.name] = f"it failed: {self._why(error)}"

    def _prepare(self, scenario: Scenario) -> None:
        """Let the provider make its answers, which would cost the first contestant's streams some of their time."""
        shape = scenario.shape
        once = Shape(streams=shape.variants, at_once=1, events=shape.events, size=shape.size, variants=shape.variants)
        own = scenario._replace(protocol=scenario.channel)
        self.told.step(f"{scenario.name}: the provider", once.streams)
        self.run(own, Contestant("direct", "127.0.0.1", self._port), shape=once)

    @contextmanager
    def started(self, kind: Kind, workers: int = 1) -> Iterator[Contestant]:
        """One contestant, in a folder of its own."""
        with (
            tempfile.TemporaryDirectory(prefix="hoptrio-bench-") as folder,
            kind.start(Place(Path(folder), self._port, self._cores, workers)) as contestant,
        ):
            yield contestant

    def run(self, scenario: Scenario, contestant: Contestant, *, shape: Shape | None = None, number: int = 0) -> Run:
        """One load, and the ledger's account of it where there is a ledger. Raises KeyboardInterrupt, RuntimeError."""
        job = self._job(scenario, contestant, shape or scenario.shape, seed=number)
        before = contestant.books.balance() if contestant.books else None
        outcome = run_client(job, self._cores.client, self.told.streams)
        if outcome.stopped == INTERRUPTED:
            raise KeyboardInterrupt
        served = self._served(job.run, wait=contestant.books is not None)
        reconciled = None
        if contestant.books is not None and before is not None:
            reconciled = _reconciled(contestant, outcome, served, before)
        after = sample(contestant.pids) if contestant.pids else None
        return run_of(contestant.name, number, outcome, after, reconciled)

    def _why(self, error: Exception) -> str:
        """A contestant's failure in one line. Raises ProviderEnded if it was the provider's."""
        if not self._provider.alive:
            raise ProviderEnded(self._provider.output) from error
        return _short(error)

    def _job(self, scenario: Scenario, contestant: Contestant, shape: Shape, *, seed: int) -> Job:
        return Job(
            run=next(self._runs),
            shape=shape,
            host=contestant.host,
            port=contestant.port,
            tls=contestant.tls,
            base=contestant.base,
            key=contestant.key,
            model=contestant.model or f"bench-{scenario.channel}",
            protocol=scenario.protocol,
            websocket=scenario.websocket,
            pids=contestant.pids,
            seed=seed,
            go_port=self._port,
            limit_s=scenario.limit_s,
        )

    def _served(self, run: int, *, wait: bool) -> list[Served]:
        """What the provider sent; if `wait`, once nothing of it is under way."""
        served: list[Served] = []
        until = time.monotonic() + _QUIET_S
        while True:
            served = msgspec.json.decode(fetch(self._port, f"/seen/{run}"), type=list[Served])
            if not wait or all(each.outcome != "open" for each in served) or time.monotonic() > until:
                return served
            time.sleep(_POLL_S)


def _short(error: Exception) -> str:
    """An error as one line: what happened, and the last thing that the process said."""
    lines = [each.strip() for each in str(error).splitlines() if each.strip()]
    return " ".join(dict.fromkeys([*lines[:1], *lines[-1:]]))


def _unfit(kind: Kind, scenario: Scenario, shape: Shape | None) -> str:
    """Why this contestant is not asked; "" if it is."""
    if (scenario.only and kind.name not in scenario.only) or kind.name in scenario.without:
        return "not asked in this scenario"
    if scenario.protocol not in kind.protocols:
        return f"it does not speak {scenario.protocol}"
    if kind.limits.families and scenario.family not in kind.limits.families:
        return "not asked: it would take too long"
    return "" if shape else f"more than {kind.limits.streams} streams at once are not asked of it"


def _reconciled(contestant: Contestant, outcome: Outcome, served: list[Served], before: Balance) -> Reconciled:
    books = contestant.books
    assert books is not None
    settled = books.settled(_QUIET_S)
    prices = Prices(books.input_nanos, books.output_nanos)
    found = reconcile(outcome.streams, served, books.lines(outcome.run), prices)
    wrong = [*found.wrong, *reconcile_balance(before, books.balance(), found.charged_nanos)]
    if not settled:
        wrong.append(f"holds are open {_QUIET_S:g} s after the last stream")
    if books.balance().balance_nanos != books.deposit_nanos - books.captured_nanos():
        wrong.append("the balance is not the sum of its entries")
    return msgspec.structs.replace(found, wrong=tuple(wrong))


@contextmanager
def arena(cores: Cores, told: Told, *, port: int = 0) -> Iterator[Arena]:
    """With the provider running on `port` (0: any). What is started may open as many files as the hard limit allows."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with running("the provider", module("bench.provider", str(port)), cores=cores.provider) as process:
        yield Arena(process, int(process.await_line(str.strip)), cores, told)
