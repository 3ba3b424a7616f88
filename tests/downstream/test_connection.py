from __future__ import annotations

import random
from contextlib import suppress

import pytest
import structlog.testing
import trio

from hoptrio import limits
from hoptrio.errors import InvalidKey

GET = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST /p HTTP/1.1\r\nHost: x\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"


def last_body(response):
    return response.rpartition(b"\r\n\r\n")[2]


# -- requests in order -----------------------------------------------------------------------------------------------


async def test_a_request_is_answered_and_the_connection_kept(gateway, echo):
    client = gateway.memory(echo)
    for _ in range(3):
        await client.send(GET)
        response = await client.until(b"GET /a ")
        assert response.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"connection" not in response.lower()


async def test_pipelined_requests_are_answered_in_order(gateway, echo):
    client = gateway.memory(echo)
    await client.send(POST + b"Content-Length: 3\r\n\r\nabc" + CHUNKED + b"2\r\nde\r\n0\r\n\r\n" + GET)
    answers = await client.until(b"GET /a ")
    assert [last for last in (b"/p abc", b"/p de", b"/a ") if last in answers] == [b"/p abc", b"/p de", b"/a "]
    assert answers.index(b"/p abc") < answers.index(b"/p de") < answers.index(b"/a ")


async def test_a_request_is_read_byte_by_byte(gateway, echo):
    client = gateway.memory(echo)
    for byte in CHUNKED + b"2;ext=1\r\nab\r\n1\r\nc\r\n0\r\nTrailer: x\r\n\r\n":
        await client.send(bytes([byte]))
    await client.until(b"POST /p abc")


async def test_an_empty_line_before_a_request_is_ignored(gateway, echo):
    client = gateway.memory(echo)
    await client.send(b"\r\n" + GET)
    await client.until(b"GET /a ")
    await client.send(b"\r")
    await client.send(b"\n" + GET)
    await client.until(b"GET /a ")


@pytest.mark.parametrize(
    "request_bytes", [b"GET /a HTTP/1.0\r\n\r\n", b"GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"]
)
async def test_the_last_request_ends_the_connection(gateway, echo, request_bytes, autojump_clock):
    client = gateway.memory(echo)
    await client.send(request_bytes + GET)
    response = await client.all()
    assert response.count(b"HTTP/1.1") == 1
    assert b"Connection: close" in response
    await gateway.closed.wait()


async def test_head_has_the_length_and_no_body(gateway, echo):
    client = gateway.memory(echo)
    await client.send(b"HEAD /a HTTP/1.1\r\nHost: x\r\n\r\n")
    response = await client.until(b"\r\n\r\n")
    assert b"content-length: 8" in response
    await client.send(GET)
    assert (await client.until(b"GET /a ")).startswith(b"HTTP/1.1 200")


async def test_no_content_has_no_length(gateway):
    async def handler(exchange):
        await exchange.writer.respond(204, [(b"x", b"y")], b"")

    client = gateway.memory(handler)
    await client.send(GET)
    assert await client.until(b"\r\n\r\n") == b"HTTP/1.1 204 No Content\r\nx: y\r\n\r\n"


async def test_an_upgrade_may_be_answered_in_http(gateway, echo):
    client = gateway.memory(echo)
    await client.send(b"GET /a HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n" + GET)
    assert (await client.until(b"GET /a ")).startswith(b"HTTP/1.1 200")


async def test_the_head_says_who_asks(gateway):
    seen = []

    async def handler(exchange):
        seen.append(exchange.head)
        await exchange.writer.respond(200, [], b"ok")

    client = await gateway.tcp(handler)
    await client.send(b"GET /v1/models?key=k HTTP/1.1\r\nHost: x\r\nX-Api-Key:  sk \r\n\r\n")
    await client.until(b"ok")
    (head,) = seen
    assert (head.method, head.path, head.query, head.http_version) == (b"GET", "/v1/models", {"key": "k"}, b"1.1")
    assert head.headers == ((b"host", b"x"), (b"x-api-key", b"sk"))
    assert head.peer == "127.0.0.1"


# -- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"GET /a HTTP/1.1\nHost: x\n\n", 400),
        (b"GET /a HTTP/1.1\r\nHost : x\r\n\r\n", 400),
        (b"GET /a HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n", 400),
        (b"GET /a HTTP/1.1\r\nHost: x\r\nA: b\x00c\r\n\r\n", 400),
        (b"GET /a HTTP/1.1\r\nHost: x\r\nA\x00: b\r\n\r\n", 400),
        (b"GET /a HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400),
        (b"GET /a HTTP/1.1\r\n\r\n", 400),
        (b"GET /a b HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET  /a HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /a\r\n\r\n", 400),
        (b"GET /a HTTP/2.0\r\nHost: x\r\n\r\n", 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01", 400),
        (b"\r\n\r\n\r\n", 400),
        (POST + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc", 400),
        (POST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (POST + b"Content-Length: -3\r\n\r\nabc", 400),
        (POST + b"Content-Length: +3\r\n\r\nabc", 400),
        (POST + b"Content-Length: 0x3\r\n\r\nabc", 400),
        (POST + b"Content-Length: 3 3\r\n\r\nabc", 400),
        (POST + b"Content-Length:\r\n\r\nabc", 400),
        (POST + b"Content-Length: 111111111111111111111\r\n\r\nabc", 400),
        (POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400),
        (POST + b"Transfer-Encoding: identity\r\n\r\nabc", 400),
        (POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", 400),
        (b"POST /p HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (CHUNKED + b"g\r\nabc\r\n0\r\n\r\n", 400),
        (CHUNKED + b"-3\r\nabc\r\n0\r\n\r\n", 400),
        (CHUNKED + b"0x3\r\nabc\r\n0\r\n\r\n", 400),
        (CHUNKED + b" 3\r\nabc\r\n0\r\n\r\n", 400),
        (CHUNKED + b"3\nabc\r\n0\r\n\r\n", 400),
        (CHUNKED + b"3;a\nb\r\nabc\r\n0\r\n\r\n", 400),
        (CHUNKED + b"3\r\nabcd\r\n0\r\n\r\n", 400),
        (CHUNKED + b"3\r\nabc0\r\n\r\n", 400),
        (CHUNKED + b"\r\n3\r\nabc\r\n0\r\n\r\n", 400),
        (CHUNKED + b"111111111111111111111\r\nabc", 400),
        (CHUNKED + b"3\r\nabc\r\n0\r\n\n" + GET, 400),
        (CHUNKED + b"0\r\n\n" + GET, 400),
        (CHUNKED + b"0\r\nA: b\n\n" + GET, 400),
        (CHUNKED + b"0\r\nbad trailer\r\n\r\n", 400),
        (POST + b"Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc", 415),
        (POST + b"Content-Length: 999999999999\r\n\r\n", 413),
        (POST + b"X: " + b"a" * limits.HEAD_BYTES_MAX + b"\r\n\r\n", 431),
        (POST + b"X: y\r\n" * 200 + b"\r\n", 431),
    ],
)
async def test_bad_input_is_refused_and_nothing_behind_it_served(gateway, echo, raw, status, autojump_clock):
    client = gateway.memory(echo)
    await client.send(raw)
    response = await client.all()
    assert response.startswith(b"HTTP/1.1 %d " % status)
    assert response.count(b"HTTP/1.1") == 1
    assert b"onnection: close" in response
    assert last_body(response).startswith(b'{"error":')
    await gateway.closed.wait()


async def test_a_slow_head_is_refused_in_time(gateway, echo, autojump_clock):
    client = gateway.memory(echo)
    gateway.nursery.start_soon(trickle, client, GET[:-1], 2.0)
    started = trio.current_time()
    response = await client.all()
    assert response.startswith(b"HTTP/1.1 408 ")
    assert trio.current_time() - started == pytest.approx(limits.HEAD_S)


async def trickle(client, data, every_s):
    for byte in data:
        await client.send(bytes([byte]))
        await trio.sleep(every_s)


async def test_an_idle_connection_is_closed_without_a_word(gateway, echo, autojump_clock):
    client = gateway.memory(echo)
    await client.send(GET)
    await client.until(b"GET /a ")
    started = trio.current_time()
    assert await client.all() == b""
    assert trio.current_time() - started == pytest.approx(limits.KEEPALIVE_IDLE_S)


async def test_a_client_that_leaves_inside_a_head_is_not_answered(gateway, echo):
    client = gateway.memory(echo)
    await client.send(GET[:9])
    await client.stream.send_eof()
    assert await client.all() == b""
    await gateway.closed.wait()


# -- bodies ----------------------------------------------------------------------------------------------------------


async def test_100_is_sent_when_the_body_is_read(gateway, echo):
    client = gateway.memory(echo)
    await client.send(POST + b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\n")
    assert await client.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    await client.send(b"abc")
    assert (await client.until(b"POST /p abc")).startswith(b"HTTP/1.1 200 OK\r\n")


@pytest.mark.parametrize(
    "request_bytes",
    [
        POST + b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
        POST + b"Content-Length: 3\r\n\r\nabc",
        b"POST /p HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
    ],
)
async def test_case_08_100_is_never_sent_to_a_client_that_does_not_wait(gateway, echo, request_bytes):
    client = gateway.memory(echo)
    await client.send(request_bytes)
    assert (await client.until(b"POST /p abc")).startswith(b"HTTP/1.1 200 OK\r\n")


async def test_a_refusal_before_the_body_asks_for_none_and_closes(gateway, autojump_clock):
    async def handler(exchange):
        raise InvalidKey("No key.")

    client = gateway.memory(handler)
    await client.send(POST + b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\n")
    response = await client.all()
    assert response.startswith(b"HTTP/1.1 401 ")
    assert b"onnection: close" in response
    await gateway.closed.wait()


async def test_a_body_that_nobody_read_is_not_the_next_request(gateway, autojump_clock):
    async def handler(exchange):
        await exchange.writer.respond(200, [], b"ok")

    client = gateway.memory(handler)
    await client.send(POST + b"Content-Length: %d\r\n\r\n" % len(GET) + GET)
    response = await client.all()
    assert response.count(b"HTTP/1.1") == 1


async def test_a_chunked_body_over_the_limit_is_refused(gateway, autojump_clock):
    async def handler(exchange):
        await exchange.read_body(max_bytes=3)

    client = gateway.memory(handler)
    await client.send(CHUNKED + b"4\r\nabcd\r\n0\r\n\r\n")
    assert (await client.all()).startswith(b"HTTP/1.1 413 ")


async def test_a_flood_of_tiny_chunks_is_refused(gateway, echo, monkeypatch, autojump_clock):
    monkeypatch.setattr(limits, "CHUNKS_MAX", 300)
    client = gateway.memory(echo)
    await client.send(CHUNKED + b"1\r\na\r\n" * 301)
    assert (await client.all()).startswith(b"HTTP/1.1 413 ")


async def test_a_body_that_pauses_is_refused(gateway, echo, autojump_clock):
    client = gateway.memory(echo)
    await client.send(POST + b"Content-Length: 3\r\n\r\na")
    started = trio.current_time()
    assert (await client.all()).startswith(b"HTTP/1.1 408 ")
    assert trio.current_time() - started == pytest.approx(limits.BODY_IDLE_S, abs=0.01)


async def test_a_body_that_trickles_has_an_end(gateway, echo, autojump_clock):
    client = gateway.memory(echo)
    await client.send(POST + b"Content-Length: 1000\r\n\r\n")
    gateway.nursery.start_soon(trickle, client, b"a" * 20, 20.0)
    started = trio.current_time()
    assert (await client.all()).startswith(b"HTTP/1.1 408 ")
    assert trio.current_time() - started == pytest.approx(limits.BODY_S, abs=0.01)


async def test_a_client_that_leaves_inside_its_body_is_told_if_it_listens(gateway, echo):
    client = gateway.memory(echo)
    await client.send(POST + b"Content-Length: 3\r\n\r\na")
    await client.stream.send_eof()
    assert (await client.all()).startswith(b"HTTP/1.1 400 ")


async def test_a_large_upload_that_is_refused_can_read_the_refusal(gateway):
    async def handler(exchange):
        await exchange.read_body(max_bytes=10)

    client = await gateway.tcp(handler)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.send, POST + b"Content-Length: 300000\r\n\r\n" + b"a" * 300_000)
        assert (await client.until(b"}")).startswith(b"HTTP/1.1 413 ")
    await client.stream.aclose()
    await gateway.closed.wait()


# -- handlers that fail ----------------------------------------------------------------------------------------------


async def test_a_bug_is_a_500_and_its_message_is_not_logged(gateway):
    async def handler(exchange):
        raise ValueError("the prompt")

    client = gateway.memory(handler)
    with structlog.testing.capture_logs() as logs:
        await client.send(GET)
        response = await client.until(b"}")
    assert response.startswith(b"HTTP/1.1 500 ")
    (line,) = logs
    assert line["error"] == "ValueError"
    assert "test_connection.py" in line["at"][-1]
    assert "prompt" not in str(logs)
    assert b"prompt" not in response


async def test_the_connection_survives_a_bug(gateway):
    async def handler(exchange):
        async with trio.open_nursery():
            raise ValueError

    client = gateway.memory(handler)
    with structlog.testing.capture_logs():
        for _ in range(2):
            await client.send(GET)
            await client.until(b"}")


async def test_a_bug_behind_the_head_truncates(gateway, streaming):
    async def body(writer):
        writer.write(b"data: 1\n\n")
        raise ValueError

    client = gateway.memory(streaming(body))
    with structlog.testing.capture_logs():
        await client.send(GET)
        assert (await client.all()).endswith(b"9\r\ndata: 1\n\n\r\n")


async def test_a_handler_that_answers_nothing_is_a_500(gateway):
    async def handler(exchange):
        pass

    client = gateway.memory(handler)
    await client.send(GET)
    assert (await client.until(b"}")).startswith(b"HTTP/1.1 500 ")


# -- drain -----------------------------------------------------------------------------------------------------------


async def test_a_drain_closes_an_idle_connection(gateway, echo, autojump_clock):
    client = gateway.memory(echo)
    await client.send(GET)
    await client.until(b"GET /a ")
    started = trio.current_time()
    gateway.drain.start()
    assert await client.all() == b""
    assert trio.current_time() - started == pytest.approx(limits.DRAIN_IDLE_S)


async def test_a_request_that_crosses_the_drain_on_a_used_connection_is_answered(gateway, echo, autojump_clock):
    client = gateway.memory(echo)
    await client.send(GET)
    await client.until(b"GET /a ")
    gateway.drain.start()
    await client.send(GET)
    response = await client.all()
    assert b"onnection: close" in response
    assert response.endswith(b"GET /a ")


async def test_a_drain_lets_a_fresh_connection_ask_once(gateway, echo, autojump_clock):
    client = gateway.memory(echo)
    await trio.sleep(1)
    gateway.drain.start()
    await trio.sleep(limits.DRAIN_IDLE_S / 2)
    await client.send(GET)
    response = await client.all()
    assert b"onnection: close" in response
    assert response.endswith(b"GET /a ")


async def test_a_drain_closes_a_fresh_connection_that_stays_silent(gateway, echo, autojump_clock):
    client = gateway.memory(echo)
    gateway.drain.start()
    started = trio.current_time()
    assert await client.all() == b""
    assert trio.current_time() - started == pytest.approx(limits.DRAIN_IDLE_S)


async def test_a_running_exchange_goes_on_in_a_drain(gateway, streaming, autojump_clock):
    async def body(writer):
        await trio.sleep(100)
        writer.write(b"data: 1\n\n")
        await writer.end()

    client = gateway.memory(streaming(body))
    await client.send(GET)
    await trio.sleep(1)
    gateway.drain.start()
    assert (await client.all()).endswith(b"data: 1\n\n\r\n0\r\n\r\n")


# -- anything at all -------------------------------------------------------------------------------------------------

PIECES = [
    GET,
    CHUNKED,
    POST,
    b"Content-Length: 3\r\n\r\nabc",
    b"Content-Length: 70\r\n\r\n",
    b"Transfer-Encoding: chunked\r\n\r\n",
    b"3\r\nabc\r\n",
    b"0\r\n\r\n",
    b"\r\n",
    b"\n",
    b"\x00",
    b" ",
    b":",
    b"Expect: 100-continue\r\n",
    b"Connection: close\r\n",
    b"Upgrade: websocket\r\nConnection: Upgrade\r\n",
    b"GET http://x/?a=%zz HTTP/1.0\r\n\r\n",
    b"CONNECT x:443 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n",
]


@pytest.mark.parametrize("seed", range(40))
async def test_no_input_breaks_a_connection_or_is_answered_with_anything_but_http(gateway, echo, seed, autojump_clock):
    dice = random.Random(seed)
    for _ in range(10):
        data = b"".join(dice.choices(PIECES, k=dice.randrange(1, 8)))
        client = gateway.memory(echo)
        with suppress(trio.BrokenResourceError):
            while data:
                cut = dice.randrange(1, len(data) + 1)
                await client.send(data[:cut])
                data = data[cut:]
                if dice.random() < 0.3:
                    await trio.sleep(dice.random())
            await client.stream.send_eof()
        answers = await client.all()
        assert answers == b"" or answers.startswith(b"HTTP/1.1 ")
        assert b" 500 " not in answers
