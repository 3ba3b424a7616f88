"""One gateway process: what it is built of, nested in the order of dying.

    ledger            dies last: whatever happens above it is still settled
      upstream        the pool
        services      lease and sweep of orphaned holds
          connections every client connection and the streams on it
            accept    dies first: no new connections

A drain stops accepting and refuses new streams, waits for the running ones, then ends the rest by the contract's
`shutdown` row; what is not even told by then is cut off. Every hold is resolved before the ledger closes.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import structlog
import trio

from hoptrio import limits
from hoptrio.config import ConfigError
from hoptrio.contract import Reason
from hoptrio.downstream.listener import Listener
from hoptrio.exchange.gateway import Gateway
from hoptrio.exchange.handler import Handler
from hoptrio.ledger.ledger import open_ledger
from hoptrio.ledger.owner import this_process
from hoptrio.service.descriptors import fit_streams
from hoptrio.service.tls import server_context
from hoptrio.upstream.client import Upstream

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Callable

    from hoptrio.config import Config

__all__ = ["serve"]

log = structlog.get_logger("hoptrio.service")

#: After the grace, streams are ended by `shutdown`: their settlement and their last words take at most this long.
LAST_WORDS_S = limits.SETTLE_S + 5.0
#: Connections that wait to be accepted; Linux lowers it to somaxconn (4,096).
LISTEN_BACKLOG = 4096


async def serve(
    config: Config,
    *,
    reload: Callable[[], Config] | None = None,
    task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run a gateway until SIGTERM or SIGINT; SIGHUP calls `reload`. Reports the URLs it listens on when it is ready."""
    max_streams = fit_streams(config.server.max_streams)
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        async with (
            open_ledger(config.ledger.url, owner=this_process()) as ledger,
            Upstream() as upstream,
            trio.open_nursery() as services,
        ):
            services.start_soon(ledger.run_sweep)
            gateway = Gateway(
                ledger=ledger,
                upstream=upstream,
                catalogue=config.catalogue,
                contracts=config.contracts,
                contract=config.server.contract,
                max_streams=max_streams,
                cors_origins=config.server.cors_origins,
                currency=config.ledger.currency,
            )
            async with trio.open_nursery() as connections:
                handler = Handler(gateway)
                listener = Listener(handler.handle, refuse=handler.refuse)
                sockets = await trio.open_tcp_listeners(
                    config.server.listen.port, host=config.server.listen.host, backlog=LISTEN_BACKLOG
                )
                drained = trio.Event()
                tls = server_context(config.server.tls_certificate, config.server.tls_key)
                connections.start_soon(_serve_data, listener, sockets, tls, drained)
                task_status.started([_url(each, tls) for each in sockets])
                await _until_told(signals, gateway, reload)
                await _drain(gateway, listener, drained, config.server.shutdown_grace_seconds)
                connections.cancel_scope.cancel()
            services.cancel_scope.cancel()


async def _serve_data(
    listener: Listener, sockets: list[trio.SocketListener], tls: ssl.SSLContext | None, drained: trio.Event
) -> None:
    # A client's missing close_notify is no news: requests and chunked answers carry their own ends.
    await listener.serve(
        sockets if tls is None else [trio.SSLListener(each, tls, https_compatible=True) for each in sockets]
    )
    drained.set()


def _url(listener: trio.SocketListener, tls: ssl.SSLContext | None) -> str:
    host, port = listener.socket.getsockname()[:2]
    scheme = "http" if tls is None else "https"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


async def _until_told(signals: AsyncIterator[int], gateway: Gateway, reload: Callable[[], Config] | None) -> None:
    async for number in signals:
        if number != signal.SIGHUP:
            return
        if reload is not None:
            _reload(gateway, reload)


def _reload(gateway: Gateway, reload: Callable[[], Config]) -> None:
    """Take over what may change while running; a config with mistakes changes nothing."""
    try:
        config = reload()
    except ConfigError as error:
        log.error("reload refused", error=str(error))
        return
    gateway.catalogue = config.catalogue
    gateway.contracts = config.contracts
    gateway.default_contract = config.server.contract
    gateway.cors_origins = config.server.cors_origins
    gateway.max_streams = fit_streams(config.server.max_streams)
    gateway.upstream.close_idle()
    log.info("reloaded", models=len(config.catalogue.models), channels=len(config.catalogue.channels))


async def _drain(gateway: Gateway, listener: Listener, drained: trio.Event, grace_s: float) -> None:
    gateway.draining = True
    listener.drain()
    log.info("draining", streams=len(gateway.registry), grace_s=grace_s, pid=os.getpid())
    with trio.move_on_after(grace_s):
        await drained.wait()
    gateway.registry.stop_all(Reason.SHUTDOWN)
    with trio.move_on_after(LAST_WORDS_S):
        await drained.wait()
    log.info("drained", streams=len(gateway.registry))
