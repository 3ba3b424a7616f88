"""Session: a whole run: the provider listens, the preflight, the cases, the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import trio

from hoptrio.conform.books import ACCOUNTS
from hoptrio.conform.cases import CASES
from hoptrio.conform.preflight import NotReady, preflight
from hoptrio.conform.report import Report
from hoptrio.conform.run import STREAMS, Row, Runner
from hoptrio.conform.settings import Settings
from hoptrio.conform.upstream import Upstream
from hoptrio.protocols.events import Protocol
from hoptrio.simulator.server import open_listeners, serve_listeners

if TYPE_CHECKING:
    from collections.abc import Callable

    from hoptrio.conform.case import Case
    from hoptrio.conform.target import Target

__all__ = ["DEFAULT_S", "QUICK_S", "Plan", "conduct"]

#: A case may take so long in a quick run, and in one without the deadline.
QUICK_S = 15.0
DEFAULT_S = 180.0


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be tried, and where."""

    target: Target
    #: Where the provider listens: host and port, 0 for any.
    listen: tuple[str, int]
    #: The gateway's name in the report.
    name: str
    settings: Settings = Settings()
    cases: tuple[Case, ...] = CASES
    protocols: tuple[Protocol, ...] = tuple(Protocol)
    #: Cases that take longer are left out.
    allowed_s: float = DEFAULT_S
    streams: int = STREAMS

    @property
    def tried(self) -> tuple[Case, ...]:
        return tuple(case for case in self.cases if case.seconds(self.settings) <= self.allowed_s)

    @property
    def provider(self) -> str:
        """HOST:PORT of `listen`."""
        host, port = self.listen
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def conduct(plan: Plan, begin: Callable[[int], None], tell: Callable[[Row], None]) -> Report:
    """Try what is planned: `begin` is told how many rows there will be, `tell` each. Raises NotReady."""
    upstream = Upstream()
    try:
        listeners = await open_listeners(*plan.listen)
    except OSError as error:
        raise NotReady(f"cannot listen on {plan.provider}: {error.strerror or error}") from None
    failed: NotReady | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_listeners, upstream, listeners)
        runner = Runner(plan.target, upstream, plan.settings, streams=plan.streams)
        try:
            ready = await preflight(runner, plan.protocols, plan.provider)
            begin(len(ACCOUNTS) + sum(each in ready.served for case in plan.tried for each in case.protocols))
            rows = await runner.run(plan.tried, ready.served, tell)
        except NotReady as error:
            failed = error
        nursery.cancel_scope.cancel()
    if failed is not None:
        # Outside the nursery, so that it is no group.
        raise failed
    return Report(
        gateway=plan.name,
        settings=plan.settings,
        rows=tuple(rows),
        refused={protocol.value: why for protocol, why in ready.refused.items()},
        left_out=tuple(case.number for case in plan.cases if case not in plan.tried),
    )
