"""Wire: the byte stream to one client, either a plain TCP socket or any other trio stream (TLS, memory).

A plain socket is written without waiting and its readiness is awaited on the socket itself, so that cancelling never
loses the count of bytes sent. Any other stream only has ``send_all``, which must not be cancelled: how much of it left
is then unknown (contract, rule 6). One task reads a wire at a time, one writes.
"""

from __future__ import annotations

import errno
import fcntl
import socket
import struct
import termios
from contextlib import suppress
from typing import TYPE_CHECKING, cast

import trio

from hoptrio import limits

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["GONE", "Wire"]

#: What a broken or closed connection raises, whatever the transport.
GONE = (trio.BrokenResourceError, trio.ClosedResourceError, OSError)

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Wire:
    """One connection's bytes. `inbox` holds what was received and not yet used, in order."""

    __slots__ = ("closed", "inbox", "peer", "send_now", "sock", "stream")

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.inbox = bytearray()
        #: Our side has closed it; the descriptor is free.
        self.closed = False
        self.sock: socket.socket | None = None
        self.stream: trio.abc.Stream = stream
        #: Plain sockets: take what fits without waiting, return the count, raise OSError. None otherwise.
        self.send_now: Callable[[bytes], int] | None = None
        if isinstance(stream, trio.SocketStream):
            self._adopt(stream)
        self.peer = _peer(self.sock)

    def _adopt(self, stream: trio.SocketStream) -> None:
        """Hold the socket under trio's wrapper by public means: both then close together, so that a late `send_now`
        fails with EBADF instead of writing into a reused descriptor."""
        sock = socket.socket(fileno=stream.socket.detach())
        self.sock = sock
        self.stream = trio.SocketStream(trio.socket.from_stdlib_socket(sock))
        self.send_now = sock.send

    async def handshake(self) -> None:
        """TLS: shake hands now, because a cancelled implicit handshake breaks the stream. Raises one of `GONE`."""
        if isinstance(self.stream, trio.SSLStream):
            await self.stream.do_handshake()
            transport = self.stream.transport_stream
            if isinstance(transport, trio.SocketStream):
                self.peer = _host(transport.socket.getpeername())

    async def receive(self) -> bool:
        """Wait for bytes and put them into the inbox; False at the end of input. Raises one of `GONE`."""
        data = await self.stream.receive_some(limits.READ_BYTES_MAX)
        self.inbox += data
        return len(data) > 0

    async def watch(self, max_bytes: int) -> bool:
        """`receive` of at most `max_bytes`, with few frames on the stack: every stream has a task waiting here."""
        if self.closed:
            raise trio.ClosedResourceError
        if self.sock is None:
            data: bytes | bytearray = await self.stream.receive_some(max_bytes)
        else:
            await trio.lowlevel.wait_readable(self.sock)
            try:
                data = self.sock.recv(max_bytes)
            except BlockingIOError:
                return True
        self.inbox += data
        return len(data) > 0

    async def send(self, data: bytes | bytearray) -> int:
        """Wait until some of `data` is taken, return how much. Raises one of `GONE`."""
        if self.sock is None:
            await self.stream.send_all(data)
            return len(data)
        while True:
            try:
                return self.sock.send(data)
            except BlockingIOError:
                await trio.lowlevel.wait_writable(self.sock)

    def unsent_bytes(self) -> int:
        """Bytes in the kernel's send queue that the client has not acknowledged (SIOCOUTQ); 0 where it has no count."""
        if self.closed or (descriptor := self._descriptor()) is None:
            return 0
        try:
            return cast("int", struct.unpack("i", fcntl.ioctl(descriptor, termios.TIOCOUTQ, b"\0\0\0\0"))[0])
        except OSError:
            return 0

    def _descriptor(self) -> int | None:
        """Of the socket, under TLS too."""
        if self.sock is not None:
            return self.sock.fileno()
        transport = self.stream.transport_stream if isinstance(self.stream, trio.SSLStream) else None
        return transport.socket.fileno() if isinstance(transport, trio.SocketStream) else None

    async def send_eof(self) -> None:
        """Say that nothing more will come, if the transport can say it without closing."""
        if self.sock is not None:
            try:
                self.sock.shutdown(socket.SHUT_WR)
            except OSError as error:
                if error.errno not in (errno.ENOTCONN, errno.EBADF):
                    raise
        elif isinstance(self.stream, trio.abc.HalfCloseableStream):
            await self.stream.send_eof()

    def reset(self) -> bool:
        """Close a plain socket at once with a RST, which frees its queues; False = this stream needs `close`."""
        if self.sock is None:
            return False
        if not self.closed:
            self.closed = True
            with suppress(OSError):
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            cast("trio.SocketStream", self.stream).socket.close()
        return True

    async def close(self) -> None:
        """Close without ceremony. Cancelling it still closes."""
        if not self.closed:
            self.closed = True
            await trio.aclose_forcefully(self.stream)


def _peer(sock: socket.socket | None) -> str:
    if sock is None:
        return ""
    try:
        return _host(sock.getpeername())
    except OSError:
        return ""


def _host(address: object) -> str:
    """The host of a socket address; an IPv4 client of a dual-stack socket keeps its IPv4 name."""
    host = str(address[0]) if isinstance(address, tuple) else ""
    return host.removeprefix("::ffff:") if "." in host else host
