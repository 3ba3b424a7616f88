"""What one process tells of itself: a frozen value made of its tally, and the sum over several processes. Pure.

Counters only grow: a process that takes a dead one's place goes on from where that stopped (`resume`), so that a sum
never falls. What is true of a moment (open streams, the history) is told by living processes alone.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from hoptrio import limits
from hoptrio.telemetry.tally import BATCH_OPERATIONS, FIRST_EVENT_S, GAP_S, LEDGER_S, Histogram, Labels, Tally

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = [
    "Buckets",
    "GroupFigures",
    "LiveStream",
    "Sample",
    "Snapshot",
    "decode",
    "encode",
    "resume",
    "snapshot",
    "total",
]


class Buckets(msgspec.Struct, frozen=True, array_like=True):
    """A histogram: counts of each bucket, and the sum."""

    counts: list[int]
    sum: float

    @property
    def count(self) -> int:
        """All that were observed."""
        return sum(self.counts)


class GroupFigures(msgspec.Struct, frozen=True, array_like=True):
    """The streams of one protocol, model and channel (`tally.Group`)."""

    labels: Labels
    open: int
    draining: int
    outcomes: dict[str, int]
    answered_released: dict[str, int]
    flags: dict[str, int]
    stalls: int
    charged_nanos: int
    first_event: Buckets
    gaps: Buckets


class Sample(msgspec.Struct, frozen=True, array_like=True):
    """What happened in one interval of `limits.FIGURES_SAMPLE_S`; `open` and `draining` are those at its end."""

    #: The end of the interval, in seconds since 1970: a multiple of its length.
    at_s: int
    open: int = 0
    draining: int = 0
    events: int = 0
    ended: int = 0
    failed: int = 0
    charged_nanos: int = 0
    #: Times to the first event: their sum and number.
    first_event_s: float = 0.0
    first_events: int = 0


class LiveStream(msgspec.Struct, frozen=True, array_like=True):
    """A stream that runs now. `left`: its client has, and the provider is read on."""

    id: str
    account: str
    key: str
    protocol: str
    model: str
    channel: str
    contract: str
    stream: bool
    created_at_ms: int
    hold_nanos: int
    events: int
    left: bool
    timeline: list[tuple[int, str]]


class Snapshot(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """One process, or the sum of several."""

    pid: int = 0
    started_at_ms: int = 0
    #: It is shutting down, or another has taken its place.
    draining: bool = False
    ledger_reachable: bool = True
    #: Operations that wait for the ledger's writer.
    ledger_queue: int = 0
    groups: list[GroupFigures] = []
    #: ((protocol, code), count).
    refusals: list[tuple[tuple[str, str], int]] = []
    events: int = 0
    keepalives: int = 0
    holds: Buckets
    settlements: Buckets
    batches: Buckets
    #: Oldest first.
    history: list[Sample] = []
    #: None where nobody asked for them; the newest ones if they are too many.
    live: list[LiveStream] | None = None

    @property
    def open(self) -> int:
        """Streams that run."""
        return sum(group.open for group in self.groups)

    @property
    def streams_draining(self) -> int:
        """Streams whose client has left."""
        return sum(group.draining for group in self.groups)


def snapshot(tally: Tally, batches: Histogram, **changes: object) -> Snapshot:
    """A tally as it is now; `batches` are the ledger's. `changes` are further members."""
    groups = [
        GroupFigures(
            labels,
            group.open,
            group.draining,
            dict(group.outcomes),
            dict(group.answered_released),
            dict(group.flags),
            group.stalls,
            group.charged_nanos,
            _buckets(group.first_event),
            _buckets(group.gaps),
        )
        for labels, group in tally.groups.items()
    ]
    made = Snapshot(
        groups=groups,
        refusals=list(tally.refusals.items()),
        events=tally.events,
        keepalives=tally.keepalives,
        holds=_buckets(tally.holds),
        settlements=_buckets(tally.settlements),
        batches=_buckets(batches),
    )
    return msgspec.structs.replace(made, **changes)


def resume(before: Snapshot, tally: Tally, batches: Histogram) -> None:
    """Let a new process count on from where a dead one stopped; nothing that was open then is open now."""
    for figures in before.groups:
        group = tally.group(figures.labels)
        for mine, theirs in (
            (group.outcomes, figures.outcomes),
            (group.answered_released, figures.answered_released),
            (group.flags, figures.flags),
        ):
            mine.update(theirs)
        group.stalls, group.charged_nanos = figures.stalls, figures.charged_nanos
        _fill(group.first_event, figures.first_event)
        _fill(group.gaps, figures.gaps)
    tally.refusals.update(dict(before.refusals))
    tally.events, tally.keepalives = before.events, before.keepalives
    _fill(tally.holds, before.holds)
    _fill(tally.settlements, before.settlements)
    _fill(batches, before.batches)


def total(living: Sequence[Snapshot], dead: Iterable[Snapshot] = ()) -> Snapshot:
    """The sum; of `dead` processes only what they counted."""
    everybody = [*living, *dead]
    by_labels: dict[Labels, GroupFigures] = {}
    for each in everybody:
        alive = any(each is other for other in living)
        for group in each.groups:
            told = group if alive else msgspec.structs.replace(group, open=0, draining=0)
            before = by_labels.get(group.labels)
            by_labels[group.labels] = told if before is None else _group_sum(before, told)
    refusals: Counter[tuple[str, str]] = Counter()
    for each in everybody:
        refusals.update(dict(each.refusals))
    lives = [each.live for each in living if each.live is not None]
    return Snapshot(
        draining=bool(living) and all(each.draining for each in living),
        ledger_reachable=all(each.ledger_reachable for each in living),
        ledger_queue=sum(each.ledger_queue for each in living),
        groups=list(by_labels.values()),
        refusals=list(refusals.items()),
        events=sum(each.events for each in everybody),
        keepalives=sum(each.keepalives for each in everybody),
        holds=_sum([each.holds for each in everybody], LEDGER_S),
        settlements=_sum([each.settlements for each in everybody], LEDGER_S),
        batches=_sum([each.batches for each in everybody], BATCH_OPERATIONS),
        history=_history(living),
        live=[stream for live in lives for stream in live] if lives else None,
    )


def encode(told: Snapshot) -> bytes:
    """For the board. Pages of live streams that do not fit are left out, the oldest last."""
    encoded = msgspec.msgpack.encode(told)
    live = told.live
    while len(encoded) > limits.FIGURES_BYTES_MAX and live:
        live = live[: len(live) // 2]
        encoded = msgspec.msgpack.encode(msgspec.structs.replace(told, live=live))
    if len(encoded) > limits.FIGURES_BYTES_MAX:
        encoded = msgspec.msgpack.encode(msgspec.structs.replace(told, live=None, history=[], groups=[]))
    return encoded


_decoder = msgspec.msgpack.Decoder(Snapshot)


def decode(encoded: bytes) -> Snapshot | None:
    """What `encode` made; None for what another version made, or nothing."""
    try:
        return _decoder.decode(encoded)
    except msgspec.MsgspecError:
        return None


def _group_sum(one: GroupFigures, other: GroupFigures) -> GroupFigures:
    return GroupFigures(
        one.labels,
        one.open + other.open,
        one.draining + other.draining,
        _added(one.outcomes, other.outcomes),
        _added(one.answered_released, other.answered_released),
        _added(one.flags, other.flags),
        one.stalls + other.stalls,
        one.charged_nanos + other.charged_nanos,
        _sum([one.first_event, other.first_event], FIRST_EVENT_S),
        _sum([one.gaps, other.gaps], GAP_S),
    )


def _added(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}


def _buckets(histogram: Histogram) -> Buckets:
    return Buckets(list(histogram.counts), histogram.sum)


def _sum(histograms: Iterable[Buckets], bounds: Sequence[float]) -> Buckets:
    counts, total_sum = [0] * (len(bounds) + 1), 0.0
    for each in histograms:
        counts = [one + other for one, other in zip(counts, each.counts, strict=True)]
        total_sum += each.sum
    return Buckets(counts, total_sum)


def _fill(histogram: Histogram, buckets: Buckets) -> None:
    if len(buckets.counts) == len(histogram.counts):
        histogram.counts, histogram.sum = list(buckets.counts), buckets.sum


def _history(living: Iterable[Snapshot]) -> list[Sample]:
    by_time: dict[int, Sample] = {}
    for each in living:
        for sample in each.history:
            before = by_time.get(sample.at_s, Sample(sample.at_s))
            by_time[sample.at_s] = Sample(
                sample.at_s,
                before.open + sample.open,
                before.draining + sample.draining,
                before.events + sample.events,
                before.ended + sample.ended,
                before.failed + sample.failed,
                before.charged_nanos + sample.charged_nanos,
                before.first_event_s + sample.first_event_s,
                before.first_events + sample.first_events,
            )
    return [by_time[at_s] for at_s in sorted(by_time)]
