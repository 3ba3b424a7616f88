"""Verdicts: what must be true after a soak. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from bench.soak.gateway import SPOOL_BYTES_MAX
from bench.soak.lives import lives, trend_of
from bench.soak.result import Verdict
from bench.soak.slope import Trend
from hoptrio.limits import POSTGRES_READERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench.soak.result import Results
    from bench.soak.sampled import Sample

__all__ = ["DESCRIPTORS_PER_HOUR", "MEMORY_PER_HOUR_BYTES", "judged"]

_MIB = 1024 * 1024
#: At some 4,000 streams an hour and worker these are 2 KiB a stream, where an open one takes 25: state that one stream
#: in twelve leaves behind is found. Less than 2 MiB over the whole time is the allocator's, and no trend.
MEMORY_PER_HOUR_BYTES = 8 * _MIB
_MEMORY_NOISE_BYTES = 2 * _MIB
#: One in three hundred streams. Idle connections to the provider, and with them the least of half a minute, come and go
#: with the load; what is left when nobody is there any more is compared without that.
DESCRIPTORS_PER_HOUR = 12.0
_DESCRIPTORS_NOISE = 20.0
#: Two for each stream that is open: those that a stream in two hundred leaves behind. A dozen streams more or fewer at
#: the least of half a minute is the load's.
TASKS_PER_HOUR = 20.0
_TASKS_NOISE = 25.0
#: The ages of open holds, up to so many seconds, that a running stream may have.
_YOUNG = frozenset({"10", "60", "300"})
#: Connections to PostgreSQL that are opened when they are first needed.
_LATER_DESCRIPTORS = POSTGRES_READERS
#: What an error of the log may say, after what was done.
_EXPECTED_ERRORS = ("worker crashed",)


def judged(results: Results) -> Results:
    """The same with its processes' lives, and every line of the report's table."""
    found = msgspec.structs.replace(results, lives=lives(results))
    return msgspec.structs.replace(found, verdicts=tuple(_verdicts(found)))


def _verdicts(results: Results) -> tuple[Verdict, ...]:
    end, reconciled = results.end, results.end.reconciled
    audit = end.audit
    away = [mark for mark in results.marks if mark.wrong]
    spool = max((each.spool_bytes or 0 for each in results.samples), default=0)
    errors = {what: count for what, count in end.logged.items() if what not in _EXPECTED_ERRORS}
    stuck = max((_stuck(each) for each in results.samples), default=0)
    kills = sum(mark.name == "kill" for mark in results.marks)
    return (
        Verdict(
            "the ledger's audit is clean",
            audit.ok and not audit.violations,
            f"{audit.captured:,} captured, {audit.released:,} released, {len(audit.violations)} violations",
        ),
        Verdict("no hold is left", audit.open_holds == 0, f"{audit.open_holds} open"),
        Verdict("no hold was open for longer than any stream", not stuck, f"{stuck} older than 5 minutes"),
        Verdict(
            "clients, provider and ledger agree on every stream",
            reconciled.right,
            f"{reconciled.streams:,} streams, {len(reconciled.wrong)} that do not fit",
        ),
        Verdict(
            "no client saw an error that nothing explains",
            not results.unexpected,
            f"{len(results.unexpected)} of {sum(results.kinds.values()):,}",
        ),
        Verdict(
            "all was well again after everything that was done",
            not away,
            f"{len(results.marks)} times, the longest {max((mark.took_s for mark in results.marks), default=0):.1f} s",
        ),
        *_memory(results),
        *_descriptors(results),
        _tasks(results),
        Verdict("answers kept for returning clients stay below their cap", spool <= SPOOL_BYTES_MAX, _mib(spool)),
        Verdict(
            "nothing was logged as an error but the workers that were killed",
            not errors and end.logged.get(_EXPECTED_ERRORS[0], 0) == kills,
            ", ".join(f"{what}: {count}" for what, count in end.logged.items()) or "nothing",
        ),
        Verdict("it ends with status 0", end.exit_status == 0, str(end.exit_status)),
    )


def _memory(results: Results) -> Iterator[Verdict]:
    for role in ("supervisor", "worker"):
        known = [
            Trend(each.rss_per_hour_bytes, each.judged_s)
            for each in results.lives
            if each.role == role and each.rss_per_hour_bytes is not None
        ]
        flat = [each.flat(per_hour=MEMORY_PER_HOUR_BYTES, noise=_MEMORY_NOISE_BYTES) for each in known]
        yield Verdict(
            f"memory is flat: {role}",
            all(flat) if known else None,
            _measured(known, lambda each: f"{each.per_hour / _MIB:+.1f} MiB an hour over {each.span_s / 60:.1f} min"),
        )


def _descriptors(results: Results) -> Iterator[Verdict]:
    known = [
        Trend(each.descriptors_per_hour, each.judged_s)
        for each in results.lives
        if each.descriptors_per_hour is not None
    ]
    yield Verdict(
        "descriptors are flat: every process",
        all(each.flat(per_hour=DESCRIPTORS_PER_HOUR, noise=_DESCRIPTORS_NOISE) for each in known) if known else None,
        _measured(known, lambda each: f"{each.per_hour:+.1f} an hour"),
    )
    before, after = (
        {
            role: max((each.descriptors for each in moment if each.role == role), default=0)
            for role in ("supervisor", "worker")
        }
        for moment in (results.end.before, results.end.after)
    )
    yield Verdict(
        "descriptors are back when everybody has left",
        bool(results.end.after)
        and after["supervisor"] <= before["supervisor"]
        and after["worker"] <= before["worker"] + _LATER_DESCRIPTORS,
        ", ".join(f"{role} {before[role]} before, {after[role]} after" for role in before),
    )


def _tasks(results: Results) -> Verdict:
    """Of whichever worker answered: their least is that of the one with fewer."""
    found = trend_of(results, [(each.at_s, each.tasks) for each in results.samples if each.tasks is not None])
    return Verdict(
        "tasks are flat",
        found.flat(per_hour=TASKS_PER_HOUR, noise=_TASKS_NOISE) if found else None,
        _measured([found] if found else [], lambda each: f"{each.per_hour:+.1f} an hour"),
    )


def _stuck(sample: Sample) -> int:
    """Open holds of more than five minutes; a stream of the crowd takes one and a half at most."""
    return sum(count for age, count in (sample.holds or {}).items() if age not in _YOUNG)


def _measured(trends: list[Trend], words: Callable[[Trend], str]) -> str:
    return ", ".join(map(words, trends)) or "too short a time to tell"


def _mib(size: int) -> str:
    return f"{size / _MIB:.1f} MiB of {SPOOL_BYTES_MAX // _MIB}"
