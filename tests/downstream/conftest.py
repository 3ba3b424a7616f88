"""A client of the downstream room: over memory streams (for the mock clock), or over real TCP."""

from __future__ import annotations

import socket
import struct
from functools import partial

import pytest
import trio
import trio.testing

from hoptrio.downstream.backlog import BacklogTotal
from hoptrio.downstream.connection import serve_connection
from hoptrio.downstream.drain import Drain
from hoptrio.downstream.listener import Listener

SSE = [(b"content-type", b"text/event-stream")]


def refuse(head, error):
    body = b'{"error":"%b"}' % error.code.encode()
    return error.status, [(b"content-type", b"application/json")], body


class Client:
    """What a client does with its connection, raw."""

    def __init__(self, stream):
        self.stream = stream

    async def send(self, data):
        await self.stream.send_all(data)

    async def some(self):
        return bytes(await self.stream.receive_some(65536))

    async def until(self, ending):
        received = b""
        while not received.endswith(ending):
            data = await self.some()
            assert data, received
            received += data
        return received

    async def all(self):
        received = b""
        while data := await self.some():
            received += data
        return received

    async def reset(self):
        self.stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await self.stream.aclose()


class Gateway:
    """The room under test, and what a test wants to know about it."""

    def __init__(self, nursery):
        self.nursery = nursery
        self.backlogs = BacklogTotal()
        self.drain = Drain()
        self.clients = []
        #: Set when the connection's task is over.
        self.closed = trio.Event()

    def memory(self, handler):
        """A client on memory streams."""
        return self.over(trio.testing.memory_stream_pair(), handler)

    def lockstep(self, handler):
        """A client that must read for the gateway's write to return."""
        return self.over(trio.testing.lockstep_stream_pair(), handler)

    def over(self, pair, handler):
        ours, theirs = pair
        self.nursery.start_soon(self.serve, theirs, handler)
        return self.client(ours)

    def client(self, stream):
        self.clients.append(Client(stream))
        return self.clients[-1]

    async def serve(self, stream, handler):
        await serve_connection(stream, handler, refuse=refuse, backlogs=self.backlogs, drain=self.drain)
        self.closed.set()

    async def tcp(self, handler, *, receive_bytes=None):
        """A client on a TCP connection; `receive_bytes` bounds its receive buffer."""
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        sock = trio.socket.socket()
        if receive_bytes is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        await sock.connect(listener.socket.getsockname())
        self.nursery.start_soon(self.serve, await listener.accept(), handler)
        await listener.aclose()
        return self.client(trio.SocketStream(sock))


@pytest.fixture
async def gateway(nursery):
    it = Gateway(nursery)
    yield it
    for client in it.clients:
        await trio.aclose_forcefully(client.stream)


@pytest.fixture
def make_listener():
    return partial(Listener, refuse=refuse)


async def echo(exchange):
    """Answers with the method, the path and the body."""
    body = await exchange.read_body()
    await exchange.writer.respond(200, [], b"%b %b %b" % (exchange.head.method, exchange.head.target, body))


def streaming(body):
    """A handler that runs `body(writer)` as the stream layer does."""

    async def handler(exchange):
        exchange.writer.start()
        try:
            exchange.writer.head(200, SSE)
            await body(exchange.writer)
        finally:
            exchange.writer.stop()

    return handler


@pytest.fixture(name="echo")
def echo_fixture():
    return echo


@pytest.fixture(name="streaming")
def streaming_fixture():
    return streaming
