"""Wire: the byte stream to one client, either a plain TCP socket or any other trio stream (TLS, memory).

A plain socket is written without waiting and its readiness is awaited on the socket itself, so that cancelling never
loses the count of bytes sent. Any other stream only has ``send_all``, which must not be cancelled: how much of it left
is then unknown (contract, rule 6). One task (or call) reads a wire at a time, one writes.
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

from hoptrio import limits, tls
from hoptrio.readiness import readiness

if TYPE_CHECKING:
    from collections.abc import Callable

    from hoptrio.readiness import Readiness

__all__ = ["GONE", "Wire"]

#: What a broken or closed connection raises, whatever the transport.
GONE = (trio.BrokenResourceError, trio.ClosedResourceError, OSError)

#: The kernel reports room for more once less than this of what it has is unsent; what trio sets, too.
_NOT_SENT_BYTES_MAX = 16 * limits.KIB
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Wire:
    """One connection's bytes. `inbox` holds what was received and not yet used, in order."""

    __slots__ = ("_readiness", "closed", "inbox", "peer", "send_now", "sock", "stream")

    def __init__(self, connection: socket.socket | trio.abc.Stream) -> None:
        """It is closed by this object, and must not be used by the caller."""
        self.inbox = bytearray()
        #: Our side has closed it; the descriptor is free.
        self.closed = False
        self.sock: socket.socket | None = None
        #: What is below; not set for a plain socket.
        self.stream: trio.abc.Stream
        #: Plain sockets: take what fits without waiting, return the count, raise OSError. None otherwise.
        self.send_now: Callable[[bytes], int] | None = None
        #: Where a plain socket is read by calls.
        self._readiness: Readiness | None = None
        if isinstance(connection, socket.socket):
            self._adopt(connection)
        elif isinstance(connection, trio.SocketStream):
            self._adopt(_unwrapped(connection.socket))
        else:
            self.stream = connection
        self.peer = _peer(self.sock)

    def _adopt(self, sock: socket.socket) -> None:
        """A late `send_now` fails with EBADF instead of writing into a reused descriptor."""
        sock.setblocking(False)
        # Not known to sockets of other families.
        with suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if hasattr(socket, "TCP_NOTSENT_LOWAT"):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _NOT_SENT_BYTES_MAX)
        self.sock = sock
        self.send_now = sock.send
        self._readiness = readiness()

    async def handshake(self) -> None:
        """TLS: shake hands now, because a cancelled implicit handshake breaks the stream. Raises one of `GONE`."""
        if self.sock is None and isinstance(self.stream, trio.SSLStream):
            await self.stream.do_handshake()
            transport = self.stream.transport_stream
            if isinstance(transport, trio.SocketStream):
                self.peer = _host(transport.socket.getpeername())

    async def receive(self, max_bytes: int = limits.READ_BYTES_MAX) -> bool:
        """Wait for bytes and put them into the inbox; False at the end of input. Raises one of `GONE`."""
        if self.closed:
            raise trio.ClosedResourceError
        if self.sock is None:
            data = await self.stream.receive_some(max_bytes)
            self.inbox += data
            return len(data) > 0
        more = None
        while more is None:
            await trio.lowlevel.wait_readable(self.sock)
            more = self.read_now(max_bytes)
        return more

    def read_now(self, max_bytes: int = limits.READ_BYTES_MAX) -> bool | None:
        """Put what is there already into the inbox; False at the end of input, None if nothing is there, as always on
        a stream that is no plain socket. Raises one of `GONE`."""
        if self.sock is None:
            return None
        try:
            data = self.sock.recv(max_bytes)
        except BlockingIOError:
            return None
        self.inbox += data
        return len(data) > 0

    def call_when_readable(self, call: Callable[[], None]) -> bool:
        """Let `call` read whenever there is something; False = this wire has to be waited for."""
        if self.sock is None or self._readiness is None:
            return False
        if not self.closed:
            self._readiness.add(self.sock.fileno(), call)
        return True

    def call_no_more(self) -> None:
        """Undo `call_when_readable`."""
        if self.sock is not None and self._readiness is not None:
            self._readiness.remove(self.sock.fileno())

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
            with suppress(OSError):
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            self._close_socket(self.sock)
        return True

    async def close(self) -> None:
        """Close without ceremony. Cancelling it still closes."""
        if self.closed:
            return
        if self.sock is not None:
            self._close_socket(self.sock)
            return
        self.closed = True
        # Below TLS, which would say farewell; not by a cancellation, whose traceback is a cycle with the stream in it.
        below = self.stream.transport_stream if isinstance(self.stream, trio.SSLStream) else self.stream
        with trio.move_on_after(limits.LINGER_S, shield=True):
            await below.aclose()
        tls.cut(self.stream)

    def _close_socket(self, sock: socket.socket) -> None:
        """Whoever waits for it gets trio.ClosedResourceError."""
        self.closed = True
        self.call_no_more()
        trio.lowlevel.notify_closing(sock)
        sock.close()


def _unwrapped(wrapped: trio.socket.SocketType) -> socket.socket:
    """The socket without trio's wrappers, which would be kept for each connection."""
    return socket.socket(wrapped.family, wrapped.type, wrapped.proto, fileno=wrapped.detach())


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
