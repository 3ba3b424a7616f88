"""The listener: hypercorn's connections on trio, beside the data plane and behind it in everything.

Four things are held here. Hypercorn shields every write, so that a client which never reads would hold up the shutdown
for ever: the connections are kept, and what is left of them after `limits.CONTROL_GRACE_S` is closed under it; and
while nothing ends, the kernel gives such a client up (``TCP_USER_TIMEOUT``, set on the listening socket and inherited).
There are at most `limits.CONTROL_CONNECTIONS_MAX`, each with one answer in memory. A bug ends the nursery: it is
started again, and nothing else of the process notices. And nothing is logged by hypercorn, which would have requests
in it.
"""

from __future__ import annotations

import socket
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog
import trio
from hypercorn.config import Config as HypercornConfig
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState
from hypercorn.utils import wrap_app

from hoptrio import limits, tls

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Sequence

    from hypercorn.typing import AppWrapper
    from starlette.types import ASGIApp

__all__ = ["give_up_silent_clients", "serve_control"]

log = structlog.get_logger("hoptrio.control")


def give_up_silent_clients(listening: socket.socket) -> None:
    """Connections accepted from this socket break once a client has taken nothing for `limits.CONTROL_WRITE_STALL_S`;
    where the system has no such option, they stay until the client leaves or the server does."""
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        stall_ms = int(limits.CONTROL_WRITE_STALL_S * 1000)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, stall_ms)


async def serve_control(
    app: ASGIApp,
    sockets: Sequence[socket.socket],
    stop: trio.Event,
    *,
    tls: Callable[[], ssl.SSLContext | None] = lambda: None,
) -> None:
    """Serve on `sockets`, which listen already and stay open, until `stop`, and a while for answers to be taken. `tls`
    has the context of the next connection, None = it is plain. Never raises for a failure of its own."""
    for each in sockets:
        give_up_silent_clients(each)
    while not stop.is_set():
        try:
            await _Connections(app, tls).serve(sockets, stop)
        except Exception as error:
            log.error("control plane failed; it starts again", error=type(error).__name__, exc_info=error)
            with trio.move_on_after(limits.CONTROL_RESTART_S):
                await stop.wait()


class _Connections:
    """Those that are open; all of them end with `serve`."""

    def __init__(self, app: ASGIApp, tls: Callable[[], ssl.SSLContext | None]) -> None:
        self._app: AppWrapper = wrap_app(app, 0, "asgi")  # type: ignore[arg-type]
        self._tls = tls
        self._config = _config()
        self._context = WorkerContext(None)
        self._open: set[trio.SocketStream] = set()
        #: Set once the last one has closed.
        self._left = trio.Event()

    async def serve(self, sockets: Sequence[socket.socket], stop: trio.Event) -> None:
        """Until `stop`, and at most `limits.CONTROL_GRACE_S` longer. Raises what hypercorn failed with."""
        listeners = [trio.SocketListener(trio.socket.from_stdlib_socket(each.dup())) for each in sockets]
        try:
            async with trio.open_nursery() as connections:
                try:
                    async with trio.open_nursery() as accepting:
                        serve = partial(trio.serve_listeners, self._run, listeners, handler_nursery=connections)
                        accepting.start_soon(serve)
                        await stop.wait()
                        accepting.cancel_scope.cancel()
                    await self._leave()
                finally:
                    self._close()
                    connections.cancel_scope.cancel()
        finally:
            for each in listeners:
                each.socket.close()

    async def _run(self, stream: trio.SocketStream) -> None:
        if len(self._open) >= limits.CONTROL_CONNECTIONS_MAX:
            stream.socket.close()
            return
        self._open.add(stream)
        # Typed as if there were TLS only; without it hypercorn finds out by itself.
        secured: Any = stream
        server = None
        try:
            secured = self._secured(stream)
            server = TCPServer(self._app, self._config, self._context, ConnectionState({}), secured)
            await server.run()
        finally:
            tls.cut(secured)
            if server is not None:
                # Hypercorn's objects of a connection refer to each other, and with them its buffers and TLS would wait
                # for the collector.
                vars(server).clear()
            self._open.discard(stream)
            if not self._open:
                self._left.set()

    def _secured(self, stream: trio.SocketStream) -> trio.abc.Stream:
        context = self._tls()
        return stream if context is None else trio.SSLStream(stream, context, server_side=True, https_compatible=True)

    async def _leave(self) -> None:
        """Idle connections close; the others have a while for their answers to be taken."""
        await self._context.terminated.set()
        with trio.move_on_after(limits.CONTROL_GRACE_S):
            if self._open:
                self._left = trio.Event()
                await self._left.wait()

    def _close(self) -> None:
        """Under whoever writes, who is told so by trio, however shielded."""
        for each in self._open:
            each.socket.close()


def _config() -> HypercornConfig:
    config = HypercornConfig()
    config.keep_alive_timeout = config.ssl_handshake_timeout = limits.CONTROL_IDLE_S
    config.include_server_header = False
    # What fails is logged by the app; what hypercorn says quotes requests.
    config.accesslog = config.errorlog = None
    return config
