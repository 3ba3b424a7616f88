"""Images: sold by the image, by the tokens of the answer, or by both; held for before, charged to the billionth."""

from __future__ import annotations

import json

import pytest

from hoptrio.certification.certifier import what_to_probe
from hoptrio.limits import QUOTE_MARGIN_TOKENS
from tests.support.harness import NANOS_PER_INPUT, NANOS_PER_OUTPUT, channels, gateway, settings
from tests.support.provider import plain
from tests.support.raw import ask, assert_nothing_held, assert_shape, request

PATH = "/v1/images/generations"
IMAGE_NANOS = 40_000_000
#: Three ways to sell.
BY_IMAGE = {"input": "0", "image": "0.04", "max_input_tokens": 4000}
BY_TOKENS = {"input": "1", "output": "2", "max_input_tokens": 4000, "max_output_tokens": 5000}
BY_BOTH = {**BY_TOKENS, "image": "0.04"}
BODY = {"model": "m", "prompt": "a cat", "n": 2}
PICTURES = [{"b64_json": "iVBORw0KGgo="}, {"url": "https://provider.example/a.png"}]
USAGE = {
    "input_tokens": 11,
    "output_tokens": 4160,
    "total_tokens": 4171,
    "input_tokens_details": {"text_tokens": 11, "image_tokens": 0},
}
TOKEN_NANOS = 11 * NANOS_PER_INPUT + 4160 * NANOS_PER_OUTPUT
WITHOUT = {"created": 1, "data": PICTURES}
WITH = {**WITHOUT, "usage": USAGE}


def served(answer):
    return plain(200, json.dumps(answer).encode())


def sold(prices):
    return settings(models={"m": prices})


@pytest.mark.parametrize("prices", [BY_IMAGE, BY_BOTH, {**BY_TOKENS, "makes": "images"}], ids=str)
async def test_a_model_that_makes_images_is_not_asked_for_text_and_not_probed(prices, autojump_clock):
    async with gateway(served(WITH), config=sold(prices)) as world:
        assert_shape(await world.call("chat"), "chat", 400)
        assert (await draw(world)).status == 200
        assert what_to_probe(world.gateway.catalogue) == []


@pytest.mark.parametrize("prices", [BY_TOKENS, {**BY_BOTH, "makes": "text"}], ids=str)
async def test_a_model_of_text_is_probed_and_may_make_images_too(prices, autojump_clock):
    async with gateway(served(WITH), config=sold(prices)) as world:
        assert {probed.model for probed in what_to_probe(world.gateway.catalogue)} == {"m"}
        assert (await draw(world)).status == 200


async def draw(world, body=BODY):
    lines = {"authorization": f"Bearer {world.secret}"}
    return await ask(world, request("POST", PATH, lines, json.dumps(body).encode()))


@pytest.mark.parametrize(
    ("prices", "answer", "charged"),
    [
        (BY_IMAGE, WITHOUT, 2 * IMAGE_NANOS),
        (BY_IMAGE, WITH, 2 * IMAGE_NANOS),
        (BY_TOKENS, WITH, TOKEN_NANOS),
        (BY_BOTH, WITH, TOKEN_NANOS + 2 * IMAGE_NANOS),
        (BY_BOTH, WITHOUT, 2 * IMAGE_NANOS),
        (BY_IMAGE, {"created": 1, "data": PICTURES[:1]}, IMAGE_NANOS),
    ],
)
async def test_the_answer_is_relayed_as_it_came_and_charged_as_it_is_sold(prices, answer, charged, autojump_clock):
    async with gateway(served(answer), config=sold(prices)) as world:
        response = await draw(world)
        assert (response.status, response.body) == (200, json.dumps(answer).encode())
        (seen,) = world.provider.seen
        assert seen.head.startswith(b"POST /v1/images/generations HTTP/1.1\r\n")
        assert json.loads(seen.body) == BODY
        record = await world.record(response)
        assert (record.state, record.evidence, record.flags) == ("captured", "json_body", ())
        await assert_nothing_held(world, charged_nanos=charged)


@pytest.mark.parametrize(
    ("prices", "fixed_nanos", "input_nanos"),
    [
        (BY_IMAGE, 2 * IMAGE_NANOS, 0),
        (BY_TOKENS, 2 * 5000 * NANOS_PER_OUTPUT, NANOS_PER_INPUT),
        (BY_BOTH, 2 * 5000 * NANOS_PER_OUTPUT + 2 * IMAGE_NANOS, NANOS_PER_INPUT),
    ],
)
async def test_what_is_held_is_the_most_it_can_cost(prices, fixed_nanos, input_nanos, autojump_clock):
    async with gateway(served(WITH), config=sold(prices)) as world:
        record = await world.record(await draw(world))
        size = len(world.provider.seen[0].body)
        assert record.hold_nanos == fixed_nanos + (size + QUOTE_MARGIN_TOKENS) * input_nanos


async def test_a_picture_to_begin_from_is_held_for_at_the_models_most(autojump_clock):
    async with gateway(served(WITH), config=sold(BY_TOKENS)) as world:
        record = await world.record(await draw(world, {**BODY, "image": "https://a.example/b.png"}))
        assert record.hold_nanos == 4000 * NANOS_PER_INPUT + 2 * 5000 * NANOS_PER_OUTPUT


@pytest.mark.parametrize("prices", [BY_IMAGE, BY_TOKENS])
async def test_more_than_was_asked_for_is_clamped(prices, autojump_clock):
    many = {**WITH, "data": PICTURES * 5, "usage": {**USAGE, "output_tokens": 10**6, "total_tokens": 10**6 + 11}}
    async with gateway(served(many), config=sold(prices)) as world:
        record = await world.record(await draw(world))
        assert record.flags == ("clamped",)
        most = 2 * IMAGE_NANOS if prices is BY_IMAGE else 11 * NANOS_PER_INPUT + 10_000 * NANOS_PER_OUTPUT
        await assert_nothing_held(world, charged_nanos=most)


@pytest.mark.parametrize(
    ("prices", "answer"),
    [
        (BY_TOKENS, WITHOUT),
        (BY_TOKENS, {**WITHOUT, "usage": {**USAGE, "output_tokens": -1}}),
        (BY_IMAGE, {"created": 1, "usage": USAGE}),
        (BY_IMAGE, {"created": 1, "data": None}),
        (BY_BOTH, {"created": 1, "data": {}, "usage": USAGE}),
    ],
)
async def test_without_evidence_nothing_is_charged_and_the_answer_is_a_502(prices, answer, autojump_clock):
    async with gateway(served(answer), config=sold(prices)) as world:
        response = await draw(world)
        assert_shape(response, "chat", 502, retry=True)
        assert b"b64_json" not in response.body
        record = await world.record(response)
        assert (record.state, record.reason) == ("released", "no_evidence")
        await assert_nothing_held(world)


async def test_where_interrupted_output_is_charged_what_can_be_measured_is(autojump_clock):
    async with gateway(served(WITHOUT), config=sold(BY_TOKENS), contract="hopbase") as world:
        response = await draw(world)
        assert (response.status, response.json) == (200, WITHOUT)
        record = await world.record(response)
        assert (record.evidence, record.reason) == ("estimated", "no_evidence")
        await assert_nothing_held(world, charged_nanos=2 * NANOS_PER_INPUT)


async def test_zero_tokens_for_pictures_are_suspect(autojump_clock):
    none = {**WITHOUT, "usage": {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}}
    async with gateway(served(none), config=sold(BY_TOKENS)) as world:
        record = await world.record(await draw(world))
        assert (record.charge_nanos, record.flags) == (0, ("suspect",))


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({**BODY, "stream": True}, "stream"),
        ({**BODY, "n": 0}, "n"),
        ({**BODY, "n": "2"}, "n"),
        ({**BODY, "n": 10**30}, "n"),
        ({"model": "m"}, "prompt"),
        ({"prompt": "a cat"}, "model"),
        ({**BODY, "service_tier": "priority"}, "service_tier"),
    ],
)
async def test_what_cannot_be_served_is_a_400_that_names_the_parameter(body, param, autojump_clock):
    async with gateway(served(WITH), config=sold(BY_IMAGE)) as world:
        response = await draw(world, body)
        assert_shape(response, "chat", 400)
        assert response.json["error"]["param"] == param
        assert not world.provider.seen
        await assert_nothing_held(world)


async def test_every_field_of_the_api_passes(autojump_clock):
    body = {
        **BODY,
        "background": "transparent",
        "moderation": "low",
        "output_compression": 80,
        "output_format": "webp",
        "quality": "high",
        "size": "1024x1536",
        "user": "u",
    }
    config = {**channels("one", unknown_fields="drop"), "models": {"m": BY_IMAGE}}
    async with gateway(hosts={"one": [served(WITH)]}, config=config) as world:
        assert (await draw(world, {**body, "stray": 1})).status == 200
        assert json.loads(world.hosts["one"].seen[0].body) == body


async def test_a_number_of_images_that_nobody_can_pay_for_is_a_402(autojump_clock):
    async with gateway(served(WITH), config=sold(BY_IMAGE), deposit="1") as world:
        assert_shape(await draw(world, {**BODY, "n": 10_000}), "chat", 402)
        assert not world.provider.seen
