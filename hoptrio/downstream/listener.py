"""Listener: accepts connections, bounded, until told to drain.

The accept loop survives a lack of descriptors by waiting, and takes no more connections than `connections_max`: the
rest wait in the kernel's queue. A drain closes the listening sockets and idle connections, and `serve` returns when the
last running exchange is over; whoever called it bounds that wait.
"""

from __future__ import annotations

import errno
import os
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import structlog
import trio

from hoptrio import limits
from hoptrio.downstream.backlog import BacklogTotal
from hoptrio.downstream.connection import serve_connection
from hoptrio.downstream.drain import Drain

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from hoptrio.downstream.connection import Handler, Refuse

__all__ = ["Listener"]

_LOG = structlog.get_logger(__name__)
#: Want of descriptors or memory; trio's accept has already dealt with every other error that does not matter.
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS)

#: What a connection suffered before it was accepted, on Linux (accept(2)) and elsewhere: others may follow.
_ALREADY_BROKEN = (
    errno.ECONNABORTED,
    errno.EPERM,
    errno.EPROTO,
    errno.ENETDOWN,
    errno.ENETUNREACH,
    errno.EHOSTDOWN,
    errno.EHOSTUNREACH,
    errno.ENOPROTOOPT,
    errno.EOPNOTSUPP,
    errno.ETIMEDOUT,
    errno.ECONNRESET,
)

Accepted = socket.socket | trio.abc.Stream


class _PlainListener:
    """The connections of a TCP listener as plain sockets: trio's wrappers, which `Wire` would take off again, take a
    short stream 40 function calls and a turn of the loop."""

    def __init__(self, listener: trio.SocketListener) -> None:
        wrapped = listener.socket
        self._socket = socket.socket(wrapped.family, wrapped.type, wrapped.proto, fileno=os.dup(wrapped.fileno()))
        self._socket.setblocking(False)

    async def accept(self) -> socket.socket:
        """The next connection; one in a turn of the loop, so that other workers get their share. Raises OSError."""
        while True:
            await trio.lowlevel.wait_readable(self._socket)
            try:
                return self._socket.accept()[0]
            except BlockingIOError:
                # Another worker was faster.
                continue
            except OSError as error:
                if error.errno not in _ALREADY_BROKEN:
                    raise

    def close(self) -> None:
        """Accept no more."""
        self._socket.close()


@contextmanager
def _accepting(listener: trio.abc.Listener[Any]) -> Iterator[Callable[[], Awaitable[Accepted]]]:
    """How connections of `listener` are accepted."""
    if not isinstance(listener, trio.SocketListener):
        yield listener.accept
        return
    plain = _PlainListener(listener)
    try:
        yield plain.accept
    finally:
        plain.close()


class Listener:
    """The data plane's front door."""

    def __init__(
        self,
        handler: Handler,
        *,
        refuse: Refuse,
        backlogs: BacklogTotal | None = None,
        connections_max: int = limits.CONNECTIONS_MAX,
        tls: Callable[[], ssl.SSLContext | None] = lambda: None,
    ) -> None:
        """`tls` is asked for each connection, so that the next is shown a renewed certificate; None = without TLS."""
        self.backlogs = backlogs or BacklogTotal()
        self._drain = Drain()
        #: Connections open now.
        self.connections = 0
        self._handler = handler
        self._refuse = refuse
        self._tls = tls
        self._places = trio.Semaphore(connections_max)
        self._accepting = trio.CancelScope()

    @property
    def draining(self) -> bool:
        """No new connection is accepted any more."""
        return self._drain.draining

    async def serve(
        self,
        listeners: Sequence[trio.abc.Listener[Any]],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Accept on all `listeners` (plain or `trio.SSLListener`) and serve, until `drain`; closes them."""
        async with trio.open_nursery() as connections:
            with self._accepting:
                async with trio.open_nursery() as accepting:
                    for listener in listeners:
                        accepting.start_soon(self._accept_from, listener, connections)
                    task_status.started()

    def drain(self) -> None:
        """Stop accepting, close idle connections, and let running exchanges end."""
        self._accepting.cancel()
        self._drain.start()

    async def _accept_from(self, listener: trio.abc.Listener[Any], connections: trio.Nursery) -> None:
        async with listener:
            with _accepting(listener) as accept:
                await self._accept_all(accept, connections)

    async def _accept_all(self, accept: Callable[[], Awaitable[Accepted]], connections: trio.Nursery) -> None:
        while True:
            try:
                self._places.acquire_nowait()
            except trio.WouldBlock:
                await self._places.acquire()
            try:
                connection = await self._accept(accept)
            except BaseException:
                self._places.release()
                raise
            connections.start_soon(self._serve, self._secured(connection), connections)

    def _secured(self, connection: Accepted) -> Accepted:
        """The handshake has not been made yet."""
        context = self._tls()
        if context is None:
            return connection
        if isinstance(connection, socket.socket):
            connection = trio.SocketStream(trio.socket.from_stdlib_socket(connection))
        # A client's missing close_notify is no news: requests and chunked answers carry their own ends.
        return trio.SSLStream(connection, context, server_side=True, https_compatible=True)

    async def _accept(self, accept: Callable[[], Awaitable[Accepted]]) -> Accepted:
        while True:
            try:
                return await accept()
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                _LOG.warning("accept_failed", error=errno.errorcode[error.errno], retry_s=limits.ACCEPT_BACKOFF_S)
                await trio.sleep(limits.ACCEPT_BACKOFF_S)

    async def _serve(self, connection: Accepted, nursery: trio.Nursery) -> None:
        """One client's fault, or a bug met while serving it, is never another's."""
        self.connections += 1
        try:
            serving = serve_connection(
                connection,
                self._handler,
                refuse=self._refuse,
                backlogs=self.backlogs,
                drain=self._drain,
                nursery=nursery,
            )
            # The wire has it, and lets it go.
            del connection
            await serving
        except Exception as bug:
            _LOG.error("connection_failed", error=type(bug).__name__)
        finally:
            self.connections -= 1
            self._places.release()
