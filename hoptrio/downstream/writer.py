"""Writer: one response to one client; implements `stream.ports.Writer`.

The invariant is one order of bytes. While nothing waits and the transport is a plain socket, `write` hands bytes to the
kernel at once: no await, no task switch. What the socket does not take joins the backlog, and from then on everything
does until one task has emptied it. That task exists only while something waits, so an idle stream costs one task, the
watch. On any other transport everything goes through the backlog. The task belongs to the connection and is shielded: a
write is never cancelled halfway, whatever becomes of the handler; it ends when the backlog is empty or dropped.

h11 writes the head and judges the end; the chunks between are framed here (0.7 us a write, measured, against 5.3
through h11), which h11 cannot tell from chunks of its own because its chunk writer keeps no state.
"""

from __future__ import annotations

from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

import h11
import trio

from hoptrio import limits
from hoptrio.downstream import closing
from hoptrio.downstream.backlog import backlog_bytes_max
from hoptrio.downstream.watch import watch
from hoptrio.downstream.wire import GONE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hoptrio.downstream.backlog import BacklogTotal
    from hoptrio.downstream.drain import Drain
    from hoptrio.downstream.wire import Wire

__all__ = ["Line", "ResponseWriter"]

#: Taken from the backlog and offered to the transport in one go.
_PIECE_BYTES = 64 * limits.KIB
_CLOSE = (b"connection", b"close")
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
        "_h11",
        "_head_only",
        "_http10",
        "_nursery",
        "_open",
        "_unsent_bytes",
        "_waiting",
        "_waiting_max",
        "_watch_ended",
        "_watch_scope",
        "body_read",
        "close_delimited",
        "ended",
        "gone",
        "half_closed",
        "head_written",
        "last_write_at",
        "wire",
    )

    def __init__(
        self,
        wire: Wire,
        protocol: h11.Connection,
        backlogs: BacklogTotal,
        drain: Drain,
        nursery: trio.Nursery,
        *,
        head_only: bool,
        http10: bool,
    ) -> None:
        """`protocol` has read the request's head, `nursery` is the connection's. `head_only`: the method was HEAD.
        `http10`: the client knows no chunks."""
        self.wire = wire
        self._head_only = head_only
        self._http10 = http10
        self.head_written = False
        self.half_closed = False
        self.gone = False
        self.last_write_at = trio.current_time()
        self._blocked_since: float | None = None
        #: What of it the kernel still had then.
        self._unsent_bytes = 0
        #: Set by the exchange: bytes of an unread body would be taken for the next request.
        self.body_read = False
        #: The body's end is the connection's (HTTP/1.0).
        self.close_delimited = False
        #: The response is complete, and delivered as far as the kernel.
        self.ended = False
        self._h11 = protocol
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
        self._watch_scope: trio.CancelScope | None = None
        self._watch_ended: trio.Event | None = None

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
        """The interim answer to ``Expect: 100-continue`` (RFC 9110 section 10.1.1), if the client waits for it."""
        if not self.gone and self._h11.they_are_waiting_for_100_continue:
            self._put(self._h11.send(h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue")))
            await self._flush()

    def start(self, nursery: trio.Nursery) -> None:
        """Watch the client in `nursery` from now on."""
        self._watch_scope = trio.CancelScope()
        nursery.start_soon(self._watch, self._watch_scope)

    async def _watch(self, scope: trio.CancelScope) -> None:
        try:
            with scope:
                await watch(self)
        finally:
            self._watch_scope = None
            if self._watch_ended is not None:
                self._watch_ended.set()

    def head(self, status: int, headers: Sequence[tuple[bytes, bytes]]) -> None:
        """Write the head of a streamed response."""
        if self.gone or self.wire.closed:
            return
        self._put(self._head(status, headers))
        has_body = self._has_body(status)
        self._chunked = has_body and not self._http10
        self.close_delimited = has_body and self._http10
        self._open = has_body and not self.gone

    def _head(self, status: int, headers: Sequence[tuple[bytes, bytes]]) -> bytes:
        self.head_written = True
        last = self._drain_state.draining or not self.body_read
        fields = [*headers, _CLOSE] if last else list(headers)
        return self._h11.send(h11.Response(status_code=status, headers=fields, reason=_reason(status)))

    def _has_body(self, status: int) -> bool:
        """Whether a body may follow; the answer to HEAD has only its head (RFC 9112 section 6.3)."""
        return not self._head_only and status not in _BODILESS

    def write(self, data: bytes) -> None:
        """Write whole events; before `head` and after the end, nothing."""
        if not self._open or not data:
            return
        self._put(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)

    def _put(self, data: bytes) -> None:
        self.last_write_at = trio.current_time()
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

    async def end(self) -> None:
        """Deliver the backlog, then end the body cleanly. Returns early if the client is gone; gives up, and the client
        is gone, when it takes nothing for `limits.WRITE_STALL_S`. Cancelled halfway, only an abort is possible."""
        if self.gone or self._ending:
            return
        self._ending = True
        tail = self._h11.send(h11.EndOfMessage())
        if tail:
            self._put(tail)
        await self._complete()

    async def respond(self, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> None:
        """A whole response with Content-Length. It has `limits.RESPOND_S` to be taken, or the client is gone."""
        if self.gone or self.wire.closed:
            return
        self._ending = True
        fields = list(headers)
        if status not in _BODILESS:
            fields.append((b"content-length", b"%d" % len(body)))
        parts = [self._head(status, fields)]
        if self._has_body(status):
            parts += self._h11.send_with_data_passthrough(h11.Data(data=body)) or ()
        self._h11.send(h11.EndOfMessage())
        self._put(b"".join(parts))
        with trio.move_on_after(limits.RESPOND_S):
            await self._complete()
            return
        self.leave()

    async def _complete(self) -> None:
        self._open = False
        await self._flush()
        if self.gone:
            return
        self.ended = True
        if self._h11.our_state is not h11.DONE:
            try:
                await self.wire.send_eof()
            except GONE:
                self.gone = True

    async def _flush(self) -> None:
        """Wait until nothing waits or the client is gone."""
        while self._waiting:
            since = self.blocked_since or self.last_write_at
            with trio.move_on_at(since + limits.WRITE_STALL_S):
                if self._drained is None:
                    self._drained = trio.Event()
                await self._drained.wait()
            if self._waiting and self.blocked_since == since and trio.current_time() >= since + limits.WRITE_STALL_S:
                self.leave()

    async def abort(self) -> None:
        """Deliver the backlog, then end so that no client can take the body for complete, and close. After an `end`
        that was cut short the backlog holds the final chunk and is dropped."""
        if self.gone or self.ended or self.wire.closed:
            return
        if self._ending:
            self.leave()
            return
        self._open = False
        await self._flush()
        if self.gone:
            return
        await self._stop_watch()
        await closing.truncate(self.wire, close_delimited=self.close_delimited)

    def forget(self) -> None:
        """The connection is over: what still waits is dropped."""
        self._open = False
        self._backlogs.remove(self, len(self._waiting))
        self._waiting.clear()
        self._blocked_since = None
        if self._drain_scope is not None:
            self._drain_scope.cancel()

    async def _stop_watch(self) -> None:
        """Two tasks cannot read one socket: the lingering read begins when the watch has ended."""
        if self._watch_scope is not None:
            self._watch_ended = trio.Event()
            self._watch_scope.cancel()
            await self._watch_ended.wait()


@lru_cache
def _reason(status: int) -> bytes:
    try:
        return HTTPStatus(status).phrase.encode("ascii")
    except ValueError:
        return b""
