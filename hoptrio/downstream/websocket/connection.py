"""WebSocket: one client's connection once it is accepted. Text in, text out, pings, and the end with its code.

    run ── the library's reader   frames in; answers pings and close frames
        ── sender                 empties the outbox
        ── pinger                 is the peer there, and does it take what it is sent?

Whoever talks on it calls `receive` until that is None: then the client has left, or `close` was called, or it broke the
protocol; all writing is void from then on, and the connection's descriptor is given back at once, whatever still runs
for its client. What the library raises for bytes of the client or for a broken stream ends here.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import structlog
import trio
from trio_websocket import ConnectionClosed, wrap_server_stream
from wsproto.connection import Connection, ConnectionType
from wsproto.events import CloseConnection
from wsproto.utilities import ProtocolError

from hoptrio import limits
from hoptrio.downstream import closing
from hoptrio.downstream.websocket.handshake import library_head
from hoptrio.downstream.websocket.outbox import Outbox
from hoptrio.downstream.websocket.transport import Transport

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from trio_websocket import WebSocketConnection

    from hoptrio.downstream.backlog import BacklogTotal
    from hoptrio.downstream.exchange import Exchange
    from hoptrio.downstream.websocket.outbox import Share
    from hoptrio.downstream.wire import Wire

__all__ = ["WebSocket", "converse"]

_LOG = structlog.get_logger(__name__)

PROTOCOL_ERROR = 1002
UNSUPPORTED_DATA = 1003
INVALID_DATA = 1007
POLICY_VIOLATION = 1008
TOO_BIG = 1009
INTERNAL_ERROR = 1011
#: Violations after which the library closes without a close frame.
_UNSAID = (PROTOCOL_ERROR, INVALID_DATA)


async def converse(
    exchange: Exchange, headers: Sequence[tuple[bytes, bytes]], talk: Callable[[WebSocket], Awaitable[None]]
) -> None:
    """Answer a checked handshake with 101 and `headers`, run `talk`, and return when it is over and the wire closed."""
    line = exchange.writer.switch()
    async with trio.open_nursery() as nursery:
        socket = WebSocket(line.wire, line.backlogs, library_head(exchange.head), nursery)
        try:
            if await nursery.start(socket.run, headers):
                await talk(socket)
        finally:
            socket.drop()


class WebSocket:
    """One connection; see above."""

    def __init__(self, wire: Wire, backlogs: BacklogTotal, handshake: bytes, nursery: trio.Nursery) -> None:
        """`nursery` outlives the talk."""
        self._wire = wire
        self._nursery = nursery
        self._transport = Transport(wire, handshake)
        self._outbox = Outbox(self, backlogs)
        self._library: WebSocketConnection | None = None
        self._line = trio.CancelScope()
        self._closing = trio.CancelScope()
        self._sending: Share | None = None
        #: The client left, lags, or is told to go: nothing that is written reaches it.
        self.gone = False

    @property
    def blocked_since(self) -> float | None:
        """trio time since when something waits with nothing taken by the client; None = nothing waits."""
        return self._transport.blocked_since

    def share(self) -> Share:
        """A place to write from."""
        return self._outbox.share()

    async def receive(self) -> str | None:
        """The next text message; None when there will be none. A binary message and one above the size of an HTTP body
        end the connection (1003, 1009)."""
        if self._library is None or self.gone:
            return None
        try:
            message = await self._library.get_message()
        except ConnectionClosed:
            self._end()
            return None
        self._transport.finished()
        if isinstance(message, bytes):
            await self.close(UNSUPPORTED_DATA, "Only text messages are understood.")
            return None
        if len(message) > limits.BODY_BYTES_MAX // 4 and len(message.encode()) > limits.BODY_BYTES_MAX:
            await self.close(TOO_BIG, "The message is too large.")
            return None
        return message

    async def close(self, code: int, reason: str = "") -> None:
        """End the connection with `code`. What was written before is not waited for (`Share.delivered`)."""
        if self.gone or self._library is None:
            return
        self.gone = True
        self._closing = trio.move_on_after(limits.WEBSOCKET_CLOSE_S, shield=True)
        with self._closing:
            await self._library.aclose(code, reason)
        self.drop()

    def leave(self) -> None:
        """The client has left: drop what waits, and close its connection, at once where that is possible."""
        if self.gone:
            return
        self._end()
        self._cut()

    def drop(self) -> None:
        """The talk is over. A message that waits for the client would outlive it."""
        self._end()
        if self._transport.blocked_since is not None:
            self._cut()

    def _cut(self) -> None:
        if not self._wire.reset():
            self._nursery.start_soon(self._wire.close)

    def _end(self) -> None:
        self.gone = True
        self._outbox.close(self._sending)
        self._line.cancel()

    # -- the connection's own tasks ------------------------------------------------------------------------------------

    async def run(
        self, headers: Sequence[tuple[bytes, bytes]], *, task_status: trio.TaskStatus[bool] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Shake hands, then serve until the end; reports whether there is a connection."""
        try:
            await self._serve(headers, task_status)
        except* (ProtocolError, ConnectionClosed, trio.BrokenResourceError, trio.ClosedResourceError):
            # A ping behind our close frame, a broken stream: ends of the library that it does not expect itself.
            pass
        except* Exception as bugs:
            _LOG.error("websocket_failed", error=type(bugs.exceptions[0]).__name__)
        self._end()
        self._closing.cancel()
        if self._library is None:
            task_status.started(False)
        await self._hang_up()

    async def _serve(self, headers: Sequence[tuple[bytes, bytes]], task_status: trio.TaskStatus[bool]) -> None:
        with self._line:
            async with trio.open_nursery() as nursery:
                request = await wrap_server_stream(
                    nursery,
                    self._transport,
                    max_message_size=limits.BODY_BYTES_MAX,
                    receive_buffer_size=limits.READ_BYTES_MAX,
                )
                self._library = await request.accept(extra_headers=list(headers))
                self._transport.accept()
                nursery.start_soon(self._send, self._library)
                nursery.start_soon(self._ping, self._library)
                task_status.started(True)

    async def _send(self, library: WebSocketConnection) -> None:
        while True:
            self._sending, message = await self._outbox.take()
            await library.send_message(message.decode("utf-8", "replace"))
            self._sending.sent(len(message))
            self._sending = None

    async def _ping(self, library: WebSocketConnection) -> None:
        """A client that is slow is judged by what it takes, one to which nothing waits by its silence. A message has
        the time that a body has."""
        while True:
            await trio.sleep(limits.WEBSOCKET_PING_S)
            pinged_at = trio.current_time()
            with trio.move_on_after(limits.WEBSOCKET_PONG_S):
                await library.ping()
            blocked_since = self.blocked_since
            if blocked_since is not None:
                if trio.current_time() >= blocked_since + limits.WRITE_STALL_S:
                    self.leave()
            elif self._transport.heard_at < pinged_at:
                await self.close(INTERNAL_ERROR, "The peer is silent.")
            elif self._is_overdue():
                await self.close(POLICY_VIOLATION, "The message took too long.")

    def _is_overdue(self) -> bool:
        transport = self._transport
        much = transport.unfinished_bytes > limits.WEBSOCKET_UNFINISHED_BYTES_MAX
        return much and trio.current_time() - transport.unfinished_since > limits.BODY_S

    async def _hang_up(self) -> None:
        if self._wire.closed:
            return
        ended = self._library.closed if self._library is not None else None
        if ended is not None and ended.code in _UNSAID and not self._transport.close_sent:
            await self._say(ended.code)
        await closing.finish(self._wire)

    async def _say(self, code: int) -> None:
        frame = Connection(ConnectionType.SERVER).send(CloseConnection(code=code))
        with suppress(trio.BrokenResourceError):
            await self._transport.send_all(frame)
