"""Turns on a WebSocket: events as messages, money a turn, continuations, refusals, and how either side leaves."""

from __future__ import annotations

import json

import pytest
import trio

from hoptrio import limits
from hoptrio.ledger.model import RequestFilter
from tests.support.harness import PRICES, channels, gateway, settings
from tests.support.provider import END, Pause, chunk, plain, sse
from tests.support.raw import assert_nothing_held
from tests.support.streams import CHAT, GEMINI, MESSAGES, RESPONSES
from tests.support.websocket import talk

TEXT = [json.loads(event.split(b"data: ")[1]) for event in RESPONSES.events]


def asked(world, number=-1):
    return json.loads(world.provider.seen[number].body)


def numbered(number, *, usage=True):
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
        assert asked(world) == {"model": "m", "input": [developer, said], "stream": True, "store": False} | {
            "previous_response_id": None
        }
        await assert_nothing_held(world, charged_nanos=RESPONSES.charge_nanos)


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
    async with gateway(sse(*RESPONSES.events), deposit="0" if name == "too dear" else "1000") as world:
        async with talk(world) as client:
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
