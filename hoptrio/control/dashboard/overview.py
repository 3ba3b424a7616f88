"""The overview: what all workers do now, the last minutes as plots, where holds are old and what fails.

Figures come from the processes' own counting and cost nothing to ask for; what must be read from the ledger is read at
most every `limits.LIVE_LEDGER_S`, whoever looks on.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import trio
from starlette.routing import Route

from hoptrio import errors, limits
from hoptrio.control.answers import page
from hoptrio.control.dashboard.live import follow
from hoptrio.control.dashboard.names import names_of
from hoptrio.control.dashboard.plot import Plot, plot
from hoptrio.control.dashboard.words import UNKNOWN, amount, count, failure_words, span
from hoptrio.control.operations.now import holds_by_age
from hoptrio.ledger.model import RequestFilter
from hoptrio.telemetry.tally import FIRST_EVENT_S, LEDGER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from starlette.requests import Request
    from starlette.responses import Response

    from hoptrio.control.office import Office
    from hoptrio.ledger.model import RequestRecord
    from hoptrio.telemetry.snapshot import Buckets, Sample, Snapshot

__all__ = ["ROUTES", "ages", "figures", "plots", "quantile"]

REQUESTS_SHOWN = 8
KINDS_SHOWN = 8
#: A hold that is older than this, in seconds, belongs to no stream: `HOLD_AGES_S` says why.
_STUCK_S = 600


class Figure(NamedTuple):
    """A number with its name, and what else is to be said of it."""

    name: str
    value: str
    small: str = ""


class Drawn(NamedTuple):
    """A plot with its name, the newest value and the value of its upper edge, in words."""

    name: str
    newest: str
    top: str
    plot: Plot


class Bar(NamedTuple):
    """A count with its name, as a part of the largest one in percent."""

    name: str
    number: int
    percent: float
    bad: bool = False


class _Books(NamedTuple):
    """What the ledger knows, as of `at_s` (trio's clock)."""

    at_s: float
    held_nanos: int
    holds: list[Bar]
    latest: list[RequestRecord]
    accounts: dict[str, str]


async def show(request: Request) -> Response:
    """The page."""
    return page(request, "overview.html", **await _values(request))


async def live(request: Request) -> Response:
    """The same as it changes."""

    async def values() -> dict[str, Any]:
        return await _values(request)

    return await follow(request, "overview_now.html", values, shared=True)


async def _values(request: Request) -> dict[str, Any]:
    office: Office = request.app.state.office
    told = office.figures.total()
    books = await _books(request)
    currency = office.currency
    ended = Counter[str]()
    for group in told.groups:
        ended.update({name: number for name, number in group.outcomes.items() if name != "complete"})
    return {
        "told": told,
        "figures": figures(told, books.held_nanos, currency),
        "plots": plots(told.history, currency),
        "minutes": limits.FIGURES_SAMPLES * limits.FIGURES_SAMPLE_S // 60,
        "holds": books.holds,
        "failures": _bars({failure_words(name): number for name, number in ended.items()}, bad=True),
        "refusals": _bars(_by_code(told)),
        "paused": sorted(office.pauses.rows),
        "trouble": _trouble(office),
        "records": books.latest,
        "accounts": books.accounts,
        "currency": currency,
    }


def figures(told: Snapshot, held_nanos: int, currency: str) -> list[Figure]:
    """What happens now. Rates are of the last whole interval."""
    recent = _minute(told.history)
    newest = recent[-1] if recent else None
    charged = sum(sample.charged_nanos for sample in recent)
    waited, firsts = sum(each.first_event_s for each in recent), sum(each.first_events for each in recent)
    first_event = _sum(group.first_event for group in told.groups)
    return [
        Figure("Streams open", count(told.open), "of all workers"),
        Figure("Draining", count(told.streams_draining), "their clients have left"),
        Figure("Events a second", count(newest.events / limits.FIGURES_SAMPLE_S if newest else 0)),
        Figure(
            "Time to first event",
            span(waited / firsts) if firsts else UNKNOWN,
            f"last minute; 95 % within {_within(first_event, 0.95, FIRST_EVENT_S)} since the start",
        ),
        Figure("Charged", f"{amount(charged)}", f"{currency}, last minute"),
        Figure("Held", amount(held_nanos), currency),
        Figure(
            "Settlement",
            _within(told.settlements.counts, 0.5, LEDGER_S),
            f"half of them; 95 % within {_within(told.settlements.counts, 0.95, LEDGER_S)}",
        ),
        Figure("Failed", count(sum(each.failed for each in recent)), "streams, last minute"),
    ]


def _minute(history: Sequence[Sample]) -> Sequence[Sample]:
    """The last one."""
    return history[-(60 // limits.FIGURES_SAMPLE_S) :]


def _sum(buckets: Iterable[Buckets]) -> list[int]:
    counts = [0] * (len(FIRST_EVENT_S) + 1)
    for each in buckets:
        counts = [one + other for one, other in zip(counts, each.counts, strict=True)]
    return counts


def _within(counts: Sequence[int], share: float, bounds: Sequence[float]) -> str:
    found = quantile(counts, share, bounds)
    return UNKNOWN if found is None else span(found) if found != float("inf") else f"over {span(bounds[-1])}"


def quantile(counts: Sequence[int], share: float, bounds: Sequence[float]) -> float | None:
    """The upper bound of the bucket in which the `share` of all observations is reached; None if there are none."""
    wanted, seen = sum(counts) * share, 0
    for number, bound in zip(counts, [*bounds, float("inf")], strict=True):
        seen += number
        if number and seen >= wanted:
            return bound
    return None


def plots(history: Sequence[Sample], currency: str) -> list[Drawn]:
    """The history, oldest first."""
    seconds = limits.FIGURES_SAMPLE_S

    def drawn(name: str, of: Callable[[Sample], float | None], words: Callable[[float], str]) -> Drawn:
        return series(name, [of(sample) for sample in history], words)

    def series(name: str, values: list[float | None], words: Callable[[float], str]) -> Drawn:
        # The axis is always as long; a gateway that has just begun has no history on its left.
        made = plot([None] * (limits.FIGURES_SAMPLES - len(values)) + values)
        newest = next((value for value in reversed(values) if value is not None), None)
        return Drawn(name, UNKNOWN if newest is None else words(newest), words(made.top) if any(values) else "0", made)

    return [
        drawn("Streams open", lambda each: each.open, count),
        drawn("Events a second", lambda each: each.events / seconds, count),
        drawn(
            "Time to first event",
            lambda each: each.first_event_s / each.first_events if each.first_events else None,
            span,
        ),
        # Of the minute that ends there, as the figure has it; billionths are whole numbers, so the words are exact.
        series(
            f"Charged a minute, {currency}",
            [sum(each.charged_nanos for each in _minute(history[: end + 1])) for end in range(len(history))],
            lambda nanos: amount(round(nanos)),
        ),
        drawn("Streams ended a second", lambda each: each.ended / seconds, count),
        drawn("Streams failed a second", lambda each: each.failed / seconds, count),
    ]


async def _books(request: Request) -> _Books:
    """Read anew when it is time; what cannot be read now stays as it was."""
    state = request.app.state
    known: _Books | None = getattr(state, "books", None)
    if known is not None and trio.current_time() < known.at_s + limits.LIVE_LEDGER_S:
        return known
    office: Office = state.office
    try:
        holds, held_nanos = await holds_by_age(office), await office.ledger.held_nanos()
        latest = await office.ledger.requests(RequestFilter(limit=REQUESTS_SHOWN))
        names = await names_of(request, (record.account_id for record in latest))
    except errors.LedgerUnavailable:
        if known is None:
            raise
        return known
    state.books = _Books(trio.current_time(), held_nanos, ages(holds), latest, names)
    return state.books  # type: ignore[no-any-return]


def ages(holds: Mapping[str, int]) -> list[Bar]:
    """How many holds are how old, by the names of `holds_by_age`."""
    most, bars, before = max(1, *holds.values()), list[Bar](), 0
    for name, number in holds.items():
        words = f"over {span(before)}" if name == "older" else f"up to {span(int(name))}"
        bars.append(Bar(words, number, 100 * number / most, bad=before >= _STUCK_S))
        before = before if name == "older" else int(name)
    return bars


def _by_code(told: Snapshot) -> dict[str, int]:
    codes = Counter[str]()
    for (_, code), number in told.refusals:
        codes[code.replace("_", " ")] += number
    return codes


def _bars(counts: dict[str, int], *, bad: bool = False) -> list[Bar]:
    """The largest first; those that are not shown are summed up."""
    ordered = sorted(
        ((number, name) for name, number in counts.items() if number), key=lambda each: (-each[0], each[1])
    )
    shown, rest = ordered[:KINDS_SHOWN], ordered[KINDS_SHOWN:]
    if rest:
        shown.append((sum(number for number, _ in rest), "others"))
    most = max((number for number, _ in shown), default=1)
    return [Bar(name, number, 100 * number / most, bad=bad) for number, name in shown]


def _trouble(office: Office) -> list[tuple[str, str, str]]:
    """(channel, model, standing) of what is not in good health."""
    found = []
    for channel in office.config.catalogue.channels.values():
        for model in channel.models:
            standing = office.breakers.condition(channel.name, model).standing
            if standing.value:
                found.append((channel.name, model, standing.name.lower()))
    return found


ROUTES = (
    Route("/", show, methods=["GET"]),
    Route("/overview/live", live, methods=["GET"]),
)
