"""Embeddings: relayed whole over chat channels, held by the bytes of the input, charged by the usage in the body."""

from __future__ import annotations

import json

import pytest

from hoptrio.limits import QUOTE_MARGIN_TOKENS
from hoptrio.metering.tokens import count_tokens
from tests.support.harness import NANOS_PER_INPUT, channels, gateway, settings
from tests.support.provider import Cut, plain
from tests.support.raw import ask, assert_nothing_held, assert_shape, request

PATH = "/v1/embeddings"
MODELS = {"m": {"input": "1", "max_input_tokens": 1000}}
CONFIG = settings(models=MODELS)
BODY = {"model": "m", "input": "The food was delicious.", "encoding_format": "base64"}
ANSWER = {
    "object": "list",
    "data": [{"object": "embedding", "index": 0, "embedding": "AACAPwAAAMA="}],
    "model": "theirs",
    "usage": {"prompt_tokens": 8, "total_tokens": 8},
}
WITHOUT = {name: value for name, value in ANSWER.items() if name != "usage"}


def served(answer=ANSWER):
    return plain(200, json.dumps(answer).encode())


async def embed(world, body=BODY, *, secret=None):
    lines = {"authorization": f"Bearer {secret or world.secret}"}
    return await ask(world, request("POST", PATH, lines, json.dumps(body).encode()))


async def test_the_answer_is_relayed_as_it_came_and_charged_by_its_usage(autojump_clock):
    async with gateway(served(), config=CONFIG) as world:
        response = await embed(world)
        assert (response.status, response.body) == (200, json.dumps(ANSWER).encode())
        (seen,) = world.provider.seen
        assert seen.head.startswith(b"POST /v1/embeddings HTTP/1.1\r\n")
        assert json.loads(seen.body) == BODY
        record = await world.record(response)
        assert (record.state, record.evidence, record.protocol, record.stream) == (
            "captured",
            "json_body",
            "chat",
            False,
        )
        assert record.flags == ()
        assert record.hold_nanos == (len(seen.body) + QUOTE_MARGIN_TOKENS) * NANOS_PER_INPUT
        assert response.headers["x-hoptrio-hold"] == f"{record.hold_nanos / 10**9:.6f}".rstrip("0")
        await assert_nothing_held(world, charged_nanos=8 * NANOS_PER_INPUT)


async def test_a_usage_beyond_the_hold_is_clamped_to_it(autojump_clock):
    many = {**ANSWER, "usage": {"prompt_tokens": 10**6, "total_tokens": 10**6}}
    async with gateway(served(many), config=CONFIG) as world:
        record = await world.record(await embed(world))
        assert (record.charge_nanos, record.flags) == (record.hold_nanos, ("clamped",))
        await assert_nothing_held(world, charged_nanos=record.hold_nanos)


@pytest.mark.parametrize(
    ("given", "opaque"),
    [
        ("text", False),
        (["one", "two"], False),
        ([1, 2, 3], False),
        ([[1, 2], [3]], False),
        ([{"image": "https://a.example/b.png"}], True),
        ([["one"]], True),
    ],
)
async def test_what_is_no_text_is_held_for_at_the_models_most(given, opaque, autojump_clock):
    async with gateway(served(), config=CONFIG) as world:
        response = await embed(world, {"model": "m", "input": given})
        record = await world.record(response)
        assert (record.hold_nanos == 1000 * NANOS_PER_INPUT) is opaque


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({**BODY, "stream": True}, "stream"),
        ({**BODY, "stream": "yes"}, "stream"),
        ({"model": "m"}, "input"),
        ({**BODY, "input": 3}, "input"),
        ({"input": "x"}, "model"),
        ({**BODY, "service_tier": "priority"}, "service_tier"),
        ({**BODY, "models": ["m", "n"]}, "models"),
    ],
)
async def test_what_cannot_be_served_is_a_400_that_names_the_parameter(body, param, autojump_clock):
    async with gateway(served(), config=CONFIG) as world:
        response = await embed(world, body)
        assert_shape(response, "chat", 400)
        assert response.json["error"]["param"] == param
        assert not world.provider.seen
        await assert_nothing_held(world)


async def test_a_stream_of_embeddings_is_refused_in_clear_words(autojump_clock):
    async with gateway(served(), config=CONFIG) as world:
        response = await embed(world, {**BODY, "stream": True})
        assert_shape(response, "chat", 400, "unsupported_parameter")
        assert "not streamed" in response.json["error"]["message"]
        assert (await embed(world, {**BODY, "stream": False})).status == 200


async def test_a_tier_with_a_price_is_charged_by_it(autojump_clock):
    tiers = {"priority": {"input": "3"}}
    config = settings(models={"m": {**MODELS["m"], "tiers": tiers}})
    async with gateway(served(), config=config) as world:
        record = await world.record(await embed(world, {**BODY, "service_tier": "priority"}))
        assert record.hold_nanos > 3 * len(BODY["input"]) * NANOS_PER_INPUT
        # The answer does not say which tier it was.
        assert record.charge_nanos == 8 * NANOS_PER_INPUT


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": -1}, {"prompt_tokens": 2.5}, {"total_tokens": 8}])
async def test_without_evidence_nothing_is_charged_and_the_answer_is_a_502(usage, autojump_clock):
    async with gateway(served({**ANSWER, "usage": usage}), config=CONFIG) as world:
        response = await embed(world)
        assert_shape(response, "chat", 502, retry=True)
        record = await world.record(response)
        assert (record.state, record.reason, record.evidence) == ("released", "no_evidence", "none")
        await assert_nothing_held(world)


@pytest.mark.parametrize(
    ("given", "tokens"), [("The food was delicious.", None), ([7, 8, 9], 3), ([[7, 8], [9, 10]], 4)]
)
async def test_where_interrupted_output_is_charged_the_input_is_measured(given, tokens, autojump_clock):
    async with gateway(served(WITHOUT), config=CONFIG, contract="hopbase") as world:
        response = await embed(world, {**BODY, "input": given})
        assert (response.status, response.json) == (200, WITHOUT)
        record = await world.record(response)
        assert (record.state, record.reason, record.evidence) == ("captured", "no_evidence", "estimated")
        expected = count_tokens([given]) if tokens is None else tokens
        await assert_nothing_held(world, charged_nanos=expected * NANOS_PER_INPUT)


async def test_where_interrupted_output_is_charged_no_answer_is_nothing(autojump_clock):
    async with gateway(served({"object": "list", "data": []}), config=CONFIG, contract="hopbase") as world:
        assert (await world.record(await embed(world))).state == "released"
        await assert_nothing_held(world)


@pytest.mark.parametrize(
    ("script", "status"),
    [
        (plain(400, b'{"error": {"message": "too long", "type": "invalid_request_error"}}'), 400),
        (plain(429, b"{}"), 429),
        (plain(500, b"{}"), 502),
        ([b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{", Cut()], 502),
        ([b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 9\r\n\r\ndata: {}\n"], 502),
    ],
)
async def test_a_failure_of_the_provider_releases_the_hold(script, status, autojump_clock):
    async with gateway(script, config=CONFIG) as world:
        response = await embed(world)
        assert response.status == status
        assert (await world.record(response)).state == "released"
        await assert_nothing_held(world)


async def test_an_account_that_cannot_pay_asks_nobody(autojump_clock):
    async with gateway(served(), config=CONFIG, deposit="0") as world:
        assert_shape(await embed(world), "chat", 402, "credit_balance_exhausted")
        assert not world.provider.seen


async def test_a_failed_attempt_is_mended_by_another_channel_where_the_contract_says_so(autojump_clock):
    hosts = {"one": [plain(500, b"{}")], "two": [served()]}
    config = {**channels("one", "two"), "models": MODELS}
    async with gateway(hosts=hosts, config=config, contract="hopbase") as world:
        record = await world.record(await embed(world))
        assert (record.attempts, record.channel) == (2, "two")
        await assert_nothing_held(world, charged_nanos=8 * NANOS_PER_INPUT)


async def test_only_chat_channels_serve_embeddings(autojump_clock):
    config = {**channels("one", protocols=["messages", "responses"]), "models": MODELS}
    async with gateway(hosts={"one": [served()]}, config=config) as world:
        response = await embed(world)
        assert_shape(response, "chat", 400)
        assert "embeddings" in response.json["error"]["message"]
        assert not world.hosts["one"].seen


async def test_a_model_for_embeddings_does_not_generate(autojump_clock):
    async with gateway(served(), config=CONFIG) as world:
        response = await world.call("chat")
        assert_shape(response, "chat", 400)
        assert "does not generate text" in response.json["error"]["message"]
        made = await ask(
            world,
            request(
                "POST",
                "/v1/images/generations",
                {"authorization": f"Bearer {world.secret}"},
                b'{"model": "m", "prompt": "a cat"}',
            ),
        )
        assert_shape(made, "chat", 400)
        assert "does not make images" in made.json["error"]["message"]
        await assert_nothing_held(world)


async def test_the_price_of_an_image_is_not_held_for_embeddings(autojump_clock):
    config = settings(models={"m": {**MODELS["m"], "image": "5"}})
    async with gateway(served(), config=config) as world:
        record = await world.record(await embed(world))
        assert record.hold_nanos < 10**9
        await assert_nothing_held(world, charged_nanos=8 * NANOS_PER_INPUT)


async def test_fields_that_a_channel_does_not_know_are_dropped_if_it_wants_that(autojump_clock):
    config = {**channels("one", unknown_fields="drop", models=[{"name": "m", "upstream": "theirs"}]), "models": MODELS}
    async with gateway(hosts={"one": [served()]}, config=config) as world:
        await embed(world, {**BODY, "input_type": "query"})
        assert json.loads(world.hosts["one"].seen[0].body) == {**BODY, "model": "theirs"}
