"""The provider's side of every exchange: `Upstream.open` sends a request and returns when its answer's head is there.

It owns every connection of the process to a provider, idle, in use, or being read to its end in the background, and
the nursery in which that happens. Invariants: a request is written to one connection at most; each connection is in
exactly one place; cancelling `open` at any point leaves nothing open. How long a head may take is the business of the
stream's clock.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import trio

from hoptrio import limits
from hoptrio.upstream.answer import Unreached, UnreachedKind
from hoptrio.upstream.connect import ConnectFailed, Connector, connect
from hoptrio.upstream.http1 import Connection, Http1Answer, opening
from hoptrio.upstream.pool import Pool
from hoptrio.upstream.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from hoptrio.upstream.answer import Answer, Origin, UpstreamRequest

__all__ = ["Upstream"]


class Upstream:
    """``async with Upstream() as upstream``. Leave it after every stream that uses it has ended.

    `connector` opens a connection to an origin; the default speaks TCP, TLS and CONNECT. A connector of memory streams
    makes a whole world without sockets.
    """

    def __init__(self, connector: Connector = connect) -> None:
        self._connector = connector
        self._pool = Pool()
        #: Connections that are open, wherever they are.
        self._open = 0
        self._nursery: trio.Nursery | None = None

    def __repr__(self) -> str:
        idle = len(self._pool)
        return f"<Upstream busy={self._open - idle} idle={idle}>"

    @property
    def busy(self) -> int:
        """Connections that carry an exchange or the rest of one."""
        return self._open - len(self._pool)

    @property
    def idle(self) -> int:
        """Connections waiting for a request."""
        return len(self._pool)

    async def __aenter__(self) -> Upstream:
        self._manager = trio.open_nursery()
        self._nursery = await self._manager.__aenter__()
        self._nursery.start_soon(self._sweep)
        return self

    def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Awaitable[bool | None]:
        # Not a coroutine itself: what must be closed is closed in this step, then the nursery's own exit is awaited.
        self._pool.close()
        self._running().cancel_scope.cancel()
        self._nursery = None
        return self._manager.__aexit__(kind, error, trace)

    async def open(
        self, request: UpstreamRequest, *, on_dispatched: Callable[[], None] | None = None
    ) -> Answer | Unreached:
        """Send `request` and wait for the head of its answer, for ever: cancel it to stop. 1xx responses are skipped.

        `on_dispatched` is called right before the first byte of the request is written. An `Unreached` says whether
        that was so; nothing is ever sent twice. Raises ValueError for a request that is not valid HTTP.
        """
        sent = opening(request)
        connection = self._pool.take(request.origin)
        if connection is None:
            opened = await self._connect(request.origin)
            if isinstance(opened, Unreached):
                return opened
            connection = opened
        return await connection.exchange(sent, on_dispatched)

    def close_idle(self) -> None:
        """Drop the idle connections, as after a change of the configuration."""
        self._pool.close()
        self._pool = Pool()

    # -- what connections ask of their home (`http1.Home`) -----------------------------------------------------------

    def keep(self, connection: Connection) -> None:
        self._pool.keep(connection)

    def closed(self, connection: Connection) -> None:
        self._open -= 1

    def send_rest(self, connection: Connection, body: bytes) -> None:
        self._running().start_soon(connection.send_rest, body)

    def finish(self, answer: Http1Answer) -> None:
        if self._nursery is None:
            answer.connection.close()
        else:
            self._nursery.start_soon(answer.drain)

    # ----------------------------------------------------------------------------------------------------------------

    async def _connect(self, origin: Origin) -> Connection | Unreached:
        try:
            with trio.fail_after(limits.CONNECT_S):
                stream = await self._connector(origin)
        except ConnectFailed as error:
            return Unreached(error.kind, False, error.detail)
        except trio.TooSlowError:
            return Unreached(UnreachedKind.CONNECT, False, "timeout")
        except socket.gaierror as error:
            return Unreached(UnreachedKind.DNS, False, type(error).__name__)
        except (OSError, trio.BrokenResourceError) as error:
            return Unreached(UnreachedKind.CONNECT, False, type(error).__name__)
        self._open += 1
        return Connection(Wire(stream), origin, self)

    async def _sweep(self) -> None:
        while True:
            await trio.sleep(limits.POOL_SWEEP_S)
            self._pool.sweep()

    def _running(self) -> trio.Nursery:
        if self._nursery is None:
            raise RuntimeError("Upstream is used outside its async with block")
        return self._nursery
