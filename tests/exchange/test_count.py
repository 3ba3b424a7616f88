"""Counting tokens before a request: asked of the channel where it can, else counted here and said to be an estimate."""

from __future__ import annotations

import json

import pytest
import trio

from hoptrio import limits
from hoptrio.admission.health import Fault
from hoptrio.ledger.model import RequestFilter
from hoptrio.limits import ATTACHMENT_TOKENS, COUNT_ABSENT_S, COUNT_S, TURN_TOKENS
from hoptrio.metering.tokens import count_tokens
from tests.exchange.test_limits import RATE_HEADERS, wall_ms
from tests.support.harness import channels, gateway, settings
from tests.support.provider import Cut, Hang, Pause, plain
from tests.support.raw import ask, assert_nothing_held, assert_shape, request

TEXT = "How many tokens are these?"
OWN = count_tokens([TEXT]) + TURN_TOKENS
KINDS = ("messages", "responses", "gemini")
each_kind = pytest.mark.parametrize("kind", KINDS)
PATHS = {
    "messages": "/v1/messages/count_tokens",
    "responses": "/v1/responses/input_tokens",
    "gemini": "/v1beta/models/m:countTokens",
}
BODIES = {
    "messages": {"model": "m", "messages": [{"role": "user", "content": TEXT}]},
    "responses": {"model": "m", "input": TEXT},
    "gemini": {"contents": [{"role": "user", "parts": [{"text": TEXT}]}]},
}
#: What a provider of each kind answers, and under which name the count stands.
ANSWERS = {
    "messages": {"input_tokens": 77},
    "responses": {"object": "response.input_tokens", "input_tokens": 77},
    "gemini": {"totalTokens": 77, "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 77}]},
}
MEMBER = {"messages": "input_tokens", "responses": "input_tokens", "gemini": "totalTokens"}
CHAT_ONLY = channels("one", protocols=["chat"])


def told(kind):
    return plain(200, json.dumps(ANSWERS[kind]).encode())


async def counted(world, kind, body=None, *, path=None, secret=None, headers=None):
    raw = json.dumps(BODIES[kind] if body is None else body).encode()
    lines = {"authorization": f"Bearer {secret or world.secret}", **(headers or {})}
    return await ask(world, request("POST", path or PATHS[kind], lines, raw))


def assert_estimate(response, kind, tokens=OWN):
    assert response.status == 200, response.body
    assert response.json[MEMBER[kind]] == tokens
    assert response.json["estimated"] is True
    assert response.headers["x-hoptrio-estimated"] == "true"
    assert response.headers["x-request-id"].startswith("req_")


async def assert_no_trace(world):
    """Nothing held, nothing charged, nothing on record."""
    await assert_nothing_held(world)
    assert await world.ledger.requests(RequestFilter()) == []
    assert world.gateway.counts.running == 0
    assert world.gateway.load.running("one") == 0


# -- the channel counts -----------------------------------------------------------------------------------------------


@each_kind
async def test_a_channel_that_counts_is_asked_and_its_answer_is_relayed(kind, autojump_clock):
    async with gateway(told(kind)) as world:
        response = await counted(world, kind)
        assert (response.status, response.json) == (200, ANSWERS[kind])
        assert "x-hoptrio-estimated" not in response.headers
        (seen,) = world.provider.seen
        target = PATHS[kind] if kind == "gemini" else PATHS[kind].removeprefix("/v1")
        assert target in seen.head.split(b"\r\n")[0].decode()
        assert b"sk-provider-secret" in seen.head
        assert world.secret.encode() not in seen.head
        await assert_no_trace(world)


async def test_the_provider_is_told_its_own_name_of_the_model_and_the_callers_version(autojump_clock):
    config = channels("one", models=[{"name": "m", "upstream": "theirs"}])
    async with gateway(hosts={"one": [told("messages")]}, config=config) as world:
        headers = {"anthropic-version": "2026-10-21", "anthropic-beta": "token-counting-2024-11-01"}
        assert (
            await counted(world, "messages", path="/v1/messages/count_tokens?beta=true", headers=headers)
        ).status == 200
        (seen,) = world.hosts["one"].seen
        assert json.loads(seen.body) == {**BODIES["messages"], "model": "theirs"}
        assert b"/v1/messages/count_tokens?beta=true" in seen.head
        assert b"anthropic-version: 2026-10-21" in seen.head
        assert b"token-counting-2024-11-01" in seen.head


WHOLE = {"model": "models/m", "systemInstruction": {"parts": [{"text": "Be brief."}]}, **BODIES["gemini"]}


@pytest.mark.parametrize("name", ["generateContentRequest", "generate_content_request"])
async def test_google_may_count_a_whole_request(name, autojump_clock):
    config = channels("one", models=[{"name": "m", "upstream": "theirs"}])
    async with gateway(hosts={"one": [told("gemini")]}, config=config) as world:
        assert (await counted(world, "gemini", {name: WHOLE}, path="/v1/models/m:countTokens")).status == 200
        (seen,) = world.hosts["one"].seen
        assert seen.head.startswith(b"POST /v1/v1beta/models/theirs:countTokens ")
        assert json.loads(seen.body) == {"generateContentRequest": {**WHOLE, "model": "models/theirs"}}
        both = await counted(world, "gemini", {name: WHOLE, **BODIES["gemini"]})
        assert_shape(both, "gemini", 400)


async def test_fields_that_a_channel_does_not_know_are_dropped_if_it_wants_that(autojump_clock):
    config = channels("one", unknown_fields="drop")
    hosts = {"one": [told("responses")]}
    async with gateway(hosts=hosts, config=config) as world:
        await counted(world, "responses", {**BODIES["responses"], "stray": 1, "instructions": "Be brief."})
        assert json.loads(world.hosts["one"].seen[0].body).keys() == {"model", "input", "instructions"}


@each_kind
@pytest.mark.parametrize(
    ("script", "status"),
    [
        (plain(400, b'{"error": {"message": "no such role", "type": "invalid_request_error"}}'), 400),
        (plain(429, b"{}"), 429),
        (plain(401, b"{}"), 502),
        (plain(500, b"{}"), 502),
        (plain(200, b'{"tokens": 3}'), 502),
        (plain(200, b"[]"), 502),
        (plain(200, b'{"input_tokens": -1, "totalTokens": -1}'), 502),
        (plain(200, b"<html>", b"text/html"), 502),
        ([b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{", Cut()], 502),
        ([Cut()], 502),
        ([Hang()], 504),
        ([Pause(COUNT_S - 1), Hang()], 504),
    ],
)
async def test_a_channels_failure_is_told_in_the_callers_protocol(kind, script, status, autojump_clock):
    async with gateway(script) as world:
        response = await counted(world, kind)
        assert_shape(response, kind, status, retry=response.headers.get("x-should-retry") is None)
        assert (await world.get("/readyz")).status == 200
        await assert_no_trace(world)
        # It proves nothing of the channel's streams.
        assert world.gateway.router.breakers.condition("one", "m").askable


async def test_a_provider_that_cannot_be_reached_is_a_502(autojump_clock):
    async with gateway(told("messages")) as world:
        world.provider.connect_s = None
        assert_shape(await counted(world, "messages"), "messages", 502, retry=True)
        await assert_no_trace(world)


# -- counted here -----------------------------------------------------------------------------------------------------


@each_kind
async def test_without_a_channel_of_the_protocol_it_is_an_estimate(kind, autojump_clock):
    async with gateway(told(kind), config=CHAT_ONLY) as world:
        assert_estimate(await counted(world, kind), kind)
        assert not world.provider.seen
        await assert_no_trace(world)


@each_kind
@pytest.mark.parametrize("status", [404, 405, 501])
async def test_a_channel_without_the_call_is_not_asked_again_for_a_while(kind, status, autojump_clock):
    async with gateway(plain(status, b"{}")) as world:
        for _ in range(3):
            assert_estimate(await counted(world, kind), kind)
        assert len(world.provider.seen) == 1
        await trio.sleep(COUNT_ABSENT_S + 1)
        assert_estimate(await counted(world, kind), kind)
        assert len(world.provider.seen) == 2
        await assert_no_trace(world)


async def test_a_channel_that_counts_is_asked_though_another_of_the_model_does_not(autojump_clock):
    hosts = {"one": [plain(404, b"{}")], "two": [told("messages")]}
    async with gateway(hosts=hosts, config=channels("one", "two")) as world:
        answers = [await counted(world, "messages") for _ in range(3)]
        assert [answer.json["input_tokens"] for answer in answers] == [OWN, 77, 77]


@pytest.mark.parametrize("trouble", ["cooling", "busy"])
async def test_a_channel_that_cannot_be_asked_now_does_not_count(trouble, autojump_clock):
    async with gateway(told("messages")) as world:
        if trouble == "busy":
            for _ in range(500):
                world.gateway.load.started("one")
        else:
            world.gateway.router.breakers.failed("one", "m", Fault.RATE_LIMITED, 60)
        assert_estimate(await counted(world, "messages"), "messages")
        assert not world.provider.seen


async def test_an_estimate_has_instructions_tools_and_a_flat_figure_for_pictures(autojump_clock):
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD" * 1000}}
    body = {
        "model": "m",
        "system": "Be brief.",
        "tools": [{"name": "f", "input_schema": {}}],
        "messages": [{"role": "user", "content": [picture, {"type": "text", "text": TEXT}]}],
    }
    async with gateway(config=CHAT_ONLY) as world:
        tools = json.dumps(body["tools"], separators=(",", ":"))
        expected = OWN + count_tokens(["Be brief.", tools]) + ATTACHMENT_TOKENS
        assert_estimate(await counted(world, "messages", body), "messages", expected)


async def test_what_only_the_provider_has_is_not_estimated(autojump_clock):
    async with gateway(config=CHAT_ONLY) as world:
        body = {**BODIES["responses"], "prompt": {"id": "pmpt_1"}}
        assert_shape(await counted(world, "responses", body), "responses", 400, "unsupported_parameter")
        body = {**BODIES["responses"], "previous_response_id": "resp_of_nobody"}
        assert_shape(await counted(world, "responses", body), "responses", 404, "not_found")


async def test_a_file_that_is_not_found_says_nothing_of_the_channel(autojump_clock):
    missing = plain(404, b'{"error": {"message": "no such prompt", "type": "invalid_request_error"}}')
    config = channels("one", route="dedicated", accounts=["acme"])
    async with gateway(hosts={"one": [missing, told("responses")]}, config=config) as world:
        refused = await counted(world, "responses", {**BODIES["responses"], "prompt": {"id": "pmpt_1"}})
        assert_shape(refused, "responses", 404)
        assert "no such prompt" in refused.json["error"]["message"]
        assert (await counted(world, "responses")).json == ANSWERS["responses"]


async def test_models_without_text_are_counted_too(autojump_clock):
    config = settings(models={"m": {"input": "1", "max_input_tokens": 1000}})
    async with gateway(told("gemini"), config=config) as world:
        assert (await counted(world, "gemini")).json["totalTokens"] == 77


# -- who may, and how often -------------------------------------------------------------------------------------------


@each_kind
async def test_refusals_are_those_of_any_call(kind, autojump_clock):
    async with gateway(told(kind)) as world:
        _, narrow = await world.ledger.create_key("acme", models=["other"])
        assert_shape(await counted(world, kind, secret="sk-wrong"), kind, 401, "invalid_api_key")
        assert_shape(await counted(world, kind, secret=narrow), kind, 403, "permission_denied")
        assert_shape(await counted(world, kind, {"model": "m"}), kind, 400)
        assert_shape(await ask(world, request("GET", PATHS[kind])), kind, 405, "method_not_allowed")
        body, path = {**BODIES[kind], "model": "nobody"}, PATHS[kind].replace("/m:", "/nobody:")
        assert_shape(await counted(world, kind, body, path=path), kind, 404, "model_not_found")
        assert not world.provider.seen
        world.gateway.draining = True
        assert_shape(await counted(world, kind), kind, 503, "server_shutting_down", retry=True)


async def test_a_protocol_outside_the_contract_is_not_counted(autojump_clock):
    async with gateway(told("gemini"), contract="hopbase") as world:
        assert_shape(await counted(world, "gemini"), "gemini", 404)


@each_kind
async def test_a_key_may_count_as_often_as_it_may_ask(kind, autojump_clock):
    async with gateway(told(kind), now_ms=wall_ms) as world:
        _, secret = await world.ledger.create_key("acme", rpm=2)
        assert (await counted(world, kind, secret=secret)).status == 200
        await trio.sleep(20)
        assert (await counted(world, kind, secret=secret)).status == 200
        await trio.sleep(10)
        refused = await counted(world, kind, secret=secret)
        assert_shape(refused, kind, 429, "rate_limit_exceeded", retry=True)
        assert refused.headers["retry-after"] == "30"
        limit, remaining = RATE_HEADERS[kind]
        assert (refused.headers[limit], refused.headers[remaining]) == ("2", "0")
        assert (await counted(world, kind)).status == 200  # another key
        await trio.sleep(30)
        assert (await counted(world, kind, secret=secret)).status == 200
        await assert_no_trace(world)


async def test_counts_have_a_keys_streams_at_once_for_themselves(autojump_clock):
    slow = [Pause(5), *told("messages")]
    async with gateway(slow) as world:
        _, secret = await world.ledger.create_key("acme", max_streams=1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: counted(world, "messages", secret=secret))
            await trio.sleep(1)
            refused = await counted(world, "messages", secret=secret)
            assert_shape(refused, "messages", 429, "rate_limit_exceeded", retry=True)
        assert (await counted(world, "messages", secret=secret)).status == 200


async def test_a_full_process_counts_nothing(autojump_clock):
    async with gateway([Pause(5), *told("messages")]) as world:
        world.gateway.max_streams = 1
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: counted(world, "messages"))
            await trio.sleep(1)
            assert_shape(await counted(world, "messages"), "messages", 503, "server_is_overloaded", retry=True)


async def test_a_count_shifts_no_channels_share_of_the_streams(autojump_clock):
    hosts = {"one": [told("messages")], "two": [told("messages")]}
    async with gateway(hosts=hosts, config=channels("one", "two")) as world:
        for _ in range(3):
            await counted(world, "messages")
        assert [len(world.hosts[name].seen) for name in ("one", "two")] == [3, 0]


async def test_a_long_request_is_counted_in_a_thread():
    text = "word " * 20_000
    body = {"model": "m", "messages": [{"role": "user", "content": text}]}
    async with gateway(config=CHAT_ONLY) as world:
        assert_estimate(await counted(world, "messages", body), "messages", count_tokens([text]) + TURN_TOKENS)
        assert world.gateway.counts.threads.borrowed_tokens == 0


async def test_too_many_long_requests_at_once_are_a_503(monkeypatch):
    monkeypatch.setattr(limits, "COUNT_S", 0.01)
    body = {"model": "m", "messages": [{"role": "user", "content": "word " * 20_000}]}
    async with gateway(config=CHAT_ONLY) as world:
        async with world.gateway.counts.threads:
            world.gateway.counts.threads.total_tokens = 1
            refused = await counted(world, "messages", body)
        assert_shape(refused, "messages", 503, "server_is_overloaded", retry=True)
        await assert_no_trace(world)
