"""WebSocket clients that misbehave in the middle of a turn, on real sockets: each is told the right code, every turn
is drained and charged, and the process is as it was before."""

from __future__ import annotations

import json
import socket
import struct
from contextlib import asynccontextmanager

import psutil
import trio
import trio.testing

from hoptrio.downstream.listener import Listener
from hoptrio.ledger.model import RequestFilter
from hoptrio.simulator.provider import SimulatedProvider
from tests.support.client import Client
from tests.support.harness import NANOS_PER_INPUT, NANOS_PER_OUTPUT, gateway
from tests.support.raw import assert_nothing_held
from tests.support.simulated import Simulated
from tests.support.websocket import frame, raw_frames

TEXT, BINARY, CLOSE, PING = 1, 2, 8, 9
#: Half a second, of which the client sees little.
PROMPT = "sim: events=10 pace=50ms input=100 output=50"
CHARGE_NANOS = 100 * NANOS_PER_INPUT + 50 * NANOS_PER_OUTPUT
RESET_ON_CLOSE = struct.pack("ii", 1, 0)
CREATE = frame(TEXT, json.dumps({"type": "response.create", "model": "m", "input": PROMPT}).encode())
#: What a client sends when its turn has begun, and the code that it is told.
SENT = {
    "bad UTF-8": (1007, frame(TEXT, b"\xff")),
    "half a character": (1007, frame(TEXT, b"\xf0\x9f", fin=False) + frame(0)),
    "binary": (1003, frame(BINARY, b"\x00")),
    "no mask": (1002, frame(TEXT, b"{}", masked=False)),
    "a reserved bit": (1002, frame(TEXT, b"{}", rsv=1)),
    "a long ping": (1002, frame(PING, b"x" * 126)),
    "a message inside another": (1002, frame(TEXT, b"{", fin=False) + frame(TEXT, b"}")),
    "a close": (1000, frame(CLOSE, b"\x03\xe8")),
    "a wrong close": (1002, frame(CLOSE, b"\x00\x01")),
}
WAYS = (
    *SENT,
    "oversize",
    "half-close",
    "close of the connection",
    "reset",
    "cut inside a frame",
    "cut behind the head",
)


async def begin(address, secret):
    """A connection whose turn runs."""
    client = Client(await trio.open_tcp_stream(*address))
    frames = await raw_frames(client, secret)
    await client.send(CREATE)
    assert (await frames.next())[0] == TEXT
    return frames


async def misbehave(address, secret, way):
    frames = await begin(address, secret)
    stream = frames.client.stream
    if way in SENT:
        code, sent = SENT[way]
        await stream.send_all(sent)
        assert await frames.close_code() == code, way
    elif way == "oversize":
        await oversize(frames)
    elif way == "half-close":
        await stream.send_eof()
        assert await frames.close_code() is None
    elif way == "reset":
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    elif way == "cut inside a frame":
        await stream.send_all(frame(TEXT, b"{}")[:3])
    elif way == "cut behind the head":
        other = await trio.open_tcp_stream(*address)
        await other.send_all(b"GET /v1/responses HTTP/1.1\r\n")
        await other.aclose()
    await stream.aclose()


async def oversize(frames):
    """More than 64 MiB, in fragments."""
    piece = frame(0, b" " * 2**20, fin=False)
    await frames.client.send(frame(TEXT, b"{", fin=False))
    codes = []
    async with trio.open_nursery() as nursery:

        async def hear():
            codes.append(await frames.close_code())
            nursery.cancel_scope.cancel()

        nursery.start_soon(hear)
        try:
            for _ in range(80):
                await frames.client.send(piece)
        except trio.BrokenResourceError:
            pass
    assert codes == [1009]


async def held(world):
    """What this process has once the provider's idle connections are gone: tasks and descriptors."""
    world.gateway.upstream.close_idle()
    await trio.testing.wait_all_tasks_blocked()
    return trio.lowlevel.current_statistics().tasks_living, psutil.Process().num_fds()


def at_most(now, before):
    return all(is_now <= was for is_now, was in zip(now, before, strict=True))


@asynccontextmanager
async def on_sockets():
    """A gateway whose clients come over TCP and whose provider does not: every descriptor is a client's."""
    async with trio.open_nursery() as nursery:
        provider = Simulated(nursery, {"provider.test": SimulatedProvider()})
        async with gateway(connect=provider.connect) as world:
            listener = Listener(world.handler.handle, refuse=world.handler.refuse, backlogs=world.backlogs)
            (socket_listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
            await nursery.start(listener.serve, [socket_listener])
            yield world, listener, socket_listener.socket.getsockname()
            nursery.cancel_scope.cancel()


async def test_clients_that_misbehave_are_told_why_and_nothing_of_them_is_left():
    async with on_sockets() as (world, listener, address):
        await misbehave(address, world.secret, "a close")
        await world.settled()
        before = await held(world)
        async with trio.open_nursery() as nursery:
            for way in (*WAYS, *SENT):
                nursery.start_soon(misbehave, address, world.secret, way)
        await world.settled()
        with trio.fail_after(10):
            while listener.connections or not at_most(await held(world), before):  # noqa: ASYNC110 - nothing says so
                await trio.sleep(0.05)
        assert (world.backlogs.bytes, world.gateway.chains.bytes) == (0, 0)
        records = await world.ledger.requests(RequestFilter())
        assert len(records) == 1 + len(WAYS) + len(SENT)
        assert {(record.state, record.charge_nanos) for record in records} == {("captured", CHARGE_NANOS)}
        await assert_nothing_held(world, charged_nanos=len(records) * CHARGE_NANOS)
