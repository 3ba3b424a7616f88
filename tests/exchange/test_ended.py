"""What is counted and told of a stream as it runs and when it is over, in virtual time on a whole gateway."""

from __future__ import annotations

import trio

from hoptrio.telemetry.tally import Labels
from tests.support.harness import channels, gateway, settings
from tests.support.provider import Cut, Pause, plain, sse

ROLE = b'data: {"choices":[{"index":0,"delta":{"role":"assistant"}}]}\n\n'
HELLO = b'data: {"choices":[{"index":0,"delta":{"content":"Hello"}}]}\n\n'
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":7}}\n\n'
STOP = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
DONE = b"data: [DONE]\n\n"
WHOLE = sse(ROLE, Pause(2), HELLO, Pause(0.2), HELLO, STOP, USAGE, DONE)
ONE = Labels("chat", "m", "one")


def group(world, labels=ONE):
    return world.gateway.tally.groups[labels]


async def test_a_whole_stream_is_counted_by_what_it_was(autojump_clock):
    async with gateway(WHOLE) as world:
        await world.call()
        await world.settled()
        tally, counted = world.gateway.tally, group(world)
    assert counted.outcomes == {"complete": 1}
    assert (counted.open, counted.draining, counted.stalls, counted.answered_released) == (0, 0, 0, {})
    assert counted.charged_nanos == 5 * 1000 + 7 * 2000
    # The role opens the stream at once; the gaps are those between reads of the answer.
    assert (counted.first_event.count, counted.first_event.sum < 0.1) == (1, True)
    assert counted.gaps.sum >= 0.2
    assert tally.events >= 4
    assert (tally.holds.count, tally.settlements.count) == (1, 1)
    assert world.ledger.batches.count > 0


async def test_a_stream_is_open_while_it_runs_and_draining_once_its_client_has_left(autojump_clock):
    async with gateway(sse(ROLE, HELLO, Pause(60), HELLO, Pause(60), STOP, USAGE, DONE)) as world:
        client = await world.start()
        await trio.sleep(5)
        assert (group(world).open, group(world).draining) == (1, 0)
        [live] = world.gateway.registry.newest(10)
        assert (live.account, live.channel, live.left, live.events) == ("acme", "one", False, 2)
        assert [event for _, event in live.timeline] == ["held", "dispatched", "headers", "first_event"]
        await client.leave()
        await trio.sleep(70)
        assert (group(world).open, group(world).draining) == (1, 1)
        assert world.gateway.registry.newest(10)[0].left
        await world.settled()
        assert (group(world).open, group(world).draining) == (0, 0)
        assert group(world).outcomes == {"complete": 1}


async def test_output_that_is_released_is_counted_by_its_reason(autojump_clock):
    async with gateway(sse(ROLE, HELLO, Cut(), end=False)) as world:
        await world.call()
        await world.settled()
    assert group(world).outcomes == group(world).answered_released == {"truncated": 1}


async def test_a_stall_and_the_keep_alives_before_it_are_counted(autojump_clock):
    async with gateway(sse(ROLE, HELLO, Pause(300))) as world:
        response = await world.call()
        await world.settled()
    assert (group(world).stalls, group(world).outcomes) == (1, {"stalled": 1})
    seen = sum(line.startswith(b":") for line in response.body.split(b"\n"))
    assert world.gateway.tally.keepalives == seen > 10


async def test_a_refusal_is_counted_by_its_code(autojump_clock):
    async with gateway(deposit="0") as world:
        await world.call()
        await world.call(secret="sk-wrong")
        await world.call(body={"model": "none", "messages": []})
        refusals = world.gateway.tally.refusals
    assert refusals == {
        ("chat", "credit_balance_exhausted"): 1,
        ("chat", "invalid_api_key"): 1,
        ("chat", "model_not_found"): 1,
    }


async def test_a_second_attempt_is_counted_where_it_went(autojump_clock):
    config = channels("a", "b", priority=0)
    config["channels"]["a"]["priority"] = 1
    hosts = {"a": [plain(500, b"{}")], "b": [WHOLE]}
    async with gateway(config=config, contract="hopbase", hosts=hosts) as world:
        await world.call()
        await world.settled()
        groups = world.gateway.tally.groups
    assert {labels.channel: each.outcomes for labels, each in groups.items()} == {"a": {}, "b": {"complete": 1}}
    assert all(each.open == 0 for each in groups.values())


async def test_whoever_watches_is_told_of_a_stream_behind_its_last_byte(autojump_clock):
    told = []
    async with gateway(WHOLE) as world:
        world.gateway.observers.append(told.append)
        response = await world.call(headers={"traceparent": "00-1-2-01"})
        await world.settled()
    [end] = told
    assert end.record.id == response.headers["x-request-id"]
    assert (end.record.state, end.record.charge_nanos) == ("captured", 19_000)
    assert (end.account, end.spoken, end.settled, end.traceparent) == ("acme", "chat", True, "00-1-2-01")
    assert end.events >= 4
    assert end.first_event_ms is not None


async def test_an_observer_that_fails_harms_no_stream(autojump_clock):
    told = []

    def fails(end):
        raise RuntimeError("a bug")

    async with gateway(WHOLE, config=settings()) as world:
        world.gateway.observers += [fails, told.append]
        response = await world.call()
        await world.settled()
    assert response.status == 200
    assert len(told) == 1
