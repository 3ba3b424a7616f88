"""Exchange: one request and its response as a handler sees it, and the reading of the request's body.

A body is read only when the handler asks for it, whole, within a size and two clocks; only then is a client that waits
for ``100 Continue`` told to go on. Bytes behind the body go back to the wire's inbox: they are the next request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import h11
import trio

from hoptrio import limits
from hoptrio.downstream.wire import GONE
from hoptrio.errors import BadRequest, BodyTooLarge, BodyTooSlow, UnsupportedEncoding

if TYPE_CHECKING:
    from hoptrio.downstream.head import Head
    from hoptrio.downstream.wire import Wire
    from hoptrio.downstream.writer import ResponseWriter

__all__ = ["Exchange"]

#: A body of tiny chunks is parsed in turns, so that it cannot hold up the streams of others.
_CHUNKS_A_TURN = 256


class Exchange:
    """One request and its response, as a handler sees it."""

    __slots__ = ("_h11", "head", "writer")

    def __init__(self, head: Head, writer: ResponseWriter, protocol: h11.Connection) -> None:
        self.head = head
        self.writer = writer
        #: Reads the body; kept no longer than that, as a stream may last for long.
        self._h11: h11.Connection | None = protocol
        if head.header("transfer-encoding") is None and self._declared == 0:
            self._body_over()

    @property
    def _declared(self) -> int:
        """The length that the head says; h11 has checked that it is one number (RFC 9112 section 6.3)."""
        return int(self.head.header("content-length") or 0)

    def _body_over(self) -> None:
        self.writer.body_read = True
        self._h11 = None

    @property
    def idempotency_key(self) -> str | None:
        """The header of this name (draft-ietf-httpapi-idempotency-key-header); None if absent."""
        return self.head.header("idempotency-key")

    async def read_body(self, max_bytes: int = limits.BODY_BYTES_MAX) -> bytes:
        """The whole request body; call it once, before `writer.start`. b"" if there is none.

        A client that waits for ``100 Continue`` is told so now. Raises UnsupportedEncoding for a compressed body,
        BodyTooLarge (at once for a declared length), BodyTooSlow after `limits.BODY_S` or a pause of
        `limits.BODY_IDLE_S`, BadRequest for broken framing or a client that left. After any of these the response is
        the connection's last.
        """
        if self._h11 is None:
            return b""
        self._check_declared(max_bytes)
        reader: _ChunkedReader | _PlainReader
        if self.head.header("transfer-encoding") is not None:
            reader = _ChunkedReader(self._h11, self.writer.wire, max_bytes)
        else:
            reader = _PlainReader(self.writer.wire, self._declared)
        # What came with the head is not waited for.
        if not await reader.take_inbox():
            with trio.move_on_after(limits.BODY_S) as late:
                await self._receive_rest(self._h11, reader)
            if late.cancelled_caught:
                raise BodyTooSlow("The request body took too long.")
        self._body_over()
        return bytes(reader.body)

    def _check_declared(self, max_bytes: int) -> None:
        encoding = (self.head.header("content-encoding") or "identity").strip().lower()
        if encoding != "identity":
            raise UnsupportedEncoding("Compressed request bodies are not accepted; send it without Content-Encoding.")
        if self._declared > max_bytes:
            raise _too_large(max_bytes)

    async def _receive_rest(self, protocol: h11.Connection, reader: _ChunkedReader | _PlainReader) -> None:
        if protocol.they_are_waiting_for_100_continue and not reader.body:
            await self.writer.ask_for_body()
        await self._receive()
        while not await reader.take_inbox():
            await self._receive()

    async def _receive(self) -> None:
        try:
            with trio.fail_after(limits.BODY_IDLE_S):
                more = await self.writer.wire.receive()
        except trio.TooSlowError:
            raise BodyTooSlow("The request body paused for too long.") from None
        except GONE:
            more = False
        if not more:
            raise BadRequest("The connection ended inside the request body.")


class _PlainReader:
    """Takes a body of a declared length from the inbox. h11 would make an event of each read, and of the end; a short
    stream has 90 function calls less."""

    def __init__(self, wire: Wire, size: int) -> None:
        self.body = bytearray()
        self._wire = wire
        self._size = size

    async def take_inbox(self) -> bool:
        """Use what has been received; True when the body is complete."""
        inbox = self._wire.inbox
        missing = self._size - len(self.body)
        self.body += inbox[:missing]
        del inbox[:missing]
        return len(self.body) == self._size


class _ChunkedReader:
    """Feeds the inbox to h11 until the body's end, and gives back what lies behind it."""

    def __init__(self, protocol: h11.Connection, wire: Wire, max_bytes: int) -> None:
        self.body = bytearray()
        self._h11 = protocol
        self._wire = wire
        self._max_bytes = max_bytes
        self._chunks = 0
        self._tail = b""

    async def take_inbox(self) -> bool:
        """Use what has been received; True when the body is complete."""
        inbox = self._wire.inbox
        fed = self._tail + inbox
        if inbox:
            self._h11.receive_data(bytes(inbox))
            inbox.clear()
        while True:
            event = self._next_event()
            if type(event) is h11.Data:
                await self._add(event)
            elif type(event) is h11.EndOfMessage:
                self._return_rest(fed)
                return True
            else:
                self._tail = fed[-4:]
                return False

    def _next_event(self) -> object:
        try:
            return self._h11.next_event()
        except h11.RemoteProtocolError:
            raise BadRequest("The framing of the request body is broken.") from None

    async def _add(self, event: h11.Data) -> None:
        self.body += event.data
        self._chunks += event.chunk_end
        if len(self.body) > self._max_bytes:
            raise _too_large(self._max_bytes)
        if self._chunks > limits.CHUNKS_MAX:
            raise BodyTooLarge("The request body has too many chunks.")
        if self._chunks % _CHUNKS_A_TURN == _CHUNKS_A_TURN - 1:
            await trio.lowlevel.checkpoint()

    def _return_rest(self, fed: bytes) -> None:
        """h11 ends a chunked body at a bare LF too, where a proxy in front may see no end: that is refused."""
        rest = self._h11.trailing_data[0]
        if not fed[: len(fed) - len(rest)].endswith(b"\r\n\r\n"):
            raise BadRequest("The trailer of the request body does not end in CRLF.")
        self._wire.inbox[:0] = rest


def _too_large(max_bytes: int) -> BodyTooLarge:
    return BodyTooLarge(f"The request body is larger than {max_bytes} bytes.")
