"""Connection: the h11 driver. One client connection, many requests, one after the other.

Each request has an h11 state machine of its own; bytes behind it return to the wire's inbox, so every head passes the
same checks. A request whose body was not read, or that HTTP/1.0 or ``Connection: close`` ended, is the last one: then
the connection is closed in a way that the client can read the response (`closing`). Expected endings return; the one
`except Exception` is the edge around a handler, and it logs where the bug is, never what it says.
"""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

import h11
import structlog
import trio

from hoptrio import limits
from hoptrio.downstream import closing
from hoptrio.downstream.exchange import Exchange
from hoptrio.downstream.head import Head, check_raw_head, find_head_end, make_head, sketch_head
from hoptrio.downstream.wire import GONE, Wire
from hoptrio.downstream.writer import ResponseWriter
from hoptrio.errors import BadRequest, BodyTooSlow, HoptrioError, Internal

if TYPE_CHECKING:
    import socket

    from hoptrio.downstream.backlog import BacklogTotal
    from hoptrio.downstream.drain import Drain

__all__ = ["Handler", "Refuse", "serve_connection"]

Handler = Callable[[Exchange], Awaitable[None]]
#: Renders an error met outside a handler: (the head or a sketch of it, if there is one, the error) -> status, headers,
#: body.
Refuse = Callable[[Head | None, HoptrioError], tuple[int, Sequence[tuple[bytes, bytes]], bytes]]

_LOG = structlog.get_logger(__name__)
_NOT_HTTP = "The request is not valid HTTP/1.1."
#: A refused head is looked at this far for what it asked for.
_SKETCH_BYTES = 4 * limits.KIB


def serve_connection(
    connection: socket.socket | trio.abc.Stream,
    handler: Handler,
    *,
    refuse: Refuse,
    backlogs: BacklogTotal,
    drain: Drain,
    nursery: trio.Nursery | None = None,
) -> Coroutine[Any, Any, None]:
    """Serve one client until it or we close; `connection` is closed at the end, and must not be used by the caller.
    `nursery` is for what a plain socket's backlog needs (`writer`); each has its own without one, and any other stream.

    `handler` answers one exchange after another. What it raises is answered here: a HoptrioError by `refuse`, a bug by
    a 500, or an abort where a head is already out.
    """
    # Not a coroutine itself, whose frame would keep trio's wrapper of the socket for as long as the connection lasts.
    wire = Wire(connection)
    if wire.sock is None or nursery is None:
        return _serve_alone(wire, handler, refuse, backlogs, drain)
    # A nursery takes 25 us and 1.5 KiB, and few connections ever have a task in it.
    return _serve(_Connection(wire, handler, refuse, backlogs, drain, nursery))


async def _serve_alone(wire: Wire, handler: Handler, refuse: Refuse, backlogs: BacklogTotal, drain: Drain) -> None:
    async with trio.open_nursery() as nursery:
        await _serve(_Connection(wire, handler, refuse, backlogs, drain, nursery))


async def _serve(connection: _Connection) -> None:
    try:
        if await connection.handshake():
            while await connection.serve_one():
                pass
    finally:
        connection.drop()
        await connection.wire.close()  # noqa: ASYNC102 - bounded and shielded in there, if it waits at all


class _Connection:
    __slots__ = ("_backlogs", "_drain", "_handler", "_nursery", "_raw", "_refuse", "_writer", "wire")

    def __init__(
        self,
        wire: Wire,
        handler: Handler,
        refuse: Refuse,
        backlogs: BacklogTotal,
        drain: Drain,
        nursery: trio.Nursery,
    ) -> None:
        self.wire = wire
        self._handler = handler
        self._refuse = refuse
        self._backlogs = backlogs
        self._drain = drain
        self._nursery = nursery
        #: The head being judged, kept for the shape of its refusal.
        self._raw = b""
        self._writer: ResponseWriter | None = None

    async def handshake(self) -> bool:
        """TLS, if it is; False when it failed or took longer than a head may."""
        if self.wire.sock is not None:
            return True
        with trio.move_on_after(limits.HEAD_S):
            try:
                await self.wire.handshake()
            except GONE:
                return False
            return True
        return False

    async def serve_one(self) -> bool:
        """Serve one request; True when another may follow on this connection."""
        self._raw = b""
        try:
            exchange = await self._read_head()
        except HoptrioError as error:
            sketch = sketch_head(self._raw or bytes(self.wire.inbox[:_SKETCH_BYTES]))
            await self._answer(self._new_writer(None), sketch, error)
        else:
            if exchange is None:
                return False
            await self._handle(exchange)
        return await self._reusable()

    def _new_writer(self, head: Head | None) -> ResponseWriter:
        self._writer = ResponseWriter(self.wire, head, self._backlogs, self._drain, self._nursery)
        return self._writer

    async def _handle(self, exchange: Exchange) -> None:
        writer = exchange.writer
        try:
            await self._handler(exchange)
            error: HoptrioError | None = None
        except HoptrioError as refused:
            error = refused
        except Exception as bug:
            _LOG.error("handler_failed", **_describe(bug))
            error = Internal("The gateway failed to answer this request.")
        if writer.ended or writer.gone or self.wire.closed:
            return
        await self._answer(writer, exchange.head, error or Internal("The gateway gave no answer to this request."))

    async def _answer(self, writer: ResponseWriter, head: Head | None, error: HoptrioError) -> None:
        if writer.head_written:
            await writer.abort()
        else:
            await writer.respond(*self._refuse(head, error))

    async def _reusable(self) -> bool:
        writer = self._writer
        if writer is None:
            return False
        # It knows the writer: without a cycle both are freed at once, and not by the collector.
        watch = writer.watch
        del writer.watch
        if writer.gone or not writer.ended:
            return False
        await watch.ended()
        if writer.reusable:
            return True
        await closing.finish(self.wire)
        return False

    def drop(self) -> None:
        """A body that is delimited by the close must not look complete when this connection ends before it."""
        writer = self._writer
        if writer is not None:
            writer.forget()
            if writer.close_delimited and not writer.ended:
                self.wire.reset()

    async def _read_head(self) -> Exchange | None:
        """The next request; None when the client has none to send. Raises a HoptrioError for one that is refused."""
        # What came with the connection, or behind the request before, is not waited for.
        if not self.wire.inbox and not self._read_now() and not await self._wait_for_request():
            return None
        raw = self._take_head(0)
        if raw is None:
            with trio.move_on_after(limits.HEAD_S) as late:
                raw = await self._receive_head()
            if late.cancelled_caught:
                raise BodyTooSlow("The request head took too long.")
        return None if raw is None else self._parse_head(raw)

    async def _wait_for_request(self) -> bool:
        with trio.move_on_after(limits.KEEPALIVE_IDLE_S) as scope:
            self._drain.waits(scope)
            try:
                return await self._receive()
            finally:
                self._drain.waits_no_more(scope)
        return False

    async def _receive_head(self) -> bytes | None:
        raw = None
        while raw is None:
            searched = len(self.wire.inbox)
            if not await self._receive():
                return None
            raw = self._take_head(searched)
        return raw

    def _take_head(self, searched: int) -> bytes | None:
        """The head in the inbox, if it is whole; the first `searched` bytes are known not to end one."""
        inbox = self.wire.inbox
        if inbox[:2] == b"\r\n":
            # One empty line in front of a request is ignored (RFC 9112 section 2.2).
            del inbox[:2]
            searched = max(0, searched - 2)
        end = find_head_end(inbox, searched)
        if end is None:
            return None
        self._raw = bytes(inbox[:end])
        del inbox[:end]
        return self._raw

    def _read_now(self) -> bool:
        """Whether something was there without waiting, if only the end."""
        try:
            return self.wire.read_now() is not None
        except GONE:
            return True

    async def _receive(self) -> bool:
        try:
            return await self.wire.receive()
        except GONE:
            return False

    def _parse_head(self, raw: bytes) -> Exchange:
        check_raw_head(raw)
        protocol = h11.Connection(h11.SERVER, max_incomplete_event_size=limits.HEAD_BYTES_MAX)
        try:
            protocol.receive_data(raw)
            request = protocol.next_event()
        except h11.RemoteProtocolError:
            raise BadRequest(_NOT_HTTP) from None
        if not isinstance(request, h11.Request):
            raise BadRequest(_NOT_HTTP)
        head = make_head(request.method, request.target, request.headers, request.http_version, self.wire.peer)
        return Exchange(head, self._new_writer(head), protocol)


def _describe(bug: BaseException) -> dict[str, object]:
    """The class and the innermost frames of a bug, without its message: that may quote a request."""
    while isinstance(bug, BaseExceptionGroup):
        bug = bug.exceptions[0]
    frames = traceback.extract_tb(bug.__traceback__)[-6:]
    at = [f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}" for frame in frames]
    return {"error": type(bug).__name__, "at": at}
