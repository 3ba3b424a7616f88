"""What happens now, on every worker of this machine."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING

from hoptrio import limits
from hoptrio.control import shapes
from hoptrio.control.operation import operation
from hoptrio.ledger.report import iso_ms
from hoptrio.money import format_nanos

if TYPE_CHECKING:
    from hoptrio.control.office import Office
    from hoptrio.telemetry.snapshot import LiveStream, Sample, Snapshot

__all__ = ["HOLD_AGES_S", "holds_by_age", "list_streams", "overview"]

#: A stream and its telling take ten minutes at most; what is older is stuck, or its process is gone.
HOLD_AGES_S = (10, 60, 300, 600, 900, 3600)


@operation("GET", "/api/overview", shapes.Nothing, shapes.Overview)
async def overview(office: Office, asked: shapes.Nothing) -> shapes.Overview:
    """The figures of all workers, and their last ten minutes."""
    workers, total = office.figures.workers(), office.figures.total()
    outcomes, refusals = _outcomes(total)
    return shapes.Overview(
        at=iso_ms(office.ledger.now_ms()),
        workers=len(workers),
        draining_workers=sum(each.draining for each in workers),
        ledger_reachable=total.ledger_reachable,
        ledger_queue=total.ledger_queue,
        open=total.open,
        draining=total.streams_draining,
        events=total.events,
        keepalives=total.keepalives,
        charged=format_nanos(sum(group.charged_nanos for group in total.groups)),
        currency=office.currency,
        outcomes=_counted(outcomes),
        refusals=_counted(refusals),
        holds_by_age=await holds_by_age(office),
        history=[_interval(each) for each in total.history],
    )


@operation("GET", "/api/streams", shapes.Nothing, list[shapes.LiveStream])
async def list_streams(office: Office, asked: shapes.Nothing) -> list[shapes.LiveStream]:
    """The streams that run now, the newest first."""
    now_ms = office.ledger.now_ms()
    return [_live(each, now_ms) for each in await office.figures.live()]


async def holds_by_age(office: Office) -> dict[str, int]:
    """Open holds of the whole ledger by the first of `HOLD_AGES_S` that they are not older than, or "older"."""
    now_ms = office.ledger.now_ms()
    names = [*(str(age_s) for age_s in HOLD_AGES_S), "older"]
    counts = dict.fromkeys(names, 0)
    for since_ms in await office.ledger.open_since_ms():
        counts[names[bisect_left(HOLD_AGES_S, (now_ms - since_ms) / 1000)]] += 1
    return counts


def _outcomes(total: Snapshot) -> tuple[Counter[str], Counter[str]]:
    outcomes: Counter[str] = Counter()
    for group in total.groups:
        outcomes.update(group.outcomes)
    refusals: Counter[str] = Counter()
    for (_, code), count in total.refusals:
        refusals[code] += count
    return outcomes, refusals


def _counted(counts: Counter[str]) -> list[shapes.Outcome]:
    return [shapes.Outcome(outcome=name, streams=count) for name, count in counts.most_common()]


def _interval(sample: Sample) -> shapes.Interval:
    mean_s = round(sample.first_event_s / sample.first_events, 4) if sample.first_events else None
    return shapes.Interval(
        at=iso_ms(sample.at_s * 1000),
        open=sample.open,
        draining=sample.draining,
        events_per_second=sample.events / limits.FIGURES_SAMPLE_S,
        ended=sample.ended,
        failed=sample.failed,
        charged=format_nanos(sample.charged_nanos),
        first_event_seconds=mean_s,
    )


def _live(found: LiveStream, now_ms: int) -> shapes.LiveStream:
    return shapes.LiveStream(
        id=found.id,
        account=found.account,
        key=found.key,
        protocol=found.protocol,
        model=found.model,
        channel=found.channel,
        contract=found.contract,
        stream=found.stream,
        created_at=iso_ms(found.created_at_ms),
        age_seconds=max(0, now_ms - found.created_at_ms) // 100 / 10,
        hold=format_nanos(found.hold_nanos),
        events=found.events,
        draining=found.left,
        timeline=[shapes.TimelineStep(at_ms=at_ms, event=event) for at_ms, event in found.timeline],
    )
