"""Transport: the byte stream that the WebSocket library is given in place of the client's connection.

It plays the handshake, and opens the gate to what the client sent since only when that is answered: bytes that the
library has together with the handshake are never looked at (measured). A frame that was begun is never cut: sending is
shielded, and ends when the bytes are taken or the wire is closed. Closing it closes nothing, since the library closes
in front of its own close frame; the wire is its owner's to close.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from hoptrio import limits
from hoptrio.downstream.wire import GONE

if TYPE_CHECKING:
    from hoptrio.downstream.wire import Wire

__all__ = ["Transport"]

_PIECE_BYTES = 64 * limits.KIB
#: First byte of a close frame: FIN, opcode 8. The library sends one frame a call.
_CLOSE = 0x88


class Transport(trio.abc.Stream):
    """One task reads it, and the library lets one write at a time."""

    def __init__(self, wire: Wire, handshake: bytes) -> None:
        self._wire = wire
        self._handshake = handshake
        self._accepted = trio.Event()
        self._blocked_since: float | None = None
        #: What the kernel still had then.
        self._unsent_bytes = 0
        #: trio time of the last byte from the client.
        self.heard_at = trio.current_time()
        #: What came since the last whole message, and since when: an unfinished one, if it is much.
        self.unfinished_bytes = 0
        self.unfinished_since = self.heard_at
        #: Our close frame is out.
        self.close_sent = False

    def accept(self) -> None:
        """The handshake is answered: what follows is frames."""
        self._accepted.set()

    @property
    def blocked_since(self) -> float | None:
        """trio time since when bytes wait with none taken by the client; None = nothing waits. What a slow client takes
        between two reports of the kernel is seen by the length of its queue, as in `downstream.writer`."""
        if self._blocked_since is not None and self._wire.unsent_bytes() < self._unsent_bytes:
            self._block()
        return self._blocked_since

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """See `trio.abc.ReceiveStream`."""
        if self._handshake:
            await trio.lowlevel.checkpoint()
            handshake, self._handshake = self._handshake, b""
            return handshake
        await self._accepted.wait()
        inbox = self._wire.inbox
        if not inbox:
            await self._receive()
        data = bytes(inbox)
        inbox.clear()
        if not self.unfinished_bytes:
            self.unfinished_since = trio.current_time()
        self.unfinished_bytes += len(data)
        return data

    def finished(self) -> None:
        """A whole message was read."""
        self.unfinished_bytes = 0

    async def _receive(self) -> None:
        try:
            await self._wire.receive()
        except GONE:
            raise trio.BrokenResourceError from None
        self.heard_at = trio.current_time()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """See `trio.abc.SendStream`; not cancelled halfway."""
        left = bytes(data)
        if self._accepted.is_set() and left[0] == _CLOSE:
            self.close_sent = True
        try:
            left = self._send_now(left)
            if left:
                with trio.CancelScope(shield=True):
                    await self._send(left)
        except GONE:
            raise trio.BrokenResourceError from None

    def _send_now(self, data: bytes) -> bytes:
        """Hand a plain socket what it takes; what it does not is returned."""
        if self._wire.send_now is None:
            return data
        try:
            return data[self._wire.send_now(data) :]
        except BlockingIOError:
            return data

    async def _send(self, data: bytes) -> None:
        self._block()
        try:
            at = 0
            while at < len(data):
                at += await self._wire.send(data[at : at + _PIECE_BYTES])
                self._block()
        finally:
            self._blocked_since = None

    def _block(self) -> None:
        self._blocked_since = trio.current_time()
        self._unsent_bytes = self._wire.unsent_bytes()

    async def wait_send_all_might_not_block(self) -> None:
        """See `trio.abc.SendStream`."""
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        """See above."""
        await trio.lowlevel.checkpoint()
