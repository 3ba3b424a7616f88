"""Bad request bodies, in all four protocols through the whole gateway: a 4xx in the protocol's own shape, nothing held,
nothing sent upstream, and the next request is served."""

from __future__ import annotations

import json

import pytest

from hoptrio import limits
from tests.support.harness import CHAT_SILENT, GEMINI, MESSAGES, RESPONSES, gateway
from tests.support.provider import plain
from tests.support.raw import POST_PATHS, ask, assert_nothing_held, assert_shape, post, request
from tests.support.streams import SAMPLES

KINDS = list(SAMPLES)
each_kind = pytest.mark.parametrize("kind", KINDS)
PLAIN = {
    "chat": {**CHAT_SILENT, "stream": False},
    "responses": {**RESPONSES, "stream": False},
    "messages": {**MESSAGES, "stream": False},
    "gemini": GEMINI,
}


def served(kind):
    """A provider that answers the plain call of a protocol."""
    return plain(200, json.dumps(SAMPLES[kind].body).encode())


async def assert_goes_on(world, kind):
    """After whatever came before, the books are whole and a proper call is served and charged."""
    await assert_nothing_held(world)
    assert not world.provider.seen
    response = await post(world, kind, PLAIN[kind])
    assert response.status == 200
    await assert_nothing_held(world, charged_nanos=SAMPLES[kind].charge_nanos)


NOT_A_REQUEST = {
    "empty": b"",
    "no JSON": b"hello",
    "half": b'{"model": "m", ',
    "two values": b'{"model": "m"} {}',
    "an array": b"[]",
    "a string": b'"m"',
    "a number": b"1",
    "null": b"null",
    "NaN": b'{"model": "m", "temperature": NaN}',
    "a trailing comma": b'{"model": "m",}',
    "bad UTF-8 in a text": b'{"model": "m\xff"}',
    "an overlong form": b'{"model": "\xc0\xae"}',
    "a lone surrogate": rb'{"model": "\ud83d"}',
    "a surrogate in UTF-8": b'{"model": "\xed\xa0\x80"}',
    "UTF-16": '{"model": "m"}'.encode("utf-16"),
    "a NUL": b'{"model": "m\x00"}',
    "a number beyond doubles": b'{"model": "m", "temperature": 1e999}',
    "deep arrays": b'{"model": "m", "input": ' + b"[" * 5000 + b"]" * 5000 + b"}",
    "deep objects": b'{"model": "m", "input": ' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"}",
    "open brackets": b"[" * 100_000,
    "more values than a body may hold": b'{"input": [' + b"[]," * 2_000_000 + b"[]]}",
}


@each_kind
@pytest.mark.parametrize("name", NOT_A_REQUEST)
async def test_a_body_that_is_no_request_is_a_400(kind, name, autojump_clock):
    async with gateway(served(kind)) as world:
        response = await post(world, kind, NOT_A_REQUEST[name])
        assert_shape(response, kind, 400, "invalid_json")
        assert b"model" not in response.body
        await assert_goes_on(world, kind)


MISSING = {
    ("chat", "model"): {"messages": []},
    ("chat", "messages"): {"model": "m"},
    ("responses", "model"): {"input": "hi"},
    ("responses", "input"): {"model": "m"},
    ("messages", "model"): {"max_tokens": 5, "messages": []},
    ("messages", "max_tokens"): {"model": "m", "messages": []},
    ("messages", "messages"): {"model": "m", "max_tokens": 5},
    ("gemini", "contents"): {},
}


@pytest.mark.parametrize(("kind", "field"), list(MISSING))
async def test_a_missing_field_is_named(kind, field, autojump_clock):
    async with gateway(served(kind)) as world:
        response = await post(world, kind, MISSING[kind, field])
        assert_shape(response, kind, 400, "missing_required_parameter")
        assert f"'{field}'" in response.json["error"]["message"]
        await assert_goes_on(world, kind)


WRONG_TYPES = [
    ("chat", {"model": 5}),
    ("chat", {"model": ""}),
    ("chat", {"model": "m" * 257}),
    ("chat", {"messages": {}}),
    ("chat", {"messages": ["hi"]}),
    ("chat", {"stream": "true"}),
    ("chat", {"stream": 1}),
    ("chat", {"max_tokens": 0}),
    ("chat", {"max_tokens": -1}),
    ("chat", {"max_tokens": 1.5}),
    ("chat", {"max_completion_tokens": "7"}),
    ("chat", {"max_tokens": True}),
    ("chat", {"n": 0}),
    ("chat", {"n": 10**30}),
    ("chat", {"n": 2.0}),
    ("chat", {"tools": {}}),
    ("chat", {"tools": ["x"]}),
    ("chat", {"tools": [{"type": 5}]}),
    ("chat", {"stream_options": {"include_usage": True}}),
    ("chat", {"stream": True, "stream_options": []}),
    ("chat", {"stream": True, "stream_options": {"include_usage": "yes"}}),
    ("responses", {"model": None}),
    ("responses", {"input": 5}),
    ("responses", {"input": [5]}),
    ("responses", {"max_output_tokens": 0}),
    ("responses", {"previous_response_id": 5}),
    ("responses", {"previous_response_id": ""}),
    ("responses", {"conversation": {}}),
    ("responses", {"stream": "false"}),
    ("messages", {"max_tokens": 0}),
    ("messages", {"max_tokens": "50"}),
    ("messages", {"messages": "hi"}),
    ("messages", {"messages": [None]}),
    ("messages", {"thinking": []}),
    ("messages", {"tool_choice": "auto"}),
    ("gemini", {"contents": "hi"}),
    ("gemini", {"contents": [1]}),
    ("gemini", {"generationConfig": []}),
    ("gemini", {"generationConfig": {"maxOutputTokens": 0}}),
    ("gemini", {"generationConfig": {"candidateCount": -1}}),
    ("gemini", {"generation_config": {"max_output_tokens": "5"}}),
]


def named(changes):
    """The names on the way to the wrong value."""
    name, value = list(changes.items())[-1]
    return [name, *(named(value) if isinstance(value, dict) and value else [])]


@pytest.mark.parametrize(("kind", "changes"), WRONG_TYPES, ids=[f"{k}-{json.dumps(c)[:40]}" for k, c in WRONG_TYPES])
async def test_a_wrong_type_is_a_400_that_names_the_field(kind, changes, autojump_clock):
    async with gateway(served(kind)) as world:
        response = await post(world, kind, {**PLAIN[kind], **changes})
        assert_shape(response, kind, 400)
        assert any(name in response.json["error"]["message"] for name in named(changes))
        await assert_goes_on(world, kind)


@each_kind
async def test_an_unknown_model_is_a_404(kind, autojump_clock):
    async with gateway(served(kind)) as world:
        body = {**PLAIN[kind], "model": "nobody"}
        response = await post(world, kind, body, target=POST_PATHS[kind].replace("/m:", "/nobody:"))
        assert_shape(response, kind, 404, "model_not_found")
        assert (await world.record(response)).state == "refused"
        await assert_goes_on(world, kind)


async def test_a_models_name_is_bounded_in_a_path_too(autojump_clock):
    async with gateway(served("gemini")) as world:
        response = await post(world, "gemini", GEMINI, target=f"/v1beta/models/{'m' * 10_000}:generateContent")
        assert_shape(response, "gemini", 400)
        assert len(response.body) < 1000
        await assert_goes_on(world, "gemini")


@each_kind
async def test_what_does_not_name_a_price_passes_unknown(kind, autojump_clock):
    """Unknown members of a body, unknown query parameters and odd content types are none of the gateway's business."""
    async with gateway(served(kind)) as world:
        target = POST_PATHS[kind] + "?api-version=1&x=%ff&x=2"
        body = {**PLAIN[kind], "my_own": {"deep": [1]}}
        response = await post(world, kind, body, target=target, headers={"content-type": "text/plain"})
        assert response.status == 200
        assert json.loads(world.provider.seen[0].body)["my_own"] == {"deep": [1]}


@each_kind
async def test_a_body_declared_too_large_is_refused_before_it_comes(kind, autojump_clock):
    async with gateway(served(kind)) as world:
        lines = {"authorization": f"Bearer {world.secret}", "content-length": str(limits.BODY_BYTES_MAX + 1)}
        response = await ask(world, request("POST", POST_PATHS[kind], lines))
        assert_shape(response, kind, 413, "request_too_large")
        assert response.headers["connection"] == "close"
        await assert_goes_on(world, kind)


@each_kind
async def test_a_chunked_body_is_refused_once_it_is_too_large(kind, autojump_clock, monkeypatch):
    async with gateway(served(kind)) as world:
        lines = {"authorization": f"Bearer {world.secret}", "transfer-encoding": "chunked"}
        client = world.connect()
        await client.send(request("POST", POST_PATHS[kind], lines))
        piece = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
        for _ in range(limits.BODY_BYTES_MAX // 0x100000 + 1):
            await client.send(piece)
        assert_shape(await client.read(), kind, 413, "request_too_large")
        await assert_goes_on(world, kind)


@each_kind
async def test_a_body_of_too_many_chunks_is_refused(kind, autojump_clock):
    async with gateway(served(kind)) as world:
        lines = {"authorization": f"Bearer {world.secret}", "transfer-encoding": "chunked"}
        flood = b"1\r\n \r\n" * (limits.CHUNKS_MAX + 1)
        response = await ask(world, request("POST", POST_PATHS[kind], lines, flood))
        assert_shape(response, kind, 413, "request_too_large")
        await assert_goes_on(world, kind)


@each_kind
@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd", "deflate, gzip"])
async def test_a_compressed_body_is_a_415(kind, encoding, autojump_clock):
    async with gateway(served(kind)) as world:
        response = await post(world, kind, b"\x1f\x8b...", headers={"content-encoding": encoding})
        assert_shape(response, kind, 415, "unsupported_content_encoding")
        await assert_goes_on(world, kind)


@each_kind
async def test_a_body_that_pauses_too_long_is_a_408(kind, autojump_clock):
    async with gateway(served(kind)) as world:
        lines = {"authorization": f"Bearer {world.secret}", "content-length": "100"}
        response = await ask(world, request("POST", POST_PATHS[kind], lines, b'{"model"'))
        assert_shape(response, kind, 408, "request_timeout")
        await assert_goes_on(world, kind)


async def test_of_duplicate_keys_the_last_is_the_one_that_is_priced_and_sent(autojump_clock):
    raw = b'{"model":"nobody","max_tokens":1,"messages":[],"max_tokens":9,"model":"m"}'
    async with gateway(served("chat")) as world:
        assert (await post(world, "chat", raw)).status == 200
        assert world.provider.seen[0].body == b'{"model":"m","max_tokens":9,"messages":[]}'


@each_kind
async def test_a_refused_shape_is_kept_and_its_account_can_ask_for_it(kind, autojump_clock):
    async with gateway(served(kind)) as world:
        response = await post(world, kind, b"{}" if kind != "gemini" else b"[]")
        told = await world.get(f"/v1/requests/{response.headers['x-request-id']}")
        assert (told.status, told.json["state"], told.json["protocol"]) == (200, "refused", kind)
        assert (told.json["hold"], told.json["charge"]) == ("0", "0")
