"""Listener: accepts connections, bounded, until told to drain.

The accept loop survives a lack of descriptors by waiting, and takes no more connections than `connections_max`: the
rest wait in the kernel's queue. A drain closes the listening sockets and idle connections, and `serve` returns when the
last running exchange is over; whoever called it bounds that wait.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, TypeVar

import structlog
import trio

from hoptrio import limits
from hoptrio.downstream.backlog import BacklogTotal
from hoptrio.downstream.connection import serve_connection
from hoptrio.downstream.drain import Drain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hoptrio.downstream.connection import Handler, Refuse

__all__ = ["Listener"]

_LOG = structlog.get_logger(__name__)
#: Want of descriptors or memory; trio's accept has already dealt with every other error that does not matter.
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS)

StreamT = TypeVar("StreamT", bound=trio.abc.Stream)


class Listener:
    """The data plane's front door."""

    def __init__(
        self,
        handler: Handler,
        *,
        refuse: Refuse,
        backlogs: BacklogTotal | None = None,
        connections_max: int = limits.CONNECTIONS_MAX,
    ) -> None:
        self.backlogs = backlogs or BacklogTotal()
        self._drain = Drain()
        #: Connections open now.
        self.connections = 0
        self._handler = handler
        self._refuse = refuse
        self._places = trio.Semaphore(connections_max)
        self._accepting = trio.CancelScope()

    @property
    def draining(self) -> bool:
        """No new connection is accepted any more."""
        return self._drain.draining

    async def serve(
        self,
        listeners: Sequence[trio.abc.Listener[StreamT]],
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

    async def _accept_from(self, listener: trio.abc.Listener[StreamT], connections: trio.Nursery) -> None:
        async with listener:
            while True:
                await self._places.acquire()
                try:
                    stream = await self._accept(listener)
                except BaseException:
                    self._places.release()
                    raise
                connections.start_soon(self._serve, stream)

    async def _accept(self, listener: trio.abc.Listener[StreamT]) -> StreamT:
        while True:
            try:
                return await listener.accept()
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                _LOG.warning("accept_failed", error=errno.errorcode[error.errno], retry_s=limits.ACCEPT_BACKOFF_S)
                await trio.sleep(limits.ACCEPT_BACKOFF_S)

    async def _serve(self, stream: trio.abc.Stream) -> None:
        """One client's fault, or a bug met while serving it, is never another's."""
        self.connections += 1
        try:
            serving = serve_connection(
                stream, self._handler, refuse=self._refuse, backlogs=self.backlogs, drain=self._drain
            )
            # The connection has taken the socket out of it.
            del stream
            await serving
        except Exception as bug:
            _LOG.error("connection_failed", error=type(bug).__name__)
        finally:
            self.connections -= 1
            self._places.release()
