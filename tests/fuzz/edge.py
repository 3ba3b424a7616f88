"""The HTTP edge: what a client may write to the data plane's socket."""

from __future__ import annotations

import h11
import trio
import trio.testing

from hoptrio.downstream.backlog import BacklogTotal
from hoptrio.downstream.connection import serve_connection
from hoptrio.downstream.drain import Drain

INVARIANT = (
    "Whatever is written to it, the server answers with whole HTTP/1.1 responses or closes, and the connection's task"
    " ends."
)
SEEDS = [
    b"\x40POST /v1/chat/completions HTTP/1.1\r\nhost: g\r\ncontent-length: 2\r\n\r\n{}"
    b"GET / HTTP/1.1\r\nhost: g\r\n\r\n",
    b"\x01POST / HTTP/1.1\r\nhost: g\r\ntransfer-encoding: chunked\r\nexpect: 100-continue\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    b"\x05GET / HTTP/1.0\r\n\r\n",
    b"\x09OPTIONS * HTTP/1.1\r\nhost: g\r\nconnection: close\r\n\r\n",
]
#: Virtual: time for every limit of the edge to pass.
LONG_S = 3600


def one(data: bytes) -> None:
    """The first byte says how long a piece is that the client sends at a time."""
    clock = trio.testing.MockClock(autojump_threshold=0)
    trio.run(_converse, (data[0] if data else 0) + 1, data[1:], clock=clock)


async def _converse(size: int, request: bytes) -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    answer = b""
    with trio.fail_after(LONG_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_serve, theirs)
            nursery.start_soon(_send, ours, size, request)
            while data := await ours.receive_some(65536):
                answer += data
    _check(answer, request)


async def _serve(stream: trio.abc.Stream) -> None:
    await serve_connection(stream, _echo, refuse=_refuse, backlogs=BacklogTotal(), drain=Drain())


async def _send(stream: trio.StapledStream, size: int, request: bytes) -> None:
    try:
        for start in range(0, len(request), size):
            await stream.send_all(request[start : start + size])
        await stream.send_eof()
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        return


async def _echo(exchange) -> None:
    body = await exchange.read_body()
    await exchange.writer.respond(200, [(b"x-size", b"%d" % len(body))], body)


def _refuse(head, error) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    return error.status, [(b"content-type", b"application/json")], b"{}"


def _check(answer: bytes, request: bytes) -> None:
    """h11 as the client reads response after response, without knowing what was asked, to the last byte."""
    while answer:
        client = h11.Connection(h11.CLIENT)
        # A HEAD is answered without a body; which of several requests this answers is not known here.
        if b"HEAD " in request:
            return
        client.send(h11.Request(method="GET", target="/", headers=[("host", "g")]))
        client.send(h11.EndOfMessage())
        client.receive_data(answer)
        client.receive_data(b"")
        while True:
            event = client.next_event()
            if isinstance(event, h11.EndOfMessage):
                break
            assert isinstance(event, h11.InformationalResponse | h11.Response | h11.Data), event
        answer = client.trailing_data[0]
