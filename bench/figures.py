"""What counting costs: ``python -m bench.figures``. CPU of this process alone, best of several runs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from hoptrio.telemetry.board import FiguresBoard
from hoptrio.telemetry.snapshot import snapshot
from hoptrio.telemetry.tally import BATCH_OPERATIONS, Histogram, Meter, Tally

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 5
EVENTS = 200_000
STREAMS = 20_000
GROUPS = 40
FOLDS = 500


def main() -> None:
    """Print a line for each."""
    print(f"an event:                       {_best_ns(_events, EVENTS):8,.0f} ns")  # noqa: T201
    print(f"a stream, from open to settled: {_best_ns(_streams, STREAMS):8,.0f} ns")  # noqa: T201
    print(f"telling of {GROUPS} groups, twice a second: {_best_ns(_folds, FOLDS) / 1000:6,.0f} us")  # noqa: T201


def _best_ns(work: Callable[[], None], count: int) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.process_time_ns()
        work()
        best = min(best, (time.process_time_ns() - began) / count)
    return best


def _events() -> None:
    meter, now_s = Meter(Tally(), "chat", "m", "one"), 0.0
    for number in range(EVENTS):
        now_s += 0.03
        meter.moved(now_s, number)


def _streams() -> None:
    tally = Tally()
    for _ in range(STREAMS):
        meter = Meter(tally, "chat", "m", "one")
        meter.asked("one")
        meter.first_event(0.3)
        tally.holds.observe(0.002)
        tally.settlements.observe(0.002)
        meter.settled("complete", 5, (), answered=True)
        meter.close()


def _folds() -> None:
    tally, board = Tally(), FiguresBoard()
    for number in range(GROUPS):
        Meter(tally, "chat", f"m{number}", "one").settled("complete", 5, (), answered=True)
    board.claim()
    for _ in range(FOLDS):
        board.tell(snapshot(tally, Histogram(BATCH_OPERATIONS)))


if __name__ == "__main__":
    main()
