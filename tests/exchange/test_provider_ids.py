"""Ids that a provider made: only the account whose answer had one may refer to it, and it pins the channel."""

from __future__ import annotations

import json

import pytest

from hoptrio.admission.catalogue import Catalogue
from tests.support.harness import BODIES, gateway, settings
from tests.support.harness import RESPONSES as BODY
from tests.support.provider import plain, sse
from tests.support.raw import assert_nothing_held, assert_shape
from tests.support.streams import RESPONSES


def channel(number, **more):
    """One of several channels, told apart by the model name they send."""
    return {
        "protocols": ["chat", "responses"],
        "base_url": f"http://provider{number}.test/v1",
        "api_key": "sk-provider-secret",
        "models": [{"name": "m", "upstream": f"m{number}"}],
    } | more


THREE = settings(channels={f"c{number}": channel(number) for number in range(3)})
ANSWERED = plain(200, json.dumps(RESPONSES.body).encode())


def asked(world):
    """The channels asked so far, by the model name each was sent."""
    return [json.loads(seen.body)["model"] for seen in world.provider.seen]


async def other_account(world):
    await world.ledger.create_account("other", deposit_nanos=10**12)
    _, secret = await world.ledger.create_key("other")
    return secret


REFERENCES = {
    "previous_response_id": {"previous_response_id": "resp_1"},
    "item_reference": {"input": [{"type": "item_reference", "id": "msg_1"}]},
    "an item by its id alone": {"input": [{"id": "msg_1"}]},
}


@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.parametrize("stream", [True, False])
async def test_case_75_an_id_of_another_account_and_one_that_never_was_are_the_same_404(name, stream, autojump_clock):
    body = {**BODY, **REFERENCES[name], "stream": stream}
    async with gateway(sse(*RESPONSES.events) if stream else ANSWERED, config=THREE) as world:
        unknown = await world.call("responses", body)
        assert_shape(unknown, "responses", 404, "not_found")
        assert (await world.call("responses", {**BODY, "stream": stream})).status == 200
        foreign = await world.call("responses", body, secret=await other_account(world))
        assert foreign.json == unknown.json
        assert len(world.provider.seen) == 1
        await assert_nothing_held(world, charged_nanos=RESPONSES.charge_nanos)


@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.parametrize("stream", [True, False])
async def test_an_own_id_is_accepted_and_goes_to_the_channel_that_made_it(name, stream, autojump_clock):
    async with gateway(sse(*RESPONSES.events) if stream else ANSWERED, config=THREE) as world:
        first = await world.call("responses", {**BODY, "stream": stream})
        assert first.status == 200
        maker = asked(world)[0]
        for _ in range(4):
            response = await world.call("responses", {**BODY, **REFERENCES[name], "stream": stream})
            assert response.status == 200
        assert asked(world) == [maker] * 5


async def test_without_an_id_calls_take_turns_among_the_channels(autojump_clock):
    async with gateway(ANSWERED, config=THREE) as world:
        for _ in range(6):
            await world.call("responses", {**BODY, "stream": False})
        assert sorted(asked(world)) == ["m0", "m0", "m1", "m1", "m2", "m2"]


async def test_an_id_whose_channel_is_gone_is_a_503(autojump_clock):
    async with gateway(ANSWERED, config=THREE) as world:
        await world.call("responses", {**BODY, "stream": False})
        name = f"c{asked(world)[0].removeprefix('m')}"
        catalogue = world.gateway.catalogue
        left = {each: channel for each, channel in catalogue.channels.items() if each != name}
        world.gateway.catalogue = Catalogue(models=catalogue.models, channels=left)
        response = await world.call("responses", {**BODY, "previous_response_id": "resp_1"})
        assert_shape(response, "responses", 503, "model_unavailable")
        await assert_nothing_held(world, charged_nanos=RESPONSES.charge_nanos)


async def test_ids_of_two_channels_cannot_be_met_by_one(autojump_clock):
    second = {**RESPONSES.body, "id": "resp_2"}
    async with gateway(ANSWERED, plain(200, json.dumps(second).encode()), config=THREE) as world:
        for _ in range(2):
            await world.call("responses", {**BODY, "stream": False})
        assert len(set(asked(world))) == 2
        body = {**BODY, "previous_response_id": "resp_2", "conversation": "resp_1"}
        assert_shape(await world.call("responses", body), "responses", 404)


FILE = {**BODY, "input": [{"role": "user", "content": [{"type": "input_file", "file_id": "file_1"}]}]}


@pytest.mark.parametrize(
    ("dedicated", "status"),
    [
        ({}, 400),
        ({"route": "dedicated"}, 400),
        ({"route": "dedicated", "accounts": ["other"]}, 503),
        ({"route": "dedicated", "accounts": ["acme"]}, 200),
    ],
    ids=["shared", "dedicated to nobody", "dedicated to others", "dedicated to the account"],
)
async def test_files_pass_only_on_a_route_dedicated_to_the_account(dedicated, status, autojump_clock):
    config = settings(channels={"one": channel(1, **dedicated)})
    async with gateway(sse(*RESPONSES.events), config=config) as world:
        response = await world.call("responses", FILE)
        assert response.status == status
        assert len(world.provider.seen) == (status == 200)
        if status == 400:
            assert_shape(response, "responses", 400, "unsupported_parameter")
            assert response.json["error"]["param"] == "input[0].content[0].file_id"
        if status == 503:
            assert_shape(response, "responses", 503, "model_unavailable")


KEPT = {
    "chat": {"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "file_1"}}]}]},
    "responses": {"prompt": {"id": "pmpt_1"}},
    "messages": {"container": "container_1"},
    "gemini": {"cachedContent": "cachedContents/1"},
}


@pytest.mark.parametrize("kind", KEPT)
async def test_what_is_kept_at_a_provider_is_a_400_that_names_it_in_each_protocols_shape(kind, autojump_clock):
    async with gateway() as world:
        response = await world.call(kind, {**BODIES[kind], **KEPT[kind]})
        assert_shape(response, kind, 400, "unsupported_parameter")
        assert next(iter(KEPT[kind])) in response.json["error"]["message"]
        await assert_nothing_held(world)


async def test_a_dedicated_channel_that_cools_down_is_worth_a_retry(autojump_clock):
    limited = [b"HTTP/1.1 429 X\r\ncontent-type: application/json\r\nretry-after: 20\r\ncontent-length: 2\r\n\r\n{}"]
    made = {"one": channel(1), "two": channel(2, route="dedicated", accounts=["acme"])}
    async with gateway(limited, config=settings(channels=made)) as world:
        assert (await world.call("responses", FILE)).status == 429
        response = await world.call("responses", FILE)
        assert_shape(response, "responses", 503, "model_unavailable", retry=True)
