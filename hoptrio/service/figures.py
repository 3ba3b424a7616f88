"""What this process tells of itself, a few times a second, on the board that all processes of the machine read."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import structlog
import trio

from hoptrio import limits
from hoptrio.telemetry.board import FiguresBoard
from hoptrio.telemetry.snapshot import Sample, resume, snapshot
from hoptrio.telemetry.tally import COMPLETE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hoptrio.exchange.gateway import Gateway
    from hoptrio.telemetry.tally import Group

__all__ = ["Teller"]

log = structlog.get_logger("hoptrio.service")


class Teller:
    """Tells of `gateway` on `board`; counts on from where a process that died had stopped."""

    def __init__(self, gateway: Gateway, board: FiguresBoard) -> None:
        self._gateway = gateway
        self._board = board
        self._history: list[Sample] = []
        self._before = Sample(0)
        try:
            found = board.claim()
        except OSError as error:
            # Its figures are its own then; everything else is as ever.
            log.warning("no place on the board of figures", error=str(error))
            self._board = FiguresBoard()
            found = self._board.claim()
        if found is not None:
            resume(found, gateway.tally, gateway.ledger.batches)
        self._before = self._sums()

    async def run(self) -> None:
        """Tell until cancelled."""
        try:
            while True:
                self.tell()
                await trio.sleep(limits.FIGURES_S)
        finally:
            self.tell()
            self._board.leave()

    def tell(self) -> None:
        """Tell what is true now."""
        gateway = self._gateway
        self._sample(gateway.ledger.now_ms() // 1000)
        live = gateway.registry.newest(limits.FIGURES_LIVE_MAX) if self._board.live_wanted else None
        told = snapshot(
            gateway.tally,
            gateway.ledger.batches,
            pid=os.getpid(),
            started_at_ms=gateway.started_at_ms,
            draining=gateway.draining,
            ledger_reachable=gateway.ledger.reachable,
            ledger_queue=gateway.ledger.backlog,
            history=self._history,
            live=live,
        )
        self._board.tell(told)

    def _sample(self, now_s: int) -> None:
        """Append to the history what happened since, once in an interval."""
        at_s = now_s - now_s % limits.FIGURES_SAMPLE_S
        if self._history and self._history[-1].at_s >= at_s:
            return
        before, self._before = self._before, self._sums()
        now = self._before
        self._history.append(
            Sample(
                at_s,
                now.open,
                now.draining,
                now.events - before.events,
                now.ended - before.ended,
                now.failed - before.failed,
                now.charged_nanos - before.charged_nanos,
                now.first_event_s - before.first_event_s,
                now.first_events - before.first_events,
            )
        )
        del self._history[: -limits.FIGURES_SAMPLES]

    def _sums(self) -> Sample:
        """Everything until now."""
        tally = self._gateway.tally
        groups = tally.groups.values()
        return Sample(
            at_s=0,
            open=sum(group.open for group in groups),
            draining=sum(group.draining for group in groups),
            events=tally.events,
            ended=_ended(groups),
            failed=_ended(groups) - sum(group.outcomes.get(COMPLETE, 0) for group in groups),
            charged_nanos=sum(group.charged_nanos for group in groups),
            first_event_s=sum(group.first_event.sum for group in groups),
            first_events=sum(group.first_event.count for group in groups),
        )


def _ended(groups: Iterable[Group]) -> int:
    return sum(sum(group.outcomes.values()) for group in groups)
