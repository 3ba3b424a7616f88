"""History: everything one request went through, as the world saw it from outside; printed when an invariant breaks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.world.books import Row
    from bench.world.draw import Plan
    from bench.world.machine import Worker
    from bench.world.provider import Performance
    from hoptrio.contract import Contract
    from hoptrio.ledger.model import Hold, RequestRecord
    from tests.support.client import Response


@dataclass
class History:
    """One request, from its plan to its end."""

    plan: Plan
    contract: Contract
    #: Called with the response at each piece the client gets.
    saw: Callable[[Response], None]
    events: list[tuple[float, str]] = field(default_factory=list)
    #: The process that handles it.
    worker: Worker | None = None
    #: The ledger's side.
    row: Row | None = None
    prices: str = ""
    record: RequestRecord | None = None
    held_at: float | None = None
    resolved_at: float | None = None
    #: When its gateway's own resolution became durable, first or not: only then its client may see an end.
    settled_at: float | None = None
    #: That resolution is in a journal: it will be in the ledger, whatever becomes of the process.
    promised: bool = False
    #: A settlement was delayed by the ledger, or the process that ran it was killed: the client may be told less.
    disturbed: bool = False
    #: The provider's side.
    performances: list[Performance] = field(default_factory=list)
    dispatched_at: float | None = None
    #: The client's side.
    sent: bool = False
    responses: list[Response] = field(default_factory=list)
    #: The client read to the end of what it was sent, without a pause of its own.
    read_all: bool = False
    #: When the gateway began and ended to handle it.
    started_at: float | None = None
    over_at: float | None = None

    @property
    def hold(self) -> Hold | None:
        return None if self.row is None else self.row.hold

    def note(self, at: float, text: str) -> None:
        self.events.append((at, text))

    def __str__(self) -> str:
        plan = self.plan
        lines = [f"request {plan.number}: {plan.kind} stream={plan.stream} fate={plan.fate} {plan.directive!r}"]
        lines.append(f"  {self.contract}")
        if self.worker is not None:
            lines.append(f"  handled by {self.worker.owner}")
        lines += [f"  {at:12.3f} {text}" for at, text in self.events]
        lines.append(f"  record: {self.record}")
        for each in self.performances:
            lines.append(f"  provider sent: {bytes(each.raw[-1500:])!r} said at {each.said_at} {each.seen.outcome}")
        for response in self.responses:
            lines.append(f"  client got: {response.status} clean={response.clean} {response.body[-1500:]!r}")
        return "\n".join(lines)
