"""A connection's stream, with what trio's streams cannot do: be closed without waiting, and say whether it is quiet.

Both matter for money and for leaks: a connection is closed in the same step in which the decision falls, so that no
cancellation can come between, and an idle connection that has become readable (the provider closed it, or said
something nobody asked for) is recognised before a request is risked on it.

A plain socket is read by waiting first and reading then: trio's own `receive_some` tries first, which costs an
exception for every event of a paced stream, and where bytes are there already the wait is the checkpoint that fairness
needs. The events of a stream are not even waited for by its task (`receive_each`).
"""

from __future__ import annotations

import os
import select
from typing import TYPE_CHECKING, Any

import trio

from hoptrio import limits, tls
from hoptrio.readiness import readiness

if TYPE_CHECKING:
    from collections.abc import Callable

    from hoptrio.readiness import Readiness

__all__ = ["Wire", "close_now"]


class Wire:
    """One connected stream (TLS and tunnel included). One task reads, one writes."""

    __slots__ = ("_fd", "_plain", "_readiness", "_stream")

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._plain = isinstance(stream, trio.SocketStream)
        transport = _transport(stream)
        #: The socket's descriptor, -1 if there is none below (memory streams).
        self._fd: int = transport.socket.fileno() if isinstance(transport, trio.SocketStream) else -1
        #: Where this socket is read by calls.
        self._readiness: Readiness | None = readiness() if self._plain else None

    async def send(self, data: bytes) -> None:
        """Write all of it. Raises trio.BrokenResourceError or trio.ClosedResourceError."""
        sent = self._write(data) if self._plain else 0
        if sent < len(data):
            await self._stream.send_all(data[sent:])

    def _write(self, data: bytes) -> int:
        """What the socket takes at once, which is nearly always all of a request; the rest is trio's to wait for."""
        if self._fd < 0:
            raise trio.ClosedResourceError
        try:
            return os.write(self._fd, data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise trio.BrokenResourceError from error

    async def receive(self) -> bytes:
        """The next bytes, at most `limits.READ_BYTES_MAX`; b"" at the end. Cancelling it loses no byte.

        Raises trio.BrokenResourceError after a reset or, over TLS, an end without close_notify, and
        trio.ClosedResourceError if `close` was called.
        """
        if not self._plain:
            return bytes(await self._stream.receive_some(limits.READ_BYTES_MAX))
        data = None
        while data is None:
            if self._fd < 0:
                raise trio.ClosedResourceError
            await trio.lowlevel.wait_readable(self._fd)
            data = self._read()
        return data

    async def receive_each(self, take: Callable[[bytes], bool]) -> None:
        """Hand every read to `take`, the b"" of the end too, until it returns True. Cancelling it loses no byte.

        Raises what `receive` does, and what `take` does.
        """

        def read() -> bool:
            data = self._read()
            return data is not None and take(data)

        if self._readiness is None:
            while not take(await self.receive()):
                pass
        elif self._fd < 0:
            raise trio.ClosedResourceError
        else:
            await self._readiness.each(self._fd, read)

    def _read(self) -> bytes | None:
        """What is there now; None if that is nothing."""
        if self._fd < 0:
            raise trio.ClosedResourceError
        try:
            return os.read(self._fd, limits.READ_BYTES_MAX)
        except BlockingIOError:
            return None
        except OSError as error:
            raise trio.BrokenResourceError from error

    def readable(self) -> bool:
        """True if an idle connection has bytes, an end or an error to report, and so must not be used again.

        A stream without a socket may answer for itself with a method `readable`.
        """
        if self._fd < 0:
            probe = getattr(self._stream, "readable", None)
            return probe is not None and bool(probe())
        poll = select.poll()
        poll.register(self._fd, select.POLLIN | select.POLLPRI)
        return bool(poll.poll(0)) or (not self._plain and self._decrypted())

    def close(self) -> None:
        """Close now: what waits in `send` or `receive` gets trio.ClosedResourceError. May be called again."""
        fd, self._fd = self._fd, -1
        if self._readiness is not None:
            self._readiness.closing(fd)
        close_now(self._stream)

    def _decrypted(self) -> bool:
        return isinstance(self._stream, trio.SSLStream) and bool(self._stream.pending())


def close_now(stream: Any) -> None:
    """Close a stream without waiting and without TLS's farewell, which only a close-delimited request would need.

    `stream` is a socket, TLS or stapled stream, or one with a synchronous `close`, as trio's memory streams have.
    """
    transport = _transport(stream)
    if isinstance(transport, trio.SocketStream):
        transport.socket.close()
    elif isinstance(transport, trio.StapledStream):
        close_now(transport.send_stream)
        close_now(transport.receive_stream)
    else:
        transport.close()
    tls.cut(stream)


def _transport(stream: Any) -> Any:
    while isinstance(stream, trio.SSLStream):
        stream = stream.transport_stream
    return stream
