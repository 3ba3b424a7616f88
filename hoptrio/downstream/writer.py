"""Writer: one response to one client; implements `stream.ports.Writer`.

The invariant is one order of bytes. While nothing waits and the transport is a plain socket, `write` hands bytes to the
kernel at once: no await, no task switch. What the socket does not take joins the backlog, and from then on everything
does until one task has emptied it. That task exists only while something waits, so an idle stream costs one task, the
watch. On any other transport everything goes through the backlog. The task belongs to the connection and is shielded: a
write is never cancelled halfway, whatever becomes of the handler; it ends when the backlog is empty or dropped.

Heads and chunks are framed by `framing`. The connection can carry another request if nobody said ``close``, the body of
this one was read, and the response came to its end (RFC 9112 section 9.3).
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

import structlog
import trio

from hoptrio import limits
from hoptrio.downstream import closing, framing
from hoptrio.downstream.backlog import backlog_bytes_max
from hoptrio.downstream.watch import Watch
from hoptrio.downstream.wire import GONE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hoptrio.downstream.backlog import BacklogTotal
    from hoptrio.downstream.drain import Drain
    from hoptrio.downstream.head import Head
    from hoptrio.downstream.wire import Wire

__all__ = ["Line", "ResponseWriter"]

_LOG = structlog.get_logger(__name__)
#: Taken from the backlog and offered to the transport in one go.
_PIECE_BYTES = 64 * limits.KIB
_CLOSE = (b"Connection", b"close")
_CHUNKED = (b"Transfer-Encoding", b"chunked")
_BODILESS = (204, 304)


class Line(NamedTuple):
    """A connection that leaves HTTP, and what is its own there."""

    wire: Wire
    backlogs: BacklogTotal
    drain: Drain


class ResponseWriter:
    """The attributes and methods of `stream.ports.Writer`; `write`, `head` and `leave` belong to one task at a time."""

    __slots__ = (
        "_backlogs",
        "_blocked_since",
        "_chunked",
        "_drain_scope",
        "_drain_state",
        "_drained",
        "_draining",
        "_ending",
        "_head_only",
        "_http10",
        "_last",
        "_now",
        "_nursery",
        "_open",
        "_unsent_bytes",
        "_waiting",
        "_waiting_max",
        "body_read",
        "close_delimited",
        "ended",
        "gone",
        "half_closed",
        "head_written",
        "last_write_at",
        "watch",
        "wire",
    )

    def __init__(
        self,
        wire: Wire,
        request: Head | None,
        backlogs: BacklogTotal,
        drain: Drain,
        nursery: trio.Nursery,
    ) -> None:
        """`request` is the head that is answered, None for one that was refused; `nursery` outlives the connection."""
        self.wire = wire
        self._head_only = request is not None and request.method == b"HEAD"
        #: The client knows no chunks.
        self._http10 = request is not None and request.http_version == b"1.0"
        #: The connection ends with this response.
        self._last = request is None or self._http10 or framing.says_close(request.headers)
        self.head_written = False
        self.half_closed = False
        self.gone = False
        #: `trio.current_time` without two of its three frames: every event asks.
        self._now = trio.lowlevel.current_clock().current_time
        self.last_write_at = self._now()
        self._blocked_since: float | None = None
        #: What of it the kernel still had then.
        self._unsent_bytes = 0
        #: Set by the exchange: bytes of an unread body would be taken for the next request.
        self.body_read = False
        #: The body's end is the connection's (HTTP/1.0).
        self.close_delimited = False
        #: The response is complete, and delivered as far as the kernel.
        self.ended = False
        self._backlogs = backlogs
        self._drain_state = drain
        self._waiting = bytearray()
        self._waiting_max = 0
        self._nursery = nursery
        #: A body may be written now: the head is out, nothing has ended, and the client is not gone.
        self._open = False
        self._chunked = False
        self._ending = False
        self._draining = False
        self._drain_scope: trio.CancelScope | None = None
        self._drained: trio.Event | None = None
        self.watch = Watch(self, nursery)

    @property
    def blocked_since(self) -> float | None:
        """See `stream.ports.Writer`. A kernel reports room only once much of its queue is free, which takes a client
        that reads slowly for minutes: what it took meanwhile is seen by the queue's length."""
        if self._blocked_since is not None and self.wire.unsent_bytes() < self._unsent_bytes:
            self._block()
        return self._blocked_since

    def _block(self) -> None:
        """From now on the client is waited for."""
        self._blocked_since = trio.current_time()
        self._unsent_bytes = self.wire.unsent_bytes()

    def switch(self) -> Line:
        """The connection, for another protocol: nothing was written here, and nothing will be."""
        return Line(self.wire, self._backlogs, self._drain_state)

    async def ask_for_body(self) -> None:
        """The interim answer to ``Expect: 100-continue``."""
        if not self.gone:
            self._put(framing.CONTINUE)
            await self.flush()

    def start(self) -> None:
        """Watch the client from now on."""
        if not self.gone and not self.wire.closed:
            self.watch.start()

    def stop(self) -> None:
        """Watch it no more."""
        self.watch.stop()

    def head(self, status: int, headers: Sequence[tuple[bytes, bytes]]) -> None:
        """Write the head of a streamed response."""
        if self.gone or self.wire.closed:
            return
        has_body = self._has_body(status)
        self._chunked = has_body and not self._http10
        self.close_delimited = has_body and self._http10
        # What a GET's answer would have is said in the answer to HEAD, too (RFC 9110 section 9.3.2).
        chunked = status not in _BODILESS and not self._http10
        self._put(self._head(status, [*headers, _CHUNKED] if chunked else headers))
        self._open = has_body and not self.gone

    def _head(self, status: int, headers: Sequence[tuple[bytes, bytes]]) -> bytes:
        self._last = self._last or self._drain_state.draining or not self.body_read
        self.head_written = True
        return framing.head(status, [*headers, _CLOSE] if self._last else headers)

    @property
    def reusable(self) -> bool:
        """Another request may follow on the connection."""
        return self.ended and not self._last

    def _has_body(self, status: int) -> bool:
        """Whether a body may follow; the answer to HEAD has only its head (RFC 9112 section 6.3)."""
        return not self._head_only and status not in _BODILESS

    def write(self, data: bytes) -> None:
        """Write whole events; before `head` and after the end, nothing."""
        if not self._open or not data:
            return
        self._put(framing.chunk(data) if self._chunked else data)

    def _put(self, data: bytes) -> None:
        self.last_write_at = self._now()
        send_now = self.wire.send_now
        if send_now is not None and not self._waiting:
            try:
                sent = send_now(data)
            except BlockingIOError:
                sent = 0
            except OSError:
                self.leave()
                return
            if sent == len(data):
                return
            data = data[sent:]
        self._queue(data)

    def _queue(self, data: bytes) -> None:
        if not self._lags():
            self._waiting_max = backlog_bytes_max(len(self._waiting) + len(data))
        elif len(self._waiting) + len(data) > self._waiting_max:
            self.leave()
            return
        self._waiting += data
        if self._blocked_since is None:
            self._block()
        self._backlogs.add(self, len(data))
        if not self._draining and not self.gone:
            self._draining = True
            self._nursery.start_soon(self._drain)

    def _lags(self) -> bool:
        """Whether something waits that has had its turn to go: a head that was written a moment ago is not the
        client's fault, and no reason to refuse it a large event."""
        return bool(self._waiting) and (self._drain_scope is not None or len(self._waiting) > limits.READ_BYTES_MAX)

    async def _drain(self) -> None:
        """Empty the backlog. Runs at most once at a time; dropping the backlog ends it."""
        with trio.CancelScope(shield=True) as self._drain_scope:
            try:
                while self._waiting:
                    self._took(await self.wire.send(self._waiting[:_PIECE_BYTES]))
            except GONE:
                self.leave()
            except Exception as bug:
                # The nursery may be that of all connections.
                _LOG.error("delivery_failed", error=type(bug).__name__)
                self.leave()
        self._drain_scope = None
        self._draining = False
        if self._drained is not None:
            self._drained.set()
            self._drained = None

    def _took(self, size: int) -> None:
        if not self._waiting:
            # Dropped while this piece was on its way.
            return
        del self._waiting[:size]
        self._backlogs.remove(self, size)
        if self._waiting:
            self._block()
        else:
            self._blocked_since = None

    def leave(self) -> None:
        """The client has left: drop the backlog and close its connection, at once where that is possible."""
        if self.gone or self.ended:
            return
        self.gone = True
        self.forget()
        if not self.wire.reset():
            self._nursery.start_soon(self.wire.close)

    async def end(self, until: float = inf) -> None:
        """Deliver the backlog, then end the body cleanly. Returns early if the client is gone; gives up, and the client
        is gone, when it takes nothing for `limits.WRITE_STALL_S`, and at the trio time `until`. Cancelled halfway, only
        an abort is possible."""
        if self.gone or self._ending:
            return
        self._ending = True
        if self._chunked:
            self._put(framing.LAST_CHUNK)
        await self._complete(until)

    async def respond(
        self, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes, until: float = inf
    ) -> None:
        """A whole response with Content-Length. It has `limits.RESPOND_S` to be taken, and until the trio time `until`,
        or the client is gone."""
        if self.gone or self.wire.closed:
            return
        self._ending = True
        length = () if status in _BODILESS else ((b"content-length", b"%d" % len(body)),)
        made = self._head(status, [*headers, *length])
        self._put(made + body if self._has_body(status) else made)
        await self._complete(min(until, trio.current_time() + limits.RESPOND_S))

    async def _complete(self, until: float) -> None:
        self._open = False
        await self.flush(until)
        if self.gone:
            return
        self.ended = True
        if self._last:
            try:
                await self.wire.send_eof()
            except GONE:
                self.gone = True

    async def flush(self, until: float = inf) -> None:
        """See `stream.ports.Writer`."""
        while self._waiting:
            since = self.blocked_since or self.last_write_at
            with trio.move_on_at(min(since + limits.WRITE_STALL_S, until)):
                if self._drained is None:
                    self._drained = trio.Event()
                await self._drained.wait()
            now = trio.current_time()
            stalled = self.blocked_since == since and now >= since + limits.WRITE_STALL_S
            if self._waiting and (stalled or now >= until):
                self.leave()

    async def abort(self, until: float = inf) -> None:
        """Deliver the backlog, by `until` at most, then end so that no client can take the body for complete, and
        close. After an `end` that was cut short the backlog holds the final chunk and is dropped."""
        if self.gone or self.ended or self.wire.closed:
            return
        if self._ending:
            self.leave()
            return
        self._open = False
        await self.flush(until)
        if self.gone:
            return
        self.watch.stop()
        await self.watch.ended()
        await closing.truncate(self.wire, close_delimited=self.close_delimited)

    def forget(self) -> None:
        """The connection is over: what still waits is dropped."""
        self._open = False
        self._backlogs.remove(self, len(self._waiting))
        self._waiting.clear()
        self._blocked_since = None
        if self._drain_scope is not None:
            self._drain_scope.cancel()
