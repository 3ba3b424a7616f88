"""HTTP/1.1 as a client: one connection, and one exchange on it at a time.

A request is written at most once, whatever happens: it may be billable from its first byte on, so nothing here sends
anything again. An exchange that fails or is cancelled closes its connection in the same step. The answer's head is
read by h11, which refuses what is malformed or ambiguous; the body by `framing` and `decoding`.

Where a connection is kept is the business of its `Home`; a connection is kept only if the whole request was written,
the body ended by its own framing with nothing behind it, and neither the version nor ``Connection: close`` forbids it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any
from typing import Protocol as Interface

import h11
import trio

from hoptrio import limits
from hoptrio.upstream.answer import BodyEnd, Unreached, UnreachedKind
from hoptrio.upstream.decoding import decoder_for
from hoptrio.upstream.framing import ClosedBody, framing_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from hoptrio.upstream.answer import Origin, UpstreamRequest
    from hoptrio.upstream.decoding import Decoder
    from hoptrio.upstream.framing import Framing
    from hoptrio.upstream.wire import Wire

__all__ = ["Connection", "Home", "Http1Answer", "Opening", "opening"]

Headers = tuple[tuple[bytes, bytes], ...]
#: Stands for the length of a request's body, so that h11 knows its framing.
_ANY_LENGTH = (b"content-length", b"0")
#: Puts h11 in the state in which a response is expected; how its body ends does not depend on more than the method.
_ASKED = h11.Request(method=b"POST", target=b"/", headers=[(b"host", b"provider"), _ANY_LENGTH])


class Home(Interface):
    """Whose connections these are (`pool.Pool` and `client.Upstream`)."""

    def keep(self, connection: Connection) -> None:
        """The connection may carry another request."""

    def closed(self, connection: Connection) -> None:
        """The connection was closed; called once."""

    def send_rest(self, connection: Connection, body: bytes) -> None:
        """Run `connection.send_rest(body)` in the background."""

    def finish(self, answer: Http1Answer) -> None:
        """Run `answer.drain()` in the background."""


class Opening:
    """A request as it is written."""

    __slots__ = ("body", "head")

    def __init__(self, head: bytes, body: bytes) -> None:
        self.head = head
        self.body = body


def opening(request: UpstreamRequest) -> Opening:
    """Serialise a request. Raises ValueError if it is not valid HTTP; h11's own message would quote the header."""
    head = _head(request.method, request.target, request.headers)
    return Opening(b"%bcontent-length: %d\r\n\r\n" % (head, len(request.body)), request.body)


@lru_cache(maxsize=256)
def _head(method: bytes, target: bytes, headers: Headers) -> bytes:
    """The request line and `headers`, as h11 judges and writes them; without the blank line. Most requests to a channel
    differ in their body alone, and h11 takes 20 us for a head."""
    http = h11.Connection(h11.CLIENT)
    try:
        head = http.send(h11.Request(method=method, target=target, headers=[*headers, _ANY_LENGTH]))
    except h11.LocalProtocolError:
        raise ValueError("the request to the provider is not valid HTTP") from None
    return (head or b"").removesuffix(b"content-length: 0\r\n\r\n")


class Connection:
    """One connection to an origin. `idle_since` is written by the pool."""

    __slots__ = ("_closed", "_home", "born_at", "idle_since", "origin", "unsent", "wire")

    def __init__(self, wire: Wire, origin: Origin, home: Home) -> None:
        self.wire = wire
        self.origin = origin
        self.born_at = trio.current_time()
        self.idle_since = self.born_at
        #: Some of a request is not written yet, or could not be.
        self.unsent = False
        self._home = home
        self._closed = False

    async def exchange(self, sent: Opening, on_dispatched: Callable[[], None] | None) -> Http1Answer | Unreached:
        """Write the request and read the answer's head. Without one, and if cancelled, the connection is closed."""
        answer: Http1Answer | Unreached | None = None
        try:
            if on_dispatched is not None:
                on_dispatched()
            await self._send(sent)
            answer = await self._read_head()
        finally:
            if not isinstance(answer, Http1Answer):
                self.close()
        return answer

    def close(self) -> None:
        """Close now. May be called again."""
        if not self._closed:
            self._closed = True
            self.wire.close()
            self._home.closed(self)

    def keep(self) -> None:
        """Give the connection back for another request."""
        self._home.keep(self)

    def finish(self, answer: Http1Answer) -> None:
        """Let the rest of the answer's body be read in the background."""
        self._home.finish(answer)

    async def send_rest(self, body: bytes) -> None:
        """Write a body while the answer is being read. Failing is no news here: reading tells what became of it."""
        try:
            await self.wire.send(body)
            self.unsent = False
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass

    async def _send(self, sent: Opening) -> None:
        whole = len(sent.body) <= limits.SEND_FIRST_BYTES_MAX
        self.unsent = True
        try:
            await self.wire.send(sent.head + sent.body if whole else sent.head)
        except trio.BrokenResourceError:
            # A provider may answer (413, 401), close, and so break our write; what it said can still be read.
            return
        if whole:
            self.unsent = False
        else:
            self._home.send_rest(self, sent.body)

    async def _read_head(self) -> Http1Answer | Unreached:
        http = h11.Connection(h11.CLIENT, max_incomplete_event_size=limits.UPSTREAM_HEAD_BYTES_MAX)
        http.send(_ASKED)
        try:
            while data := await self.wire.receive():
                http.receive_data(data)
                event = http.next_event()
                while isinstance(event, h11.InformationalResponse):
                    event = http.next_event()
                if isinstance(event, h11.Response):
                    return Http1Answer(self, event, http.trailing_data[0])
            return Unreached(UnreachedKind.CLOSED, True, "closed before the head")
        except h11.RemoteProtocolError:
            return Unreached(UnreachedKind.NOT_HTTP, True, "malformed head")
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            return Unreached(UnreachedKind.CLOSED, True, type(error.__cause__ or error).__name__)


class Http1Answer:
    """A response (`answer.Answer`). One task reads it."""

    __slots__ = ("_decoder", "_done", "_first", "_framing", "_persistent", "connection", "headers", "status")

    def __init__(self, connection: Connection, head: h11.Response, first: bytes) -> None:
        """`first` is what came of the body in the same read as the head."""
        self.status: int = head.status_code
        self.headers: Headers = tuple(head.headers)
        self.connection = connection
        self._framing: Framing = framing_of(self.status, self.headers)
        self._decoder: Decoder | None = decoder_for(self.headers)
        self._first = first
        framed = not isinstance(self._framing, ClosedBody)
        self._persistent = framed and head.http_version >= b"1.1" and not _says_close(self.headers)
        self._done = False

    def receive(self) -> Coroutine[Any, Any, bytes | BodyEnd]:
        """See `answer.Answer.receive`."""
        if self._decoder is None:
            return self._receive_framed()
        return self._receive_decoded(self._decoder)

    async def each(self, take: Callable[[bytes], bool]) -> BodyEnd | None:
        """See `answer.Answer.each`."""
        if self._decoder is None:
            return await self._each_framed(take)
        while isinstance(data := await self._receive_decoded(self._decoder), bytes):
            if take(data):
                return None
        return data

    def finish(self) -> None:
        """See `answer.Answer.finish`."""
        if self._done:
            return
        self._done = True
        if self._may_be_kept():
            self.connection.keep()
        elif self._worth_waiting():
            self.connection.finish(self)
        else:
            self.connection.close()

    def abort(self) -> None:
        """See `answer.Answer.abort`."""
        if not self._done:
            self._done = True
            self.connection.close()

    async def drain(self) -> None:
        """Read the body to its end, briefly, and keep the connection if that comes; else close it."""
        kept = False
        try:
            with trio.move_on_after(limits.POOL_FINISH_S):
                left = limits.POOL_FINISH_BYTES_MAX
                while left > 0 and isinstance(data := await self._receive_framed(), bytes):
                    left -= len(data)
            kept = self._may_be_kept()
        finally:
            if kept:
                self.connection.keep()
            else:
                self.connection.close()

    def _may_be_kept(self) -> bool:
        framing = self._framing
        whole = framing.end is BodyEnd.CLEAN and not framing.excess and not self._first
        return whole and self._persistent and not self.connection.unsent

    def _worth_waiting(self) -> bool:
        return self._framing.end is None and self._persistent and not self.connection.unsent

    async def _receive_framed(self) -> bytes | BodyEnd:
        framing = self._framing
        while framing.end is None:
            if self._first:
                data, self._first = self._first, b""
            else:
                try:
                    data = await self.connection.wire.receive()
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    framing.end = BodyEnd.RESET
                    break
                if not data:
                    return framing.eof()
            body = framing.feed(data)
            if body:
                return body
        return framing.end

    async def _each_framed(self, take: Callable[[bytes], bool]) -> BodyEnd | None:
        framing = self._framing

        def feed(data: bytes) -> bool:
            if not data:
                framing.eof()
                return True
            body = framing.feed(data)
            return (bool(body) and take(body)) or framing.end is not None

        first, self._first = self._first, b""
        if framing.end is None and not (first and feed(first)):
            try:
                await self.connection.wire.receive_each(feed)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                framing.end = BodyEnd.RESET
        return framing.end

    async def _receive_decoded(self, decoder: Decoder) -> bytes | BodyEnd:
        while True:
            if decoder.more:
                # One read may expand to many pieces: others get their turn between them.
                await trio.lowlevel.checkpoint()
            body = decoder.pull()
            if body:
                return body
            if decoder.broken:
                return BodyEnd.UNDECODABLE
            data = await self._receive_framed()
            if isinstance(data, BodyEnd):
                return _decoded_end(data, decoder.complete)
            decoder.feed(data)


def _says_close(headers: Headers) -> bool:
    return any(name == b"connection" and b"close" in value.lower() for name, value in headers)


def _decoded_end(end: BodyEnd, complete: bool) -> BodyEnd:
    """How a compressed body ended: its own end mark must have come, or it was cut inside."""
    if complete or end in (BodyEnd.TRUNCATED, BodyEnd.RESET):
        return end
    return BodyEnd.UNDECODABLE if end is BodyEnd.CLEAN else BodyEnd.TRUNCATED
