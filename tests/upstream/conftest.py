"""Providers for these tests: over memory streams, where time may be virtual, and over real sockets."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import pytest
import trio
import trio.testing

from hoptrio.upstream.answer import Origin, Unreached, UpstreamRequest

ORIGIN = Origin("http", "provider.test", 80)


def request_for(origin=ORIGIN, body=b"{}", target=b"/v1/chat/completions", headers=()):
    return UpstreamRequest(
        origin=origin, method=b"POST", target=target, headers=((b"host", b"provider.test"), *headers), body=body
    )


async def read_request(stream, held=b""):
    """Read one request from a byte stream; returns (head, body), or None at the end of the stream."""
    data = held
    while b"\r\n\r\n" not in data:
        more = await stream.receive_some(65536)
        if not more:
            return None
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.startswith(b"content-length:"))
    while len(body) < length:
        body += await stream.receive_some(65536)
    return head, body


async def read_answer(answer):
    """The whole body and how it ended."""
    assert not isinstance(answer, Unreached), answer
    parts = []
    while isinstance(data := await answer.receive(), bytes):
        assert data
        parts.append(data)
    return b"".join(parts), data


class Script:
    """A provider that answers the n-th request of each connection with the n-th element of `answers` (the last one for
    ever): bytes, or a list of bytes and of seconds to wait; then it ends the connection if `closes`."""

    def __init__(self, *answers, closes=False):
        self.answers = answers
        self.closes = closes
        self.connections = 0
        self.requests = []

    async def __call__(self, stream):
        self.connections += 1
        for n in range(10**6):
            request = await read_request(stream)
            if request is None:
                break
            self.requests.append(request)
            answer = self.answers[min(n, len(self.answers) - 1)]
            for part in [answer] if isinstance(answer, bytes) else answer:
                if isinstance(part, bytes):
                    await stream.send_all(part)
                else:
                    await trio.sleep(part)
            if self.closes:
                await stream.send_eof()
                await stream.receive_some(1)
                break


async def _quiet(handler, stream):
    async with stream:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await handler(stream)


@pytest.fixture
def memory_connector(nursery):
    """`memory_connector(handler)` is a connector whose connections `handler` serves in memory."""

    def make(handler):
        async def connector(origin):
            await trio.lowlevel.checkpoint()
            ours, theirs = trio.testing.memory_stream_pair()
            nursery.start_soon(_quiet, handler, theirs)
            return ours

        return connector

    return make


@pytest.fixture
def tcp_origin(nursery):
    """`await tcp_origin(handler, wrap=...)` serves `handler` on a free port of the loopback, and is its origin."""

    async def make(handler, wrap=None, **fields):
        async def serve(stream):
            if wrap is not None:
                stream = wrap(stream)
            await _quiet(handler, stream)

        listeners = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        port = listeners[0].socket.getsockname()[1]
        return Origin(fields.pop("scheme", "http"), fields.pop("host", "127.0.0.1"), port, **fields)

    return make


@pytest.fixture
def kit():
    """The helpers above, since test modules do not import each other."""

    class Kit:
        Script = Script
        Unreached = Unreached
        origin = ORIGIN
        read_answer = staticmethod(read_answer)
        read_request = staticmethod(read_request)
        request_for = staticmethod(request_for)

    return Kit
