"""Rows: a summary in words, the same for the terminal and the report. Ratios stand first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.summary import summarise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.result import ScenarioResults
    from bench.summary import Added, Summary

__all__ = ["COLUMNS", "number", "rows"]

COLUMNS = (
    "contestant",
    "CPU / relay",
    "steady / relay",
    "CPU µs/event",
    "steady µs/event",
    "CPU µs/stream",
    "KiB/stream",
    "first event +ms p50 / p99 / max",
    "event +ms p50 / p99 / max",
    "jitter ms",
    "events/s",
    "core busy",
    "events/s a core",
    "complete",
    "ledger",
)


def rows(results: ScenarioResults) -> list[tuple[str, ...]]:
    """One for each contestant that ran, under `COLUMNS`."""
    return [_row(summarise(results, name)) for name in results.contestants]


def number(value: float | None, digits: int = 2) -> str:
    """ "-" for what is not known."""
    return "-" if value is None else f"{value:,.{digits}f}"


def _row(summary: Summary) -> tuple[str, ...]:
    return (
        summary.contestant,
        number(summary.ratio),
        number(summary.steady_ratio),
        number(summary.cpu_per_event_us, 1),
        number(summary.steady_us, 1),
        number(summary.cpu_per_stream_us, 0),
        number(summary.rss_kib_per_stream, 1),
        _added(summary.first),
        _added(summary.delay),
        number(summary.jitter_ms),
        number(summary.events_per_s, 0),
        "-" if summary.busy is None else f"{summary.busy:.0%}",
        number(summary.events_per_core_s, 0),
        _ends(summary),
        _ledger(summary),
    )


def _added(added: Added | None) -> str:
    return "-" if added is None else " / ".join(f"{each:.2f}" for each in added)


def _ends(summary: Summary) -> str:
    """How the streams ended: complete, left by their clients, and failed by what."""
    parts = [f"{summary.complete:,} of {summary.streams:,}"]
    if summary.left:
        parts.append(f"{summary.left:,} left")
    parts += [f"{count:,} {what}" for what, count in _most(summary.errors)]
    return ", ".join(parts)


def _most(errors: dict[str, int]) -> Sequence[tuple[str, int]]:
    return sorted(errors.items(), key=lambda each: -each[1])[:4]


def _ledger(summary: Summary) -> str:
    if summary.reconciled is None:
        return "-"
    if summary.wrong:
        return f"{len(summary.wrong)} WRONG of {summary.reconciled:,}"
    return f"{summary.reconciled:,} right"
