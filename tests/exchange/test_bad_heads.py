"""Heads that two parsers may read differently, floods, wrong methods and paths, in all four protocols through the whole
gateway: refused in the protocol's own shape, nothing behind them served, nothing held."""

from __future__ import annotations

import json

import pytest

from hoptrio import limits
from tests.exchange.test_bad_bodies import PLAIN, assert_goes_on, each_kind, served
from tests.support.harness import gateway
from tests.support.raw import POST_PATHS, ask, assert_nothing_held, assert_shape, converse, request

SMUGGLED = b"GET /smuggled HTTP/1.1\r\nhost: x\r\n\r\n"
#: A head's lines behind the request line and the key, and what follows the blank line.
SHAPES = {
    "two lengths": (b"content-length: 2\r\ncontent-length: 60\r\n\r\n", b"{}" + SMUGGLED),
    "two equal lengths": (b"content-length: 2\r\ncontent-length: 2\r\n\r\n", b"{}" + SMUGGLED),
    "a list of lengths": (b"content-length: 2, 2\r\n\r\n", b"{}" + SMUGGLED),
    "a negative length": (b"content-length: -2\r\n\r\n", b"{}" + SMUGGLED),
    "a signed length": (b"content-length: +2\r\n\r\n", b"{}" + SMUGGLED),
    "a hexadecimal length": (b"content-length: 0x2\r\n\r\n", b"{}" + SMUGGLED),
    "an endless length": (b"content-length: " + b"9" * 30 + b"\r\n\r\n", b"{}" + SMUGGLED),
    "length and coding": (b"content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n", b"0\r\n\r\n" + SMUGGLED),
    "coding and length": (b"transfer-encoding: chunked\r\ncontent-length: 2\r\n\r\n", b"0\r\n\r\n" + SMUGGLED),
    "an unknown coding": (b"transfer-encoding: xchunked\r\n\r\n", b"0\r\n\r\n" + SMUGGLED),
    "two codings": (b"transfer-encoding: gzip, chunked\r\n\r\n", b"0\r\n\r\n" + SMUGGLED),
    "a coding said twice": (
        b"transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n",
        b"0\r\n\r\n" + SMUGGLED,
    ),
    "a folded coding": (b"transfer-encoding:\r\n chunked\r\n\r\n", b"0\r\n\r\n" + SMUGGLED),
    "a folded header": (b"x-a: 1\r\n\tcontent-length: 2\r\n\r\n", b"{}" + SMUGGLED),
    "a space before the colon": (b"content-length : 2\r\n\r\n", b"{}" + SMUGGLED),
    "a bare LF": (b"x-a: 1\ncontent-length: 2\r\n\r\n", b"{}" + SMUGGLED),
    "a bare CR": (b"x-a: 1\rcontent-length: 2\r\n\r\n", b"{}" + SMUGGLED),
    "a blank line of bare LFs": (b"x-a: 1\n\n", SMUGGLED),
    "a NUL": (b"x-a: \x00\r\n\r\n", SMUGGLED),
    "a control character": (b"x-a: \x0b\r\n\r\n", SMUGGLED),
    "a line that is no header": (b"hello\r\n\r\n", SMUGGLED),
    "a header without a name": (b": x\r\n\r\n", SMUGGLED),
    "a bad chunk size": (b"transfer-encoding: chunked\r\n\r\n", b"zz\r\n{}\r\n0\r\n\r\n" + SMUGGLED),
    "a chunk longer than it says": (b"transfer-encoding: chunked\r\n\r\n", b"2\r\n{}{}\r\n0\r\n\r\n" + SMUGGLED),
    "a trailer ended by a bare LF": (b"transfer-encoding: chunked\r\n\r\n", b"2\r\n{}\r\n0\r\n\n" + SMUGGLED),
}


@each_kind
@pytest.mark.parametrize("name", SHAPES)
async def test_a_head_that_parsers_may_read_differently_is_refused_and_ends_the_connection(kind, name, autojump_clock):
    lines, rest = SHAPES[name]
    async with gateway(served(kind)) as world:
        head = f"POST {POST_PATHS[kind]} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {world.secret}\r\n".encode()
        data = head + lines + rest
        received = await converse(world, data)
        assert received.count(b"HTTP/1.1 ") == 1
        response = await ask(world, data)
        assert response.status in (400, 413, 501)
        assert_shape(response, kind, response.status)
        assert response.headers["connection"] == "close"
        await assert_goes_on(world, kind)


@each_kind
async def test_a_flood_of_headers_is_a_431(kind, autojump_clock):
    async with gateway(served(kind)) as world:
        for headers in ({f"x-{i}": "1" for i in range(limits.HEADERS_MAX + 1)}, {"x-a": "1" * limits.HEAD_BYTES_MAX}):
            response = await ask(world, request("POST", POST_PATHS[kind], headers))
            assert_shape(response, kind, 431, "request_header_fields_too_large")
        await assert_goes_on(world, kind)


@each_kind
async def test_a_head_that_does_not_end_is_a_408(kind, autojump_clock):
    async with gateway(served(kind)) as world:
        response = await ask(world, f"POST {POST_PATHS[kind]} HTTP/1.1\r\nhost: x\r\n".encode())
        assert_shape(response, kind, 408, "request_timeout")
        await assert_goes_on(world, kind)


@each_kind
async def test_a_flood_of_query_parameters_is_a_400(kind, autojump_clock):
    async with gateway(served(kind)) as world:
        target = POST_PATHS[kind] + "?" + "&".join(f"a{i}=1" for i in range(101))
        response = await ask(world, request("POST", target, {"authorization": f"Bearer {world.secret}"}))
        assert response.status == 400
        await assert_goes_on(world, kind)


@each_kind
@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "GET", "BREW"])
async def test_a_wrong_method_is_a_405_that_says_which_is_right(kind, method, autojump_clock):
    async with gateway(served(kind)) as world:
        response = await ask(world, request(method, POST_PATHS[kind], {"authorization": f"Bearer {world.secret}"}))
        assert_shape(response, kind, 405, "method_not_allowed")
        assert response.headers["allow"] == "POST"
        await assert_goes_on(world, kind)


@pytest.mark.parametrize("path", ["/v1/models", "/v1/account", "/healthz", "/readyz", "/v1/requests/req_1"])
async def test_what_is_read_takes_get_and_head(path, autojump_clock):
    async with gateway() as world:
        response = await ask(world, request("POST", path, {"authorization": f"Bearer {world.secret}"}, b"{}"))
        assert_shape(response, "chat", 405, "method_not_allowed")
        assert response.headers["allow"] == "GET, HEAD"


UNKNOWN = {
    "chat": ["/", "/v1", "/v1/chat", "/v1/chat/completions/", "//v1/chat/completions", "/%00", "/é"],
    "responses": ["/v1/responses/", "/v1/responses/resp_1/nothing", "/v1/responses/resp_1/cancelled"],
    "messages": ["/v1/messages/", "/v1/messages/batch", "/v1/messages/msg_1"],
    "gemini": [
        "/v1beta/filings",
        "/v1beta/models:generateContent",
    ],
}


@pytest.mark.parametrize(("kind", "path"), [(kind, path) for kind, paths in UNKNOWN.items() for path in paths])
async def test_an_unknown_path_is_a_404_in_the_shape_of_its_neighbours(kind, path, autojump_clock):
    async with gateway() as world:
        target = path.encode().decode("latin-1")
        headers = {"authorization": f"Bearer {world.secret}"}
        response = await ask(world, request("POST", target, headers, json.dumps(PLAIN[kind]).encode()))
        if response.status != 400:  # a target beyond ASCII is no target at all
            assert_shape(response, kind, 404, "unknown_path")
        await assert_nothing_held(world)


@pytest.mark.parametrize(
    "data", [b"\x16\x03\x01\x02\x00\x01\x00", b"hello\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET /\r\n\r\n"]
)
async def test_what_is_no_http_1_request_is_a_400_with_an_id(data, autojump_clock):
    async with gateway() as world:
        response = await ask(world, data)
        assert_shape(response, "chat", 400)
