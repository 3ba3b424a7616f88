"""``/metrics``: what is counted where it happens is told in the format that Prometheus reads, summed over processes."""

from __future__ import annotations

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from hoptrio.control.figures import Figures
from hoptrio.control.metrics import metrics
from hoptrio.ledger.memory import MemoryStore
from hoptrio.ledger.store import StoreUnavailable
from hoptrio.telemetry.board import Told
from hoptrio.telemetry.snapshot import snapshot
from hoptrio.telemetry.tally import BATCH_OPERATIONS, Histogram, Meter, Tally
from tests.support.controlling import controlling


class Board:
    """What two workers told, one of them dead by now."""

    def __init__(self, *told):
        self._told = told

    def read(self):
        return self._told


def counted(*, streams):
    """A process that ran so many streams to their end, and has one open whose client has left."""
    tally = Tally()
    for _ in range(streams):
        meter = Meter(tally, "chat", "m", "one")
        meter.first_event(0.3)
        meter.moved(1.0, 2)
        meter.moved(1.2, 5)
        meter.settled("complete", 250, ("clamped",), answered=True)
        meter.close()
    meter = Meter(tally, "chat", "m", "one")
    meter.kept_alive()
    meter.left()
    meter.stalled()
    meter.settled("stalled", None, (), answered=True)
    tally.refused("chat", "invalid_api_key")
    tally.settlements.observe(0.004)
    batches = Histogram(BATCH_OPERATIONS)
    batches.observe(3)
    return snapshot(tally, batches, pid=1)


async def scrape(control):
    text = (await metrics(control.office)).decode()
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def where(name, **labels):
    return (name, *sorted(labels.items()))


async def test_counters_are_summed_over_processes_dead_ones_included_and_gauges_over_the_living(control):
    control.office.figures = Figures(Board(Told(counted(streams=2), True), Told(counted(streams=3), False)))
    told = await scrape(control)
    group = {"protocol": "chat", "model": "m", "channel": "one"}
    assert told[where("hoptrio_workers")] == 1
    assert told[where("hoptrio_streams_open", **group)] == 1
    assert told[where("hoptrio_streams_draining", **group)] == 1
    assert told[where("hoptrio_streams_total", **group, outcome="complete")] == 5
    assert told[where("hoptrio_streams_total", **group, outcome="stalled")] == 2
    assert told[where("hoptrio_released_after_output_total", **group, outcome="stalled")] == 2
    assert told[where("hoptrio_evidence_flags_total", **group, flag="clamped")] == 5
    assert told[where("hoptrio_requests_refused_total", protocol="chat", code="invalid_api_key")] == 2
    assert told[where("hoptrio_events_total")] == 25
    assert told[where("hoptrio_keepalives_total")] == 2
    assert told[where("hoptrio_stalls_total", **group)] == 2
    # le is cumulative.
    first = "hoptrio_time_to_first_event_seconds_bucket"
    assert [told[where(first, **group, le=le)] for le in ("0.25", "0.5", "+Inf")] == [0, 5, 5]
    assert told[where("hoptrio_event_gap_seconds_count", **group)] == 5
    assert round(told[where("hoptrio_event_gap_seconds_sum", **group)], 6) == 1.0
    assert told[where("hoptrio_settlement_seconds_bucket", le="0.005")] == 2
    assert told[where("hoptrio_ledger_batch_operations_bucket", le="4")] == 2


async def test_holds_are_told_by_their_age_and_channels_by_their_state(control):
    await control.office.pauses.pause("simulated", "")
    told = await scrape(control)
    assert told[where("hoptrio_holds_open", age="10")] == 0
    assert told[where("hoptrio_channel_paused", channel="simulated")] == 1
    assert told[where("hoptrio_channel_closed", channel="simulated", model="sim-small")] == 0
    certificate = "hoptrio_channel_certificate_expiry_timestamp_seconds"
    assert told[where(certificate, channel="simulated", model="sim-small", protocol="chat")] == 0


async def test_no_balance_is_a_metric(control):
    await control.office.ledger.create_account("acme", 123_456_789)
    text = (await metrics(control.office)).decode()
    assert "acme" not in text
    assert "balance" not in text
    assert "123" not in text


async def test_without_the_ledger_everything_else_is_told(control):
    lost = msgspec.structs.replace(counted(streams=1), ledger_reachable=False)
    control.office.figures = Figures(Board(Told(lost, True)))
    told = await scrape(control)
    assert told[where("hoptrio_ledger_reachable")] == 0
    assert not [name for name, *_ in told if name == "hoptrio_holds_open"]


async def test_a_ledger_that_fails_at_this_moment_costs_the_holds_alone():
    store = MemoryStore()
    async with controlling(store=store) as control:
        store.outage = StoreUnavailable("away")
        told = await scrape(control)
        store.outage = None
    assert not [name for name, *_ in told if name == "hoptrio_holds_open"]


async def test_prometheus_asks_with_the_token(control):
    async with control.program() as scraper:
        answer = await scraper.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert "hoptrio_build_info" in answer.text
