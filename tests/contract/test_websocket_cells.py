"""The contract on a WebSocket is the contract of a POST: whatever ends a stream, under every preset, both are charged
the same and told the same, each in its own way."""

from __future__ import annotations

import json

import pytest
from trio_websocket import ConnectionClosed

from hoptrio.contract import PRESETS
from hoptrio.limits import EVENT_BYTES_MAX
from tests.support.harness import gateway
from tests.support.provider import Cut, Hang, Pause, plain, sse
from tests.support.streams import RESPONSES
from tests.support.websocket import ENDS, talk

BEGUN = [*RESPONSES.opening, *RESPONSES.answer]
NO_USAGE = RESPONSES.terminal[0].replace(b'"usage":{', b'"usage":null,"x":{')
ERROR = b'event: error\ndata: {"type":"error","sequence_number":6,"code":"server_error","message":"boom"}\n\n'
WAYS = {
    "complete": sse(*RESPONSES.events),
    "no usage": sse(*BEGUN, *RESPONSES.closing, NO_USAGE),
    "cut": sse(*BEGUN, Cut(), end=False),
    "cut before the answer": sse(*RESPONSES.opening, Cut(), end=False),
    "stalled": sse(*BEGUN, Hang(), end=False),
    "failed": sse(*BEGUN, RESPONSES.error),
    "failed at once": sse(RESPONSES.error),
    "error and nothing behind it": sse(*BEGUN, ERROR, Hang(), end=False),
    "refused": plain(400, b'{"error":{"message":"no","type":"invalid_request_error","code":"bad","param":null}}'),
    "overloaded": plain(503, b"{}"),
    "silent": [Hang()],
    "late": [Pause(100), *sse(*RESPONSES.events)],
    "too large": sse(*BEGUN, b"data: " + b"x" * (EVENT_BYTES_MAX + 1) + b"\n\n"),
    "not a stream": plain(200, b"<html>", b"text/html"),
}


def settled(record):
    return (
        record.state,
        record.reason,
        record.evidence,
        record.charge_nanos,
        record.usage,
        record.hold_nanos,
        record.flags,
        record.attempts,
        record.provider_ids,
        record.contract,
        record.stream,
    )


async def posted(way, contract):
    """The record, what the client read, and whether it could take that for whole."""
    async with gateway(WAYS[way], contract=contract) as world:
        response = await world.call("responses", {"model": "m", "stream": True, "input": "hi"})
        return settled(await world.only_record()), response


async def talked(way, contract):
    async with gateway(WAYS[way], contract=contract) as world, talk(world) as client:
        events, code = [], None
        await client.create()
        try:
            while not events or events[-1]["type"] not in ENDS or is_announced(events[-1]):
                events.append(await client.next())
        except ConnectionClosed as ended:
            code = ended.reason.code
        await world.settled()
        return settled(await world.only_record()), events, code


def is_announced(event):
    """An error event of the stream's own, behind which more comes."""
    return event["type"] == "error" and "status" not in event


def without_id(event):
    """Ids of our own failures are new each time."""
    text = json.dumps(event)
    return json.loads(text.replace(event.get("response", {}).get("id", "resp_1"), "resp"))


#: An event of 16 MiB takes its time, and its row is the same under all of them.
CELLS = [(contract, way) for contract in PRESETS for way in WAYS if way != "too large" or contract == "hoptrio"]


@pytest.mark.parametrize(("contract", "way"), CELLS)
async def test_a_turn_ends_as_the_post_that_it_is(contract, way, autojump_clock):
    record, response = await posted(way, contract)
    told_record, events, code = await talked(way, contract)
    assert told_record == record
    if response.status != 200:
        (event,) = events
        assert (event["type"], event["status"], event["error"]) == ("error", response.status, response.json["error"])
        assert code is None
        return
    told = [json.loads(each) for each in response.data]
    kept_alive = bool(response.keepalives) and events[0]["type"] == "error"
    if kept_alive:
        # A keep-alive commits a POST to its status; a turn has none, and keeps the failure's own.
        assert [each["type"] for each in told] == ["response.created", "response.failed"]
        assert events[0]["status"] >= 500
        return
    assert list(map(without_id, events)) == list(map(without_id, told))
    truncated = PRESETS[contract].failure == "truncate" and told[-1]["type"] not in ENDS
    assert code == (1011 if truncated else None)
