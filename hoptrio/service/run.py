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
from hoptrio.service.sockets import url_of
from hoptrio.service.tls import server_context
from hoptrio.upstream.client import Upstream

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import AsyncIterator, Callable, Sequence

    from hoptrio.config import Config

__all__ = ["Grace", "serve"]

log = structlog.get_logger("hoptrio.service")

#: After the grace, streams are ended by `shutdown`: their settlement and their last words take at most this long.
LAST_WORDS_S = limits.SETTLE_S + 5.0


class Grace:
    """How long running streams have, from the beginning of the drain; `scope` is the wait for them."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.scope = trio.CancelScope()

    def shorten(self, seconds: float) -> None:
        """From now on at most `seconds`, if the drain goes on already or begins later."""
        self.seconds = min(self.seconds, seconds)
        self.scope.deadline = min(self.scope.deadline, trio.current_time() + seconds)


async def serve(
    config: Config,
    *,
    reload: Callable[[], Config] | None = None,
    sockets: Sequence[socket.socket] = (),
    grace: Grace | None = None,
    task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run a gateway until SIGTERM or SIGINT; SIGHUP calls `reload`. Reports the URLs it listens on when it is ready.

    `sockets` are listening already, else the config's address is; `grace` is the config's if it is not given.
    """
    grace = grace or Grace(config.server.shutdown_grace_seconds)
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
                listeners = await _listen(config, sockets)
                drained = trio.Event()
                tls = server_context(config.server.tls_certificate, config.server.tls_key)
                connections.start_soon(_serve_data, listener, listeners, tls, drained)
                names = [each.socket.getsockname() for each in listeners]
                task_status.started([url_of(name, tls=tls is not None) for name in names])
                await _until_told(signals, gateway, reload)
                await _drain(gateway, listener, drained, grace)
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


async def _listen(config: Config, sockets: Sequence[socket.socket]) -> list[trio.SocketListener]:
    if sockets:
        return [trio.SocketListener(trio.socket.from_stdlib_socket(each)) for each in sockets]
    address = config.server.listen
    return await trio.open_tcp_listeners(address.port, host=address.host, backlog=limits.LISTEN_BACKLOG)


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


async def _drain(gateway: Gateway, listener: Listener, drained: trio.Event, grace: Grace) -> None:
    gateway.draining = True
    listener.drain()
    log.info("draining", streams=len(gateway.registry), grace_s=grace.seconds, pid=os.getpid())
    grace.scope.deadline = trio.current_time() + grace.seconds
    with grace.scope:
        await drained.wait()
    gateway.registry.stop_all(Reason.SHUTDOWN)
    with trio.move_on_after(LAST_WORDS_S):
        await drained.wait()
    log.info("drained", streams=len(gateway.registry))
