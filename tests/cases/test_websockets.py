"""WebSocket clients that misbehave in the middle of a turn, against a real gateway on real sockets: each is told the
right code, every turn is drained and charged, and the process is as it was before."""

from __future__ import annotations

import json
import socket
import struct
from decimal import Decimal
from functools import partial

import psutil
import trio

from tests.support.client import Client
from tests.support.deployment import Deployment, as_records, config_for, served
from tests.support.running import simulator
from tests.support.websocket import frame, raw_frames

TEXT, BINARY, CLOSE, PING = 1, 2, 8, 9
#: Half a second, of which the client sees little.
PROMPT = "sim: events=10 pace=50ms input=100 output=50"
CHARGE = Decimal("0.00015")
RESET_ON_CLOSE = struct.pack("ii", 1, 0)
CREATE = frame(TEXT, json.dumps({"type": "response.create", "model": "sim-small", "input": PROMPT}).encode())
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


async def begin(server, secret):
    """A connection whose turn runs."""
    client = Client(await trio.open_tcp_stream(*server.address))
    frames = await raw_frames(client, secret)
    await client.send(CREATE)
    assert (await frames.next())[0] == TEXT
    return frames


async def misbehave(server, secret, way):
    frames = await begin(server, secret)
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
        other = await trio.open_tcp_stream(*server.address)
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


def open_connections(server, process):
    """Those of clients: the pool keeps idle ones to the provider."""
    _, port = server.address
    return sum(each.laddr.port == port and each.status != psutil.CONN_LISTEN for each in process.net_connections())


async def quiet(server, process, tasks):
    """Wait until nothing runs and nothing more is there than before."""
    with trio.fail_after(20):
        while True:
            _, state = await trio.to_thread.run_sync(server.ready)
            if (state["streams"], open_connections(server, process)) == (0, 0) and state["tasks"] <= tasks:
                return
            await trio.sleep(0.1)


async def test_clients_that_misbehave_are_told_why_and_nothing_of_them_is_left(tmp_path):
    with simulator() as provider:
        deployment = Deployment(tmp_path, config_for(provider))
        secret = deployment.add_account("acme")
        with served(deployment) as server:
            process = psutil.Process(server.pid)
            _, state = await trio.to_thread.run_sync(server.ready)
            async with trio.open_nursery() as nursery:
                for way in (*WAYS, *SENT):
                    nursery.start_soon(partial(misbehave, server, secret, way))
            await quiet(server, process, state["tasks"])
        records = as_records(deployment).values()
        assert len(records) == len(WAYS) + len(SENT)
        assert {(record["state"], Decimal(record["charge"])) for record in records} == {("captured", CHARGE)}
        audit = deployment.audit()
        assert (audit["ok"], audit["violations"], audit["open_holds"]) == (True, [], 0)
        assert "websocket_failed" not in server.log
