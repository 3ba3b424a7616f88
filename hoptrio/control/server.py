"""The listener: hypercorn on trio, beside the data plane and behind it in everything.

Three things about hypercorn are held here. It shields every write, so that a client which never reads would hold up the
shutdown for ever: the kernel gives such a connection up (``TCP_USER_TIMEOUT``, set on the listening socket and
inherited). A bug in it ends its nursery: it is started again, and nothing else of the process notices. And it does no
logging of its own, which would have requests in it.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import structlog
import trio
from hypercorn.config import Config as HypercornConfig
from hypercorn.config import Sockets
from hypercorn.trio.run import worker_serve
from hypercorn.utils import wrap_app

from hoptrio import limits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.types import ASGIApp

__all__ = ["give_up_silent_clients", "serve_control"]

log = structlog.get_logger("hoptrio.control")


def give_up_silent_clients(listening: socket.socket) -> None:
    """Connections accepted from this socket break once a client has taken nothing for `limits.CONTROL_WRITE_STALL_S`;
    where the system has no such option, a shutdown waits for the client."""
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        stall_ms = int(limits.CONTROL_WRITE_STALL_S * 1000)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, stall_ms)


async def serve_control(app: ASGIApp, sockets: Sequence[socket.socket], stop: trio.Event) -> None:
    """Serve on `sockets`, which listen already and stay open, until `stop`. Never raises for a failure of its own."""
    for each in sockets:
        give_up_silent_clients(each)
    while not stop.is_set():
        # It closes what it is given, or does not, by where it failed.
        given = [each.dup() for each in sockets]
        try:
            await worker_serve(
                wrap_app(app, 0, "asgi"),  # type: ignore[arg-type]
                _config(),
                sockets=Sockets([], given, []),
                shutdown_trigger=stop.wait,
            )
        except Exception as error:
            log.error("control plane failed; it starts again", error=type(error).__name__, exc_info=error)
            with trio.move_on_after(limits.CONTROL_RESTART_S):
                await stop.wait()
        finally:
            for each in given:
                each.close()


def _config() -> HypercornConfig:
    config = HypercornConfig()
    config.graceful_timeout = limits.CONTROL_GRACE_S
    config.keep_alive_timeout = limits.CONTROL_IDLE_S
    config.include_server_header = False
    # What fails is logged by the app; what hypercorn says quotes requests.
    config.accesslog = config.errorlog = None
    return config
