"""The report: Markdown that says what was done to the gateway for how long, and whether it held."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from bench.soak.schedule import DISTURBANCES
from bench.soak.verdicts import DESCRIPTORS_PER_HOUR, MEMORY_PER_HOUR_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from bench.soak.result import Results

__all__ = ["markdown"]

_MIB = 1024 * 1024
_HELD, _NOT_HELD = "It holds.", "It does not hold."
_TOO_SHORT = "It holds, as far as so short a run can tell."
_VERDICTS = {True: "holds", False: "**does not hold**", None: "too short to tell"}
_HOW = """\
A crowd of clients comes at random moments to `hoptrio serve` with two workers and HTTPS: paced answers of up to a
minute, short ones (some on connections that are kept), answers in one piece, events of up to 256 KiB, clients that
read slowly, leave, come back to their answer or ask again with an Idempotency-Key, WebSocket turns, wrong keys; in all
four protocols, 30 % of what can be converted is. The provider refuses, cuts, resets, stalls and reports errors.
Meanwhile the config is changed and certificates are renewed (SIGHUP, which replaces the workers), workers are killed
with SIGKILL, and the database goes away. In the second half no worker is replaced, so that they grow old; only the
database still goes away."""
_JUDGED = f"""\
Memory and descriptors are judged from %s on: by then what is kept by design has its full size (answers for clients
that come back, a minute of them; windows of limits and the dashboard's figures, ten minutes; the allocator's arenas).
The least of each 30 s is taken, which leaves the load's ups and downs out, and of all pairs of these the median slope
(Theil-Sen). Memory may grow by {MEMORY_PER_HOUR_BYTES // _MIB} MiB an hour: at some 4,000 streams an hour and worker
that is 2 KiB a stream, where an open one takes 25, so state that one stream in twelve leaves behind is found.
Descriptors may grow by {DESCRIPTORS_PER_HOUR:g} an hour, one in three hundred streams. Growth of less than 2 MiB, or
of 20 descriptors (idle connections to the provider come and go with the load), over the whole time is not told from
noise; when everybody has left, descriptors are compared with those before the first client came."""


def markdown(results: Results, plots: Iterable[str] = ()) -> str:
    """The whole page; `plots` are the names of pictures beside it, without their endings."""
    told = [each.holds for each in results.verdicts]
    held = _NOT_HELD if False in told else _TOO_SHORT if None in told else _HELD
    visits, events = sum(results.kinds.values()), results.events
    parts = [
        "# Soak",
        f"`{results.command}`, begun {results.began}, took {results.took_s / 60:.1f} minutes"
        f"{' (ended by hand)' if results.interrupted else ''}; the ledger on {results.database}. "
        f"{visits:,} visits, {events:,} events. **{held}**",
        _table(
            ("what", "verdict", "measured"),
            [(each.what, _VERDICTS[each.holds], each.measured) for each in results.verdicts],
        ),
        *(f"![{name}]({name}.svg)" for name in plots),
        "## What was done",
        _HOW,
        _table(("what", "times", "well again after, s (median / longest)"), list(_disturbances(results))),
        *(f"* At {mark.at_s / 60:.1f} min, {mark.name}: {mark.wrong}." for mark in results.marks if mark.wrong),
        "## What clients saw",
        "Visits: " + ", ".join(f"{kind} {count:,}" for kind, count in results.kinds.items()) + ".",
        _table(("error, and its cause", "clients"), [(why, f"{count:,}") for why, count in results.causes.items()]),
        *_unexpected(results),
        *(f"* **{fault}**" for fault in results.end.reconciled.wrong),
        "## Memory and descriptors",
        _JUDGED % _minutes(results.judged_s),
        _table(
            ("process", "lived, min", "RSS first / most / last, MiB", "slope, MiB an hour", "descriptors most / last"),
            list(_processes(results)),
        ),
        "## Machine",
        "\n".join(f"* {name}: {value}" for name, value in results.machine.items()),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _disturbances(results: Results) -> Iterator[tuple[str, str, str]]:
    for name in DISTURBANCES:
        took = sorted(mark.took_s for mark in results.marks if mark.name == name)
        if took:
            yield name, str(len(took)), f"{took[len(took) // 2]:.1f} / {took[-1]:.1f}"


def _unexpected(results: Results) -> Iterator[str]:
    for each in results.unexpected[:20]:
        yield f"* **At {each.at_s:.1f} s, {each.kind} in {each.protocol}: {each.error} ({each.request_id or 'no id'})**"


def _processes(results: Results) -> Iterator[tuple[str, ...]]:
    workers = count(1)
    for each in results.lives:
        sizes = (each.rss_first_bytes, each.rss_most_bytes, each.rss_last_bytes)
        slope = each.rss_per_hour_bytes
        yield (
            each.role if each.role == "supervisor" else f"{each.role} {next(workers)}",
            f"{_minutes(each.began_s)} to {_minutes(each.ended_s)}",
            " / ".join(f"{size / _MIB:.0f}" for size in sizes),
            "" if slope is None else f"{slope / _MIB:+.1f}",
            f"{each.descriptors_most} / {each.descriptors_last}",
        )


def _minutes(seconds: float) -> str:
    return f"{int(seconds // 60)}:{int(seconds % 60):02d}"


def _table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
