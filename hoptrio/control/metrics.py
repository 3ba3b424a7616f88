"""``/metrics``: the figures of all workers in the text format of Prometheus. Balances are none of them.

Counters are sums over all processes that were there since the server started: one that takes a dead one's place counts
on, so a restart of a worker is no reset. Holds are those of the whole ledger, whichever machine is asked: take the
maximum over machines, and the sum of everything else.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from hoptrio import __version__
from hoptrio.admission.health import Standing
from hoptrio.control.operations.now import holds_by_age
from hoptrio.errors import LedgerUnavailable
from hoptrio.telemetry.tally import BATCH_OPERATIONS, FIRST_EVENT_S, GAP_S, LEDGER_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from prometheus_client.core import Metric

    from hoptrio.control.office import Office
    from hoptrio.telemetry.snapshot import Buckets, GroupFigures, Snapshot

__all__ = ["CONTENT_TYPE", "metrics"]

CONTENT_TYPE = CONTENT_TYPE_LATEST
_GROUP = ("protocol", "model", "channel")


async def metrics(office: Office) -> bytes:
    """What Prometheus scrapes; while the ledger cannot be read, all but the holds."""
    found = office.figures.total()
    holds = None
    if found.ledger_reachable:
        with suppress(LedgerUnavailable):
            holds = await holds_by_age(office)
    registry = CollectorRegistry()
    registry.register(_Figures(office, found, holds))
    return generate_latest(registry)


class _Figures(Collector):
    """One scrape."""

    def __init__(self, office: Office, total: Snapshot, holds: Mapping[str, int] | None) -> None:
        self._office = office
        self._total = total
        self._holds = holds

    def collect(self) -> Iterator[Metric]:
        yield from self._server()
        yield from self._streams()
        yield from self._evidence()
        yield from self._ledger()
        yield from self._channels()

    def _server(self) -> Iterator[Metric]:
        workers = self._office.figures.workers()
        yield _gauge("hoptrio_build_info", "The version that answers.", ("version",), [((__version__,), 1)])
        yield _gauge("hoptrio_workers", "Worker processes that live.", (), [((), len(workers))])
        draining = sum(each.draining for each in workers)
        yield _gauge("hoptrio_workers_draining", "Of these, those that take no new streams.", (), [((), draining)])

    def _streams(self) -> Iterator[Metric]:
        groups = self._total.groups
        yield _gauge(
            "hoptrio_streams_open",
            "Streams that run, drains included.",
            _GROUP,
            [(group.labels, group.open) for group in groups],
        )
        yield _gauge(
            "hoptrio_streams_draining",
            "Streams whose client has left, read to their end for the charge.",
            _GROUP,
            [(group.labels, group.draining) for group in groups],
        )
        yield _by_name("hoptrio_streams", "Streams that ended, by how.", "outcome", groups, "outcomes")
        yield _counter(
            "hoptrio_requests_refused",
            "Requests that got no stream, by the refusal's code.",
            ("protocol", "code"),
            self._total.refusals,
        )
        yield _counter("hoptrio_events", "Events handed to clients.", (), [((), self._total.events)])
        yield _counter("hoptrio_keepalives", "Keep-alives written.", (), [((), self._total.keepalives)])
        yield _counter(
            "hoptrio_stalls",
            "Attempts in which the provider made no progress for too long.",
            _GROUP,
            [(group.labels, group.stalls) for group in groups],
        )
        yield _histogram(
            "hoptrio_time_to_first_event_seconds",
            "From the request to its first event.",
            _GROUP,
            FIRST_EVENT_S,
            [(group.labels, group.first_event) for group in groups],
        )
        yield _histogram(
            "hoptrio_event_gap_seconds",
            "Between reads that moved a model's answer.",
            _GROUP,
            GAP_S,
            [(group.labels, group.gaps) for group in groups],
        )

    def _evidence(self) -> Iterator[Metric]:
        groups = self._total.groups
        yield _by_name(
            "hoptrio_released_after_output",
            "Streams that had output and were charged nothing, by how they ended.",
            "outcome",
            groups,
            "answered_released",
        )
        yield _by_name(
            "hoptrio_evidence_flags",
            "Settlements whose evidence has a flag: clamped, suspect, mismatch and others.",
            "flag",
            groups,
            "flags",
        )

    def _ledger(self) -> Iterator[Metric]:
        total = self._total
        reachable = int(total.ledger_reachable)
        yield _gauge("hoptrio_ledger_reachable", "1: every worker can write to the ledger.", (), [((), reachable)])
        waiting = total.ledger_queue
        yield _gauge("hoptrio_ledger_queue", "Operations that wait for the ledger's writers.", (), [((), waiting)])
        yield _histogram("hoptrio_hold_seconds", "Until a hold was durable.", (), LEDGER_S, [((), total.holds)])
        yield _histogram(
            "hoptrio_settlement_seconds", "Until a settlement was durable.", (), LEDGER_S, [((), total.settlements)]
        )
        yield _histogram(
            "hoptrio_ledger_batch_operations",
            "Operations in one transaction of the ledger.",
            (),
            BATCH_OPERATIONS,
            [((), total.batches)],
        )
        if self._holds is not None:
            yield _gauge(
                "hoptrio_holds_open",
                "Open holds of the whole ledger: older than the age before, up to this one, in seconds.",
                ("age",),
                [((age,), count) for age, count in self._holds.items()],
            )

    def _channels(self) -> Iterator[Metric]:
        office = self._office
        channels = office.config.catalogue.channels.values()
        yield _gauge(
            "hoptrio_channel_paused",
            "1: an operator took the channel out of service.",
            ("channel",),
            [((each.name,), int(office.pauses.paused(each.name))) for each in channels],
        )
        yield _gauge(
            "hoptrio_channel_closed",
            "1: the channel's model is on a cool-down after failures.",
            ("channel", "model"),
            [
                ((each.name, model), int(office.breakers.condition(each.name, model).standing in _CLOSED))
                for each in channels
                for model in each.models
            ],
        )
        yield _gauge(
            "hoptrio_channel_certificate_expiry_timestamp_seconds",
            "When the channel's certificate for the model ends; 0: there is none.",
            ("channel", "model", "protocol"),
            [
                ((each.name, model, protocol), office.certificates.expires_at_ms(each, model, protocol) / 1000)
                for each in channels
                for model in each.models
                for protocol in each.base_urls
            ],
        )


_CLOSED = frozenset({Standing.COOLING, Standing.DUE, Standing.TRIED})


def _gauge(name: str, words: str, labels: Sequence[str], values: Iterable[tuple[Sequence[str], float]]) -> Metric:
    family = GaugeMetricFamily(name, words, labels=labels)
    for where, value in values:
        family.add_metric(where, value)
    return family


def _counter(name: str, words: str, labels: Sequence[str], values: Iterable[tuple[Sequence[str], float]]) -> Metric:
    """The exposition adds ``_total`` to the name."""
    family = CounterMetricFamily(name, words, labels=labels)
    for where, value in values:
        family.add_metric(where, value)
    return family


def _by_name(name: str, words: str, label: str, groups: Iterable[GroupFigures], member: str) -> Metric:
    """A counter of a group's counts by name."""
    return _counter(
        name,
        words,
        (*_GROUP, label),
        [((*group.labels, key), count) for group in groups for key, count in getattr(group, member).items()],
    )


def _histogram(
    name: str,
    words: str,
    labels: Sequence[str],
    bounds: Sequence[float],
    values: Iterable[tuple[Sequence[str], Buckets]],
) -> Metric:
    family = HistogramMetricFamily(name, words, labels=labels)
    for where, buckets in values:
        family.add_metric(where, _cumulated(bounds, buckets), buckets.sum)
    return family


def _cumulated(bounds: Sequence[float], buckets: Buckets) -> list[tuple[str, float]]:
    names = [*(f"{bound:g}" for bound in bounds), "+Inf"]
    below, found = 0, []
    for name, count in zip(names, buckets.counts, strict=True):
        below += count
        found.append((name, float(below)))
    return found
