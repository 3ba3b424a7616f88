"""The driver: steps performed on connections. Requests are read by h11; responses are framed by hand.

Writing by hand is what makes the simulator cheap enough to load a gateway with (an event costs one formatted write),
and able to break the framing, which h11 rightly refuses to do. The driver knows nothing of protocols.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import termios
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

import h11
import trio

from hoptrio.limits import HEAD_BYTES_MAX, LINGER_S, READ_BYTES_MAX
from hoptrio.simulator.steps import Cut, End, Hang, Head, Raw, Reset, Send, Sleep

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hoptrio.simulator.provider import SimulatedProvider
    from hoptrio.simulator.seen import Seen
    from hoptrio.simulator.steps import Steps

__all__ = ["listen", "open_listeners", "serve", "serve_listeners"]

_GONE = (trio.BrokenResourceError, trio.ClosedResourceError)
_OUTCOMES = {End: "ended", Cut: "cut", Reset: "reset", Hang: "open"}
#: A load test opens its connections all at once.
_BACKLOG = 4096
_WRITES_A_TURN = 16
#: Pauses up to this are not watched: the next write finds out as soon.
_WATCHED_S = 0.5
_DRAIN_POLL_S = 0.001
_DRAIN_S = 1.0


async def listen(
    provider: SimulatedProvider,
    host: str,
    port: int,
    *,
    task_status: trio.TaskStatus[Sequence[trio.SocketListener]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve on `host`:`port` (0: any free port) until cancelled; reports the listeners once they listen."""
    listeners = await open_listeners(host, port)
    task_status.started(listeners)
    await serve_listeners(provider, listeners)


async def open_listeners(host: str, port: int) -> list[trio.SocketListener]:
    """Listen, without accepting yet. Raises OSError."""
    return await trio.open_tcp_listeners(port, host=host, backlog=_BACKLOG)


async def serve_listeners(provider: SimulatedProvider, listeners: Sequence[trio.SocketListener]) -> None:
    """Serve until cancelled."""
    await trio.serve_listeners(partial(serve, provider), list(listeners))


async def serve(provider: SimulatedProvider, stream: trio.abc.Stream) -> None:
    """One connection: requests one after another until either side ends it. Closes the stream."""
    unread = b""
    try:
        while True:
            reader = _RequestReader(stream, unread)
            body = await reader.read()
            if body is None:
                return
            seen = provider.saw(*reader.head, body)
            performance = _Performance(stream, seen, http11=reader.http11)
            if not await performance.run(provider.respond(seen, body)):
                return
            unread = reader.unread
    except _GONE:
        pass
    finally:
        await trio.aclose_forcefully(stream)


class _RequestReader:
    """Reads one request. What was received behind it is `unread`."""

    def __init__(self, stream: trio.abc.Stream, unread: bytes) -> None:
        self._stream = stream
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
        self.http11 = True
        #: Method, target and headers, once they were read.
        self.head: tuple[str, str, tuple[tuple[str, str], ...]] = ("", "", ())
        if unread:
            self._http.receive_data(unread)

    @property
    def unread(self) -> bytes:
        return self._http.trailing_data[0]

    async def read(self) -> bytes | None:
        """The next request's body; None if the client is done or does not speak HTTP."""
        body: list[bytes] = []
        while True:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError:
                await self._stream.send_all(
                    b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
                )
                return None
            if event is h11.NEED_DATA:
                await self._receive()
            elif isinstance(event, h11.Request):
                self._note(event)
            elif isinstance(event, h11.Data):
                body.append(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                return b"".join(body)
            else:
                return None

    async def _receive(self) -> None:
        if self._http.they_are_waiting_for_100_continue:
            await self._stream.send_all(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._http.send(h11.InformationalResponse(status_code=100, headers=[]))
        self._http.receive_data(bytes(await self._stream.receive_some(READ_BYTES_MAX)))

    def _note(self, request: h11.Request) -> None:
        self.http11 = request.http_version == b"1.1"
        headers = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in request.headers)
        self.head = (request.method.decode("latin-1"), request.target.decode("latin-1"), headers)


class _Performance:
    """One response. The head waits for the first step that needs it, so that it leaves with the first event."""

    def __init__(self, stream: trio.abc.Stream, request: Seen, *, http11: bool) -> None:
        self._stream = stream
        self._request = request
        self._http11 = http11
        self._chunked = False
        self._delimited = False
        self._head = b""
        self._descriptor = stream.socket.fileno() if isinstance(stream, trio.SocketStream) else None

    async def run(self, steps: Steps) -> bool:
        """Perform the steps; True if the connection can be used again."""
        try:
            await self._perform(steps)
        except _GONE:
            if self._request.outcome == "open":
                self._request.outcome = "client_gone"
            raise
        finally:
            self._request.over.set()
        ended = self._request.outcome == "ended"
        return ended and self._delimited and self._http11 and self._request.header("connection") != "close"

    async def _perform(self, steps: Steps) -> None:
        """The schedule is absolute: a pause counts from the end of the last one, however slow the writes were."""
        due = trio.current_time()
        for step in steps:
            if isinstance(step, Send):
                await self._send(step.data)
            elif isinstance(step, Sleep):
                await self._flush()
                due += step.seconds
                await self._pause(due)
            elif isinstance(step, Head):
                self._begin(step)
            elif isinstance(step, Raw):
                await self._stream.send_all(step.data)
            else:
                await self._finish(step)

    def _begin(self, head: Head) -> None:
        lines = [f"HTTP/1.1 {head.status} {_phrase(head.status)}"]
        lines += [f"{name}: {value}" for name, value in head.headers]
        self._chunked = head.length is None and head.chunked and self._http11
        self._delimited = self._chunked or head.length is not None
        if head.length is not None:
            lines.append(f"content-length: {head.length}")
        lines.append("transfer-encoding: chunked" if self._chunked else "")
        if not self._delimited:
            lines.append("connection: close")
        self._head = "".join(line + "\r\n" for line in lines if line).encode("latin-1") + b"\r\n"

    async def _send(self, data: bytes) -> None:
        if not data:
            return
        if self._chunked:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        if self._head:
            data, self._head = self._head + data, b""
        self._request.writes += 1
        await self._write(data)

    async def _flush(self) -> None:
        if self._head:
            head, self._head = self._head, b""
            await self._stream.send_all(head)

    async def _pause(self, until: float) -> None:
        """Wait; in a long pause a client that leaves is noticed. What it may send meanwhile stays unread."""
        if self._descriptor is not None and until - trio.current_time() > _WATCHED_S:
            with trio.move_on_at(until):
                await trio.lowlevel.wait_readable(self._descriptor)
                if _has_left(self._descriptor):
                    raise trio.BrokenResourceError
        await trio.sleep_until(until)

    async def _write(self, data: bytes) -> None:
        """A socket that takes the bytes at once is written to directly, which costs a quarter of `send_all`; every few
        writes others have their turn."""
        if self._descriptor is not None and self._request.writes % _WRITES_A_TURN:
            try:
                data = data[os.write(self._descriptor, data) :]
            except BlockingIOError:
                pass
            except OSError as error:
                raise trio.BrokenResourceError from error
            if not data:
                return
        await self._stream.send_all(data)

    async def _finish(self, step: End | Cut | Reset | Hang) -> None:
        if isinstance(step, End) and self._chunked:
            self._head += b"0\r\n\r\n"
        await self._flush()
        self._request.outcome = _OUTCOMES[type(step)]
        if isinstance(step, Cut) or (isinstance(step, End) and not self._delimited):
            await _fin(self._stream)
        elif isinstance(step, Reset):
            await _reset(self._stream)
        elif isinstance(step, Hang):
            while await self._stream.receive_some(READ_BYTES_MAX):
                pass
            self._request.outcome = "client_gone"


def _has_left(descriptor: int) -> bool:
    """A readable socket without a byte is at its end, or reset."""
    with socket.socket(fileno=os.dup(descriptor)) as peeked:
        try:
            return not peeked.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Simulated"


async def _fin(stream: trio.abc.Stream) -> None:
    """FIN, then read what is still coming: a close with unread input would be a reset."""
    if isinstance(stream, trio.abc.HalfCloseableStream):
        await stream.send_eof()
        with trio.move_on_after(LINGER_S):
            while await stream.receive_some(READ_BYTES_MAX):
                pass


async def _reset(stream: trio.abc.Stream) -> None:
    """RST, once the kernel has delivered what was written: a reset throws the send queue away.

    A stream that is no socket is merely closed.
    """
    if not isinstance(stream, trio.SocketStream):
        return
    with trio.move_on_after(_DRAIN_S):
        while _unsent(stream.socket.fileno()):  # noqa: ASYNC110 - the kernel has no event for it
            await trio.sleep(_DRAIN_POLL_S)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _unsent(descriptor: int) -> int:
    """Bytes in the send queue that the peer has not acknowledged (SIOCOUTQ)."""
    answer: bytes = fcntl.ioctl(descriptor, termios.TIOCOUTQ, struct.pack("i", 0))
    return int(struct.unpack("i", answer)[0])
