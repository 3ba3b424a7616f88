"""Turns on a WebSocket: events as messages, money a turn, continuations, refusals, and how either side leaves."""

from __future__ import annotations

import json

import pytest
import trio
import trio.testing
from trio_websocket import ConnectionClosed

from hoptrio import limits
from hoptrio.contract import Reason
from hoptrio.ledger.model import RequestFilter
from tests.support.harness import PRICES, channels, gateway, settings
from tests.support.provider import Cut, Pause, plain, sse
from tests.support.raw import assert_nothing_held
from tests.support.streams import CHAT, GEMINI, MESSAGES, RESPONSES
from tests.support.websocket import ENDS, UPGRADE, frame, raw_frames, talk

ITEM = RESPONSES.body["output"][0]
TEXT = [json.loads(event.split(b"data: ")[1]) for event in RESPONSES.events]


def asked(world, number=-1):
    return json.loads(world.provider.seen[number].body)


def numbered(number):
    """A whole answer with an id of its own."""
    events = [event.replace(b"resp_1", b"resp_%d" % number) for event in RESPONSES.events]
    return sse(*events)


async def test_a_turn_is_the_events_of_the_stream_a_message_each(autojump_clock):
    async with gateway(sse(*RESPONSES.events)) as world, talk(world) as client:
        assert await client.turn() == TEXT
        record = await world.only_record()
        assert (record.state, record.charge_nanos, record.stream) == ("captured", RESPONSES.charge_nanos, True)
        assert asked(world) == {"model": "m", "input": "hi", "stream": True}


async def test_turn_k_has_the_request_id_of_the_handshake_and_its_number(autojump_clock):
    async with gateway(numbered(1), numbered(2)) as world, talk(world) as client:
        await client.turn()
        await client.turn()
        shaken = dict(client.socket.handshake_headers)[b"x-request-id"].decode()
        records = await world.ledger.requests(RequestFilter())
        assert {record.id for record in records} == {f"{shaken}-1", f"{shaken}-2"}
        answer = await world.get(f"/v1/requests/{shaken}-2")
        assert answer.json["state"] == "captured"


async def test_case_74_three_turns_on_two_models_are_three_holds_at_the_right_prices(autojump_clock):
    config = settings(models={"m": PRICES, "dear": PRICES | {"input": "10", "output": "20"}})
    config["channels"]["one"]["models"] = ["m", "dear"]
    headers = {"idempotency-key": "the same for all"}
    async with (
        gateway(numbered(1), numbered(2), numbered(3), config=config) as world,
        talk(world, headers=headers) as client,
    ):
        for model in ("m", "dear", "m"):
            assert (await client.turn(model=model))[-1]["type"] == "response.completed"
        records = await world.ledger.requests(RequestFilter())
        charge = RESPONSES.charge_nanos
        assert sorted((record.model, record.charge_nanos) for record in records) == [
            ("dear", 10 * charge),
            ("m", charge),
            ("m", charge),
        ]
        await assert_nothing_held(world, charged_nanos=12 * charge)
        assert [asked(world, at)["model"] for at in range(3)] == ["m", "dear", "m"]


async def test_a_prewarm_is_answered_here_and_costs_nothing(autojump_clock):
    async with gateway(sse(*RESPONSES.events)) as world, talk(world) as client:
        developer = {"role": "developer", "content": "Be brief."}
        events = await client.turn(input=[developer], generate=False, stream=True, store=False)
        assert [event["type"] for event in events] == [
            "response.created",
            "response.in_progress",
            "response.completed",
        ]
        assert [event["sequence_number"] for event in events] == [0, 1, 2]
        response = events[-1]["response"]
        assert (response["output"], response["usage"]["total_tokens"]) == ([], 0)
        assert not world.provider.seen
        assert not await world.ledger.requests(RequestFilter())
        await client.turn(input="hi", previous_response_id=response["id"], store=False)
        said = {"type": "message", "role": "user", "content": "hi"}
        assert asked(world) == {"model": "m", "input": [developer, said], "stream": True, "store": False}
        await assert_nothing_held(world, charged_nanos=RESPONSES.charge_nanos)


async def test_a_prewarm_of_a_key_that_is_over_its_rate_is_a_429_and_none_counts(autojump_clock):
    async with gateway(sse(*RESPONSES.events)) as world:
        _, world.secret = await world.ledger.create_key("acme", rpm=1)
        async with talk(world) as client:
            for _ in range(2):
                assert (await client.turn(generate=False))[-1]["type"] == "response.completed"
            assert (await client.turn())[-1]["type"] == "response.completed"
            assert (await client.turn())[-1]["status"] == 429
            assert (await client.turn(generate=False))[-1]["status"] == 429


async def test_a_continuation_goes_upstream_as_the_whole_conversation(autojump_clock):
    async with gateway(numbered(1), numbered(2), numbered(3)) as world, talk(world) as client:
        first = (await client.turn(input="one", store=False))[-1]["response"]
        second = (await client.turn(input="two", store=False, previous_response_id=first["id"]))[-1]["response"]
        await client.turn(input=[], store=False, previous_response_id=second["id"])
        answer = first["output"][0]
        one, two = ({"type": "message", "role": "user", "content": text} for text in ("one", "two"))
        assert asked(world)["input"] == [one, answer, two, answer]


@pytest.mark.parametrize("sample", [CHAT, MESSAGES, GEMINI], ids=lambda sample: sample.kind)
async def test_a_turn_and_its_continuation_work_on_a_converted_channel(sample, autojump_clock):
    config = channels("one", protocols=[sample.kind])
    hosts = {"one": [sse(*sample.events)]}
    async with gateway(config=config, hosts=hosts) as world, talk(world) as client:
        first = await client.turn()
        assert first[-1]["type"] == "response.completed"
        text = first[-1]["response"]["output"][0]["content"][0]["text"]
        second = await client.turn(previous_response_id=first[-1]["response"]["id"])
        assert second[-1]["type"] == "response.completed"
        assert text.encode() in world.hosts["one"].seen[1].body
        await assert_nothing_held(world, charged_nanos=2 * sample.charge_nanos)


async def test_case_75_an_id_of_another_account_and_one_that_never_was_are_the_same(autojump_clock):
    async with gateway(numbered(1)) as world:
        await world.ledger.create_account("other", deposit_nanos=10**12)
        _, secret = await world.ledger.create_key("other")
        async with talk(world) as owner, talk(world, secret=secret) as other:
            await owner.turn()
            errors = [(await other.turn(previous_response_id=name))[-1] for name in ("resp_1", "resp_never")]
            for error in errors:
                del error["headers"]
            assert errors[0] == errors[1]
            assert (errors[0]["status"], errors[0]["error"]["code"]) == (400, "previous_response_not_found")
            assert len(world.provider.seen) == 1


async def test_an_own_id_that_a_provider_knows_is_left_to_it_on_another_connection(autojump_clock):
    async with gateway(numbered(1), numbered(2), numbered(3)) as world:
        async with talk(world) as client:
            await client.turn()
        async with talk(world) as client:
            await client.turn(previous_response_id="resp_1")
            assert asked(world) == {"model": "m", "input": "hi", "stream": True, "previous_response_id": "resp_1"}
            await client.turn(previous_response_id="resp_2", input="more")
            sent = asked(world)
            assert sent["previous_response_id"] == "resp_1"
            assert [item["content"] for item in sent["input"] if item["role"] == "user"] == ["hi", "more"]


async def test_a_continuation_that_fails_takes_its_parent_with_it(autojump_clock):
    scripts = [numbered(1), plain(500, b"{}"), numbered(2)]
    async with gateway(*scripts) as world, talk(world) as client:
        parent = (await client.turn(store=False))[-1]["response"]["id"]
        failed = (await client.turn(store=False, previous_response_id=parent))[-1]
        assert (failed["type"], failed["status"]) == ("error", 502)
        await client.turn(store=False, previous_response_id=parent)
        assert asked(world)["previous_response_id"] == parent


async def test_a_fork_that_fails_leaves_its_parent_to_the_lane_it_is_of(autojump_clock):
    scripts = [numbered(1), plain(500, b"{}"), numbered(2)]
    async with gateway(*scripts) as world, talk(world) as client:
        parent = (await client.turn(store=False))[-1]["response"]["id"]
        failed = (await client.turn(store=False, previous_response_id=parent, stream_id="fork"))[-1]
        assert (failed["status"], failed["stream_id"]) == (502, "fork")
        await client.turn(store=False, previous_response_id=parent)
        assert len(asked(world)["input"]) == 3


REFUSED = {
    "no key any more": (401, "invalid_api_key"),
    "a model there is not": (404, "model_not_found"),
    "too dear": (402, "credit_balance_exhausted"),
    "background": (400, "unsupported_parameter"),
    "not streaming": (400, "invalid_value"),
    "a lane's name": (400, "invalid_stream_id"),
    "no lane's name": (400, "invalid_stream_id"),
    "an unknown type": (400, "invalid_value"),
    "no JSON": (400, "invalid_json"),
    "JSON that is no object": (400, "invalid_json"),
    "no input": (400, "missing_required_parameter"),
    "an input of no kind": (400, "invalid_type"),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_what_is_refused_is_told_by_status_and_the_connection_goes_on(name, autojump_clock):
    deposit = "0" if name == "too dear" else "1000"
    async with gateway(sse(*RESPONSES.events), deposit=deposit) as world, talk(world) as client:
        match name:
            case "no key any more":
                await world.ledger.revoke_key(world.key.id)
                await client.create()
            case "a model there is not":
                await client.create(model="n")
            case "background":
                await client.create(background=True)
            case "not streaming":
                await client.create(stream=False)
            case "a lane's name":
                await client.create(stream_id="no space")
            case "no lane's name":
                await client.create(stream_id="")
            case "an unknown type":
                await client.say("response.dance")
            case "no JSON":
                await client.socket.send_message("{")
            case "JSON that is no object":
                await client.socket.send_message("[]")
            case "no input":
                await client.create(input=None)
            case "an input of no kind":
                await client.create(input=5)
            case "too dear":
                await client.create()
        error = await client.next()
        assert error["type"] == "error"
        assert (error["status"], error["error"]["code"]) == REFUSED[name]
        assert error["error"].keys() == {"type", "code", "message", "param"}
        assert error["headers"]["x-request-id"].startswith("req_")
        if name not in ("no key any more", "too dear"):
            assert await client.turn() == TEXT


async def test_a_key_that_was_revoked_ends_the_connection_too(autojump_clock):
    async with gateway(sse(*RESPONSES.events)) as world, talk(world) as client:
        await world.ledger.revoke_key(world.key.id)
        assert (await client.turn())[-1]["status"] == 401
        assert await closed(client) == 1008


async def closed(client):
    """The code that the server closes with, and nothing before it."""
    with pytest.raises(ConnectionClosed) as ended:
        await client.next()
    return ended.value.reason.code


# -- lanes -------------------------------------------------------------------------------------------------------------


def slow(number, seconds=10):
    """An answer that takes its time in the middle."""
    events = [event.replace(b"resp_1", b"resp_%d" % number) for event in RESPONSES.events]
    return sse(*events[:4], Pause(seconds), *events[4:])


async def test_lanes_run_side_by_side_and_every_event_names_its_own(autojump_clock):
    async with gateway(slow(1), slow(2)) as world, talk(world) as client:
        for lane in ("a", "b.B_-1"):
            await client.create(stream_id=lane)
        events = [await client.next() for _ in range(2 * len(TEXT))]
        for lane in ("a", "b.B_-1"):
            mine = [event for event in events if event["stream_id"] == lane]
            assert [event["type"] for event in mine] == [event["type"] for event in TEXT]
        assert trio.current_time() < 11


async def test_in_a_lane_the_next_turn_begins_when_the_last_is_over(autojump_clock):
    async with gateway(slow(1), slow(2)) as world, talk(world) as client:
        for _ in range(2):
            await client.create(stream_id="a")
        await client.rest()
        assert len(world.provider.seen) == 1
        await client.rest()
        assert trio.current_time() == pytest.approx(20, abs=1)


async def test_sixteen_turns_run_at_a_time_and_further_ones_wait(autojump_clock):
    async with gateway(slow(1)) as world, talk(world) as client:
        for number in range(20):
            await client.create(stream_id=f"lane{number}")
        await trio.sleep(5)
        assert (len(world.gateway.registry), len(world.provider.seen)) == (16, 16)
        ends = [event for event in [await client.next() for _ in range(20 * len(TEXT))] if event["type"] in ENDS]
        assert {event["stream_id"] for event in ends} == {f"lane{number}" for number in range(20)}
        await assert_nothing_held(world, charged_nanos=20 * RESPONSES.charge_nanos)


async def test_a_connection_has_32_named_lanes_at_a_time_and_the_one_without_a_name(autojump_clock):
    async with gateway(slow(1)) as world, talk(world) as client:
        for number in range(32):
            await client.create(stream_id=f"lane{number}")
        for lane in ("more", "lane3", "lane31", None):
            await client.create(stream_id=lane)
        told = [await client.next() for _ in range(35 * len(TEXT) + 1)]
        (error,) = [event for event in told if event["type"] == "error"]
        assert (error["status"], error["error"]["code"]) == (400, "websocket_stream_limit_reached")
        assert error["stream_id"] == "more"
        assert sum(event["type"] == "response.completed" for event in told) == 35
        assert (await client.turn(stream_id="more"))[-1]["type"] == "response.completed"


async def test_a_lane_without_a_turn_is_none(autojump_clock):
    async with gateway(sse(*RESPONSES.events)) as world, talk(world) as client:
        for number in range(2 * limits.WEBSOCKET_LANES_MAX):
            last = (await client.turn(stream_id=f"lane{number}"))[-1]
            assert last["type"] == "response.completed"
        await client.turn(stream_id="lane0", previous_response_id=last["response"]["id"])
        assert len(asked(world)["input"]) > 1
        assert (await client.turn(stream_id="one more"))[-1]["error"]["code"] == "invalid_stream_id"


async def test_turns_that_wait_are_bounded(autojump_clock):
    async with gateway(slow(1)) as world, talk(world) as client:
        for _ in range(limits.WEBSOCKET_QUEUE_MAX + 2):
            await client.create()
        error = next(event for event in [await client.next() for _ in range(10)] if event["type"] == "error")
        assert (error["status"], error["error"]["code"]) == (429, "rate_limit_exceeded")


# -- cancel, steer -----------------------------------------------------------------------------------------------------


async def test_a_cancelled_turn_is_drained_and_charged_and_its_lane_is_free(autojump_clock):
    async with gateway(slow(1), numbered(2)) as world, talk(world) as client:
        await client.create(stream_id="a")
        for _ in range(4):
            last = await client.next()
        await client.say("response.cancel", response_id="resp_1")
        ended = await client.next()
        assert (ended["type"], ended["stream_id"]) == ("response.cancelled", "a")
        assert ended["sequence_number"] == last["sequence_number"] + 1
        assert (ended["response"]["id"], ended["response"]["status"]) == ("resp_1", "cancelled")
        await client.create(stream_id="a")
        assert [event["type"] for event in await client.rest()] == [event["type"] for event in TEXT]
        assert trio.current_time() < 5
        await world.settled()
        await assert_nothing_held(world, charged_nanos=2 * RESPONSES.charge_nanos)
        shaken = dict(client.socket.handshake_headers)[b"x-request-id"].decode()
        record = await world.ledger.request(f"{shaken}-1")
        assert (record.state, "client_gone" in [event for _, event in record.timeline]) == ("captured", True)


async def test_a_cancel_without_an_id_means_the_turn_of_its_lane(autojump_clock):
    async with gateway(slow(1), slow(2)) as world, talk(world) as client:
        await client.create()
        await client.create(stream_id="a")
        await trio.sleep(1)
        await client.say("response.cancel", stream_id="a")
        events = [await client.next() for _ in range(9)]
        assert [event["stream_id"] for event in events if event["type"] == "response.cancelled"] == ["a"]
        assert (await client.rest())[-1]["type"] == "response.completed"


async def test_there_is_nothing_to_cancel_where_nothing_runs(autojump_clock):
    async with gateway(sse(*RESPONSES.events)) as world, talk(world) as client:
        await client.say("response.cancel", response_id="resp_1")
        assert (await client.next())["error"]["code"] == "response_not_found"
        assert await client.turn() == TEXT


async def test_a_steer_is_given_back(autojump_clock):
    async with gateway(slow(1)) as world, talk(world) as client:
        await client.say("response.steer", previous_response_id="resp_1", input="left")
        event = await client.next()
        assert event["type"] == "response.steer.failed"
        assert event["steer"] == {"previous_response_id": "resp_1", "input": "left"}
        assert (event["error"]["type"], event["error"]["code"]) == ("invalid_request_error", "response_not_found")
        await client.create(stream_id="a")
        await client.next()
        await client.say("response.steer", previous_response_id="resp_1", input=[{"role": "user", "content": "left"}])
        events = await client.rest()
        event = next(each for each in events if each["type"] == "response.steer.failed")
        assert (event["error"]["code"], event["stream_id"]) == ("steering_not_supported", "a")


async def test_an_acknowledgement_is_not_answered(autojump_clock):
    async with gateway(sse(*RESPONSES.events)) as world, talk(world) as client:
        await client.say("response.processed", response_id="resp_1")
        assert await client.turn() == TEXT


# -- the end of a turn, by contract ------------------------------------------------------------------------------------

CUT = [*sse(*RESPONSES.events[:5], end=False), Cut()]


@pytest.mark.parametrize("contract", ["hopbase", "hoptrio"])
async def test_an_answer_that_breaks_off_ends_in_response_failed_and_the_connection_goes_on(contract, autojump_clock):
    async with gateway(CUT, numbered(2), contract=contract) as world, talk(world) as client:
        events = await client.turn(stream_id="a")
        assert events[-1]["type"] == "response.failed"
        assert (events[-1]["response"]["id"], events[-1]["sequence_number"]) == ("resp_1", 5)
        assert events[-1]["stream_id"] == "a"
        assert (await client.turn())[-1]["type"] == "response.completed"
        records = {record.reason for record in await world.ledger.requests(RequestFilter())}
        assert records == {None, "truncated"}


async def test_where_the_contract_truncates_the_connection_breaks_off_too(autojump_clock):
    async with gateway(CUT, contract="anypath") as world, talk(world) as client:
        await client.create()
        for event in TEXT[:5]:
            assert await client.next() == event
        assert await closed(client) == 1011
        await assert_nothing_held(world)


async def test_a_providers_failure_is_told_as_it_is(autojump_clock):
    async with gateway(sse(*RESPONSES.events[:6], RESPONSES.error, end=False)) as world, talk(world) as client:
        events = await client.turn()
        assert events[-1] == json.loads(RESPONSES.error.split(b"data: ")[1])
        assert (await client.turn())[-1]["type"] == "response.failed"


async def test_nothing_is_written_to_keep_a_turn_alive_and_its_failure_keeps_its_status(autojump_clock):
    late = [Pause(45), *plain(429, b"{}")]
    async with gateway(late) as world, talk(world) as client:
        error = (await client.turn())[-1]
        assert (error["type"], error["status"]) == ("error", 429)
        assert trio.current_time() == pytest.approx(45, abs=1)


async def test_what_no_message_can_hold_is_left_out(autojump_clock):
    odd = [
        b"event: response.in_progress\ndata: not json\n\n",
        b'event: response.in_progress\ndata: {"sequence_number": 2,\ndata: "response": {"id": "resp_1"}}\n\n',
        b"event: response.queued\ndata: {}\n\n",
    ]
    async with gateway(sse(RESPONSES.events[0], *odd, *RESPONSES.events[2:])) as world, talk(world) as client:
        events = await client.turn(stream_id="a")
        assert events[1] == {
            "type": "response.in_progress",
            "stream_id": "a",
            "sequence_number": 2,
            "response": {"id": "resp_1"},
        }
        assert events[2]["type"] == "response.output_item.added"


async def test_items_that_the_terminal_does_not_repeat_are_continued_all_the_same(autojump_clock):
    bare = [
        *RESPONSES.events[:-1],
        RESPONSES.events[-1].replace(json.dumps([ITEM], separators=(",", ":")).encode(), b"[]"),
    ]
    async with gateway(sse(*bare)) as world, talk(world) as client:
        response = (await client.turn(store=False))[-1]["response"]
        assert response["output"] == []
        await client.turn(store=False, previous_response_id="resp_1")
        assert asked(world)["input"][1] == ITEM


# -- leaving -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["close", "cut"])
async def test_a_client_that_leaves_in_the_middle_is_drained_and_charged(way, autojump_clock):
    async with gateway(slow(1), slow(2)) as world:
        async with talk(world) as client:
            for lane in ("a", "b"):
                await client.create(stream_id=lane)
            await client.create(stream_id="a", input="never begun")
            for _ in range(4):
                await client.next()
            if way == "close":
                await client.socket.aclose()
        await world.settled()
        records = await world.ledger.requests(RequestFilter())
        assert [(record.state, record.charge_nanos) for record in records] == [("captured", 19000)] * 2
        await assert_nothing_held(world, charged_nanos=2 * RESPONSES.charge_nanos)


@pytest.mark.parametrize("way", ["close", "cut", "cancel"])
async def test_a_client_that_leaves_at_any_event_is_settled_once(way, autojump_clock):
    script = sse(*(step for event in RESPONSES.events for step in (Pause(1), event)))
    async with gateway(script) as world:
        for heard in range(1, len(TEXT)):
            async with talk(world) as client:
                await client.create()
                for _ in range(heard):
                    await client.next()
                if way == "close":
                    await client.socket.aclose()
                elif way == "cancel":
                    await client.say("response.cancel")
                    assert (await client.next())["type"] == "response.cancelled"
        await world.settled()
        records = await world.ledger.requests(RequestFilter())
        assert {(record.state, record.reason) for record in records} == {("captured", None)}
        await assert_nothing_held(world, charged_nanos=(len(TEXT) - 1) * RESPONSES.charge_nanos)


@pytest.mark.parametrize("at_s", [0, 0.5, 2])
async def test_a_client_that_leaves_before_the_dispatch_pays_nothing(at_s, autojump_clock):
    async with gateway(sse(*RESPONSES.events)) as world:
        world.provider.connect_s = 3
        async with talk(world) as client:
            await client.create()
            await trio.sleep(at_s)
        await world.settled()
        assert not world.provider.seen
        await assert_nothing_held(world)


async def test_a_client_that_takes_nothing_for_30_seconds_has_left(autojump_clock):
    ours, theirs = trio.testing.lockstep_stream_pair()
    async with gateway(sse(*RESPONSES.events[:4], Pause(60), *RESPONSES.events[4:])) as world:
        client = world.attach(ours, theirs)
        frames = await raw_frames(client, world.secret)
        await client.send(frame(1, b'{"type":"response.create","model":"m","input":"hi"}'))
        assert (await frames.next())[0] == 1
        await trio.sleep(29)
        assert world.backlogs.bytes > 0
        await trio.sleep(12)
        assert world.backlogs.bytes == 0
        assert len(world.gateway.registry) == 1
        await world.settled()
        await assert_nothing_held(world, charged_nanos=RESPONSES.charge_nanos)


async def test_a_client_that_lags_by_more_than_its_backlog_has_left(autojump_clock):
    ours, theirs = trio.testing.lockstep_stream_pair()
    large = RESPONSES.answer[2].replace(b"Hel", b"x" * 2**20)
    script = sse(*RESPONSES.events[:4], Pause(1), *[large] * 6, *RESPONSES.events[4:])
    async with gateway(script) as world:
        client = world.attach(ours, theirs)
        frames = await raw_frames(client, world.secret)
        await client.send(frame(1, b'{"type":"response.create","model":"m","input":"hi"}'))
        await frames.next()
        await world.settled()
        assert trio.current_time() < 10
        assert world.backlogs.bytes == 0
        record = await world.only_record()
        assert "client_gone" in [event for _, event in record.timeline]
        await assert_nothing_held(world, charged_nanos=RESPONSES.charge_nanos)


async def test_an_event_larger_than_the_backlog_reaches_a_client_that_keeps_up(autojump_clock):
    large = RESPONSES.answer[2].replace(b"Hel", b"x" * (5 * 2**20))
    async with gateway(sse(*RESPONSES.events[:4], large, *RESPONSES.events[4:])) as world:
        client = world.connect()
        frames = await raw_frames(client, world.secret)
        await client.send(frame(1, b'{"type":"response.create","model":"m","input":"hi"}'))
        sizes = [len((await frames.next())[1]) for _ in range(len(TEXT) + 1)]
        assert max(sizes) > 5 * 2**20


# -- the connection's own time -----------------------------------------------------------------------------------------


async def test_an_idle_connection_is_closed(autojump_clock):
    async with gateway(sse(*RESPONSES.events)) as world, talk(world) as client:
        await trio.sleep(600)
        await client.turn()
        began = trio.current_time()
        assert await closed(client) == 1000
        assert trio.current_time() - began == pytest.approx(limits.WEBSOCKET_IDLE_S, abs=1)


async def test_a_connection_lives_an_hour_and_its_last_turn_ends_first(autojump_clock):
    script = [numbered(number) for number in range(1, 6)]
    async with gateway(*script, slow(6, 100)) as world, talk(world) as client:
        for _ in range(5):
            await trio.sleep(710)
            await client.turn()
        await client.create()
        for _ in range(4):
            await client.next()
        await trio.sleep(60)
        await client.create(stream_id="late")
        events = [await client.next() for _ in range(len(TEXT) - 2)]
        errors = [event for event in events if event["type"] == "error"]
        assert [error["error"]["code"] for error in errors] == ["websocket_connection_limit_reached"] * 2
        assert [error.get("stream_id") for error in errors] == ["late", None]
        assert events[-2]["type"] == "response.completed"
        assert await closed(client) == 1000


async def test_a_drain_lets_turns_end_and_refuses_others(autojump_clock):
    async with gateway(slow(1)) as world, talk(world) as client, talk(world) as idle:
        await client.create()
        await client.create(input="waits")
        for _ in range(4):
            await client.next()
        world.gateway.draining = True
        world.drain.start()
        assert await closed(idle) == 1001
        error = await client.next()
        assert (error["status"], error["error"]["code"]) == (503, "server_shutting_down")
        await client.create(input="late")
        assert (await client.next())["status"] == 503
        assert (await client.rest())[-1]["type"] == "response.completed"
        assert await closed(client) == 1001
        await assert_nothing_held(world, charged_nanos=RESPONSES.charge_nanos)


async def test_a_shutdown_ends_turns_by_the_contract(autojump_clock):
    async with gateway(slow(1, 500)) as world, talk(world) as client:
        await client.create()
        for _ in range(4):
            await client.next()
        world.drain.start()
        world.gateway.registry.stop_all(Reason.SHUTDOWN)
        assert (await client.next())["type"] == "response.failed"
        assert await closed(client) == 1001


# -- the handshake -----------------------------------------------------------------------------------------------------


HANDSHAKES = {
    "no key": (401, {"authorization": "Bearer "}),
    "a wrong key": (401, {"authorization": "Bearer sk-wrong"}),
    "a browser from elsewhere": (403, {"origin": "https://evil.example"}),
    "no nonce": (400, {"sec-websocket-key": ""}),
    "a short nonce": (400, {"sec-websocket-key": "c2hvcnQ="}),
    "no connection token": (400, {"connection": "keep-alive"}),
    "another version": (426, {"sec-websocket-version": "8"}),
    "a body": (400, {"content-length": "3"}),
}


@pytest.mark.parametrize("name", HANDSHAKES)
async def test_a_handshake_is_refused_as_plain_http(name, autojump_clock):
    status, headers = HANDSHAKES[name]
    config = settings(server={"cors_origins": ["https://app.example"]})
    async with gateway(config=config) as world:
        response = await world.get("/v1/responses", headers=UPGRADE | headers)
        assert response.status == status
        assert response.json["error"]["message"]
        assert response.headers["x-request-id"].startswith("req_")
        assert response.headers.get("sec-websocket-version") == ("13" if name == "another version" else None)


async def test_a_contract_without_the_protocol_has_no_such_mode(autojump_clock):
    config = settings(contracts={"few": {"preset": "hoptrio", "protocols": ["chat"]}})
    async with gateway(config=config, contract="few") as world:
        assert (await world.get("/v1/responses", headers=UPGRADE)).status == 404


async def test_a_gateway_that_shuts_down_opens_none(autojump_clock):
    async with gateway() as world:
        world.gateway.draining = True
        response = await world.get("/v1/responses", headers=UPGRADE)
        assert (response.status, response.headers["retry-after"]) == (503, "1")


async def test_where_the_mode_is_off_an_upgrade_is_a_426(autojump_clock):
    async with gateway(config=settings(server={"websocket": False})) as world:
        response = await world.get("/v1/responses", headers=UPGRADE)
        assert response.status == 426
        assert response.headers["upgrade"] == "websocket"
        assert response.json["error"]["code"] == "upgrade_not_supported"


async def test_a_get_without_an_upgrade_is_a_405(autojump_clock):
    async with gateway() as world:
        assert (await world.get("/v1/responses")).status == 405
