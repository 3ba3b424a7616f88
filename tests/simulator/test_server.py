"""The driver: connections, framing and endings, on memory streams in virtual time and on real sockets."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from hoptrio.protocols.events import Protocol
from hoptrio.simulator.provider import SimulatedProvider
from hoptrio.simulator.server import listen, serve
from tests.support.performing import body_of, perform, request

CHAT = Protocol.CHAT


def raw(text, *, headers="", version="1.1", protocol=CHAT, **more):
    """The bytes of a whole request."""
    target, body = request(protocol, text, **more)
    head = f"POST {target} HTTP/{version}\r\nhost: sim\r\ncontent-length: {len(body)}\r\n{headers}\r\n"
    return head.encode() + body


async def everything(stream):
    """What comes until EOF, and whether a reset ended it."""
    received = b""
    try:
        while data := await stream.receive_some(65536):
            received += data
    except trio.BrokenResourceError:
        return received, True
    return received, False


@asynccontextmanager
async def memory(provider):
    """A client's end of a connection to `provider`, without a socket."""
    async with trio.open_nursery() as nursery:
        client, server = trio.testing.memory_stream_pair()
        nursery.start_soon(serve, provider, server)
        yield client
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def real(provider):
    """A client's end of a real connection."""
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(listen, provider, "127.0.0.1", 0)
        async with await trio.testing.open_stream_to_socket_listener(listeners[0]) as client:
            yield client
        nursery.cancel_scope.cancel()


def dechunk(data):
    """The body of a chunked response, and whether its last chunk came."""
    _, _, rest = data.partition(b"\r\n\r\n")
    body = b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size, 16)
        if length == 0:
            return body, True
        body, rest = body + rest[:length], rest[length + 2 :]
    return body, False


async def ask(client, text, **more):
    await client.send_all(raw(text, headers="connection: close\r\n", **more))
    return await everything(client)


async def test_a_stream_is_chunked_an_event_a_chunk(autojump_clock):
    async with memory(SimulatedProvider()) as client:
        received, _ = await ask(client, "sim: events=3")
    assert received.startswith(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n")
    assert dechunk(received) == (body_of(perform(CHAT, "sim: events=3")), True)


async def test_pauses_take_their_time_and_no_more(autojump_clock):
    async with memory(SimulatedProvider()) as client:
        began = trio.current_time()
        await ask(client, "sim: events=200 pace=500ms delay=0.5")
        assert trio.current_time() - began == pytest.approx(100)


async def test_the_head_comes_before_a_delay(autojump_clock):
    async with memory(SimulatedProvider()) as client:
        await client.send_all(raw("sim: delay=60"))
        began = trio.current_time()
        assert (await client.receive_some()).endswith(b"\r\n\r\n")
        assert trio.current_time() == began


async def test_a_connection_is_used_again_and_pipelining_works(autojump_clock):
    provider = SimulatedProvider()
    async with memory(provider) as client:
        await client.send_all(raw("sim: events=1") + raw("sim: events=2", headers="connection: close\r\n"))
        received, _ = await everything(client)
    assert received.count(b"HTTP/1.1 200 OK") == 2
    assert [seen.outcome for seen in provider.seen] == ["ended", "ended"]


async def test_http_1_0_gets_a_body_that_ends_with_the_connection(autojump_clock):
    async with memory(SimulatedProvider()) as client:
        await client.send_all(raw("sim: events=1", version="1.0"))
        received, _ = await everything(client)
    assert b"transfer-encoding" not in received
    assert received.partition(b"\r\n\r\n")[2] == body_of(perform(CHAT, "sim: events=1"))


async def test_the_framing_can_be_given_up(autojump_clock):
    async with memory(SimulatedProvider()) as client:
        await client.send_all(raw("sim: events=1 wire=close"))
        received, _ = await everything(client)
    assert b"connection: close\r\n\r\n" in received
    assert received.endswith(b"data: [DONE]\n\n")


async def test_100_continue_is_sent_when_it_is_awaited(autojump_clock):
    async with memory(SimulatedProvider()) as client:
        head, _, body = raw("sim: events=1", headers="expect: 100-continue\r\n").partition(b"\r\n\r\n")
        await client.send_all(head + b"\r\n\r\n")
        assert await client.receive_some() == b"HTTP/1.1 100 Continue\r\n\r\n"
        await client.send_all(body)
        assert (await client.receive_some()).startswith(b"HTTP/1.1 200 OK")


async def test_what_is_not_http_is_refused(autojump_clock):
    async with memory(SimulatedProvider()) as client:
        await client.send_all(b"hello\r\n\r\n")
        received, _ = await everything(client)
    assert received.startswith(b"HTTP/1.1 400 ")


async def test_a_cut_has_no_last_chunk(autojump_clock):
    provider = SimulatedProvider()
    async with memory(provider) as client:
        received, _ = await ask(client, "sim: events=5 fail=cut@2")
    body, whole = dechunk(received)
    assert body == body_of(perform(CHAT, "sim: events=5 fail=cut@2"))
    assert not whole
    assert provider.seen[0].outcome == "cut"


async def test_silence_lasts_until_the_client_leaves(autojump_clock):
    provider = SimulatedProvider()
    async with memory(provider) as client:
        await client.send_all(raw("sim: fail=silence@1"))
        with trio.move_on_after(500):
            await everything(client)
        assert provider.seen[0].outcome == "open"
        assert not provider.seen[0].over.is_set()
        await client.aclose()
        await provider.seen[0].over.wait()
        assert provider.seen[0].outcome == "client_gone"


async def test_no_head_is_no_byte(autojump_clock):
    async with memory(SimulatedProvider()) as client:
        await client.send_all(raw("sim: fail=no-head"))
        with trio.move_on_after(500) as scope:
            await client.receive_some()
        assert scope.cancelled_caught


async def test_a_client_that_leaves_is_noticed_by_the_next_write(autojump_clock):
    provider = SimulatedProvider()
    async with memory(provider) as client:
        await client.send_all(raw("sim: events=50"))
        await client.receive_some()
        await client.aclose()
        await trio.sleep(5)
        assert provider.seen[0].outcome == "client_gone"


async def test_what_was_seen_is_told_and_forgotten(autojump_clock):
    provider = SimulatedProvider()
    async with memory(provider) as client:
        await client.send_all(raw("sim: fail=status:503", headers="authorization: Bearer sk-1\r\n"))
        await client.receive_some()
        await client.send_all(b"GET /_sim/requests HTTP/1.1\r\nhost: sim\r\n\r\n")
        told = json.loads((await client.receive_some()).partition(b"\r\n\r\n")[2])
        await client.send_all(b"DELETE /_sim/requests HTTP/1.1\r\nhost: sim\r\n\r\n")
        await client.receive_some()
    assert told["count"] == 1
    assert ["authorization", "Bearer sk-1"] in told["requests"][0]["headers"]
    assert json.loads(told["requests"][0]["body"])["model"] == "sim-small"
    assert len(provider.seen) == 0
    assert provider.seen.count == 1


async def test_a_client_that_leaves_in_a_long_pause_is_noticed():
    provider = SimulatedProvider()
    async with real(provider) as client:
        await client.send_all(raw("sim: delay=600"))
        await client.receive_some()
        await client.aclose()
        with trio.fail_after(5):
            while provider.seen[0].outcome == "open":  # noqa: ASYNC110 - the other end's kernel decides when
                await trio.sleep(0.001)
    assert provider.seen[0].outcome == "client_gone"


async def test_a_request_that_comes_early_waits_for_its_turn(monkeypatch):
    monkeypatch.setattr("hoptrio.simulator.server._WATCHED_S", 0.0)
    async with real(SimulatedProvider()) as client:
        await client.send_all(raw("sim: events=1 delay=20ms"))
        await client.send_all(raw("sim: events=1", headers="connection: close\r\n"))
        received, _ = await everything(client)
    assert received.count(b"HTTP/1.1 200 OK") == 2


async def test_a_real_cut_is_a_fin_behind_every_byte():
    async with real(SimulatedProvider()) as client:
        received, reset = await ask(client, "sim: events=200 pace=0 fail=cut@200")
    assert not reset
    assert dechunk(received) == (body_of(perform(CHAT, "sim: events=200 fail=cut@200")), False)


async def test_a_real_reset_is_a_reset_behind_every_byte():
    async with real(SimulatedProvider()) as client:
        await client.send_all(raw("sim: events=200 pace=0 fail=reset@200"))
        received, reset = await everything(client)
    assert reset
    assert dechunk(received) == (body_of(perform(CHAT, "sim: events=200 fail=reset@200")), False)


async def test_an_event_of_megabytes():
    async with real(SimulatedProvider()) as client:
        received, _ = await ask(client, "sim: events=2 pace=0 size=3000000")
    assert len(received) > 6_000_000
    assert dechunk(received)[1]
