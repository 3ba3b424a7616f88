"""A client that comes back to its stream gets what it missed, and the original's end."""

from __future__ import annotations

import pytest
import trio

from tests.support.harness import gateway
from tests.support.provider import Pause, sse
from tests.support.streams import SAMPLES

ALL = list(SAMPLES.values())
KINDS = ["chat", "responses", "messages", "gemini", "gemini_array"]
each_kind = pytest.mark.parametrize("kind", KINDS)


def sample_of(kind):
    return SAMPLES[kind.removesuffix("_array")]


def paced(kind):
    """The sample's events, a second apart."""
    return sse(*[step for event in sample_of(kind).events for step in (event, Pause(1))])


def told(response):
    """The events of an answer to .../events, as (number, data)."""
    found = []
    for block in response.blocks:
        fields = dict(line.split(b": ", 1) for line in block.split(b"\n") if not line.startswith(b":"))
        if fields:
            found.append((int(fields[b"id"]), fields[b"data"]))
    return found


def payloads(kind):
    return [event.split(b"data: ")[1].removesuffix(b"\n\n") for event in sample_of(kind).events]


@each_kind
async def test_all_events_come_again_numbered_from_one(kind, autojump_clock, tmp_path):
    async with gateway(paced(kind), spool=tmp_path) as world:
        original = await world.call(kind)
        again = await world.get(f"/v1/requests/{original.headers['x-request-id']}/events")
    assert again.status == 200
    assert again.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert again.headers["x-request-id"] == original.headers["x-request-id"]
    assert told(again) == list(enumerate(payloads(kind), 1))
    assert again.clean


@each_kind
async def test_cut_at_every_event_the_rest_comes(kind, autojump_clock, tmp_path):
    async with gateway(paced(kind), spool=tmp_path) as world:
        events = payloads(kind)
        for cut in range(len(events)):
            client = await world.start(kind)
            await trio.sleep(0.5 + cut)
            request_id = (await world.ledger.requests(_all()))[0].id
            await client.leave()
            await trio.sleep(0.1)
            again = await world.get(f"/v1/requests/{request_id}/events?after={cut}")
            assert told(again) == list(enumerate(events, 1))[cut:]
            assert again.clean
            record = await world.ledger.request(request_id)
            assert (record.state, record.charge_nanos) == ("captured", sample_of(kind).charge_nanos)
        assert len(world.provider.seen) == len(events)


def _all():
    from hoptrio.ledger.model import RequestFilter

    return RequestFilter()
