"""One gateway process: what it is built of, nested in the order of dying.

    ledger            dies last: whatever happens above it is still settled
      upstream        the pool
      spools          what clients may come back to
        services      lease and sweep of orphaned holds, retention, probes
          connections every client connection and the streams on it
            accept    dies first: no new connections

A drain stops accepting and refuses new streams, waits for the running ones, then ends the rest by the contract's
`shutdown` row; what is not even told by then is cut off. A second signal ends the grace, a third the telling. Every
hold is resolved before the ledger closes.
"""

from __future__ import annotations

import os
import signal
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import structlog
import trio

from hoptrio import limits
from hoptrio.certification.certifier import Certifier
from hoptrio.certification.prober import Prober
from hoptrio.config import ConfigError
from hoptrio.config.certificate import BadPair
from hoptrio.contract import PRESETS, Reason
from hoptrio.control.figures import Figures
from hoptrio.control.office import Office
from hoptrio.downstream.listener import Listener
from hoptrio.errors import LedgerUnavailable
from hoptrio.exchange.gateway import Gateway
from hoptrio.exchange.handler import Handler
from hoptrio.ledger.ledger import open_ledger
from hoptrio.ledger.owner import this_process
from hoptrio.ledger.retention import keep
from hoptrio.metering import tokens
from hoptrio.service.certifying import certify_now
from hoptrio.service.control import control_plane
from hoptrio.service.descriptors import fit_streams
from hoptrio.service.figures import Teller
from hoptrio.service.hangups import hear_hangups
from hoptrio.service.heap import steady_heap
from hoptrio.service.lifeline import HURRY, RETIRE
from hoptrio.service.observe import log_stream
from hoptrio.service.otel import open_telemetry
from hoptrio.service.sockets import Listening, listen
from hoptrio.service.suppliers import tell_unknown_suppliers
from hoptrio.service.tls import Identities
from hoptrio.service.waiting import tell_waiting, waiting_alone
from hoptrio.spool.spool import Caps
from hoptrio.spool.spools import open_spools
from hoptrio.telemetry.board import FiguresBoard
from hoptrio.upstream.client import Upstream

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Callable, Sequence

    from hoptrio.admission.breaker import Breakers
    from hoptrio.config import Config
    from hoptrio.ledger.ledger import Ledger
    from hoptrio.spool.spools import Spools

__all__ = ["serve"]

log = structlog.get_logger("hoptrio.service")

#: After the grace, streams are ended by `shutdown`: their settlement and their last words take at most this long.
LAST_WORDS_S = limits.SETTLE_S + 5.0


async def serve(
    config: Config,
    *,
    reload: Callable[[], Config] | None = None,
    breakers: Breakers | None = None,
    sockets: Sequence[socket.socket] = (),
    control_sockets: Sequence[socket.socket] = (),
    figures: FiguresBoard | None = None,
    patient: bool = False,
    task_status: trio.TaskStatus[Listening] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run a gateway until SIGTERM or SIGINT; SIGHUP calls `reload`. Reports the URLs it listens on when it is ready.

    `breakers` is the health of channels, `figures` what processes tell of themselves, if others share them. With
    `sockets`, which listen already, it is a worker of a supervisor: `RETIRE` and `HURRY` are for those; then
    `control_sockets` are the control plane's. A `patient` one starts while its ledger is away.
    """
    steady_heap()
    _load_tokenizer(config)
    identities = Identities(config)
    with trio.open_signal_receiver(*_signals(worker=bool(sockets))) as signals:
        hear_hangups()
        orders = _Orders(signals, worker=bool(sockets))
        async with (
            trio.open_nursery() as listening,
            open_ledger(
                config.ledger.url,
                owner=this_process(config.ledger.journal),
                journal=config.ledger.journal or None,
                patient=patient,
            ) as ledger,
            Upstream() as upstream,
            _open_spools(config, ledger) as spools,
            open_telemetry() as tell_telemetry,
            trio.open_nursery() as services,
        ):
            services.start_soon(keep, ledger, config.ledger.retention_days)
            gateway = _gateway(config, ledger, upstream, breakers, spools)
            if spools is not None:
                services.start_soon(spools.run)
            gateway.observers += [each for each in (log_stream, tell_telemetry) if each is not None]
            board = figures or FiguresBoard()
            services.start_soon(Teller(gateway, board).run)
            services.start_soon(ledger.run_sweep, gateway.orphaned)
            certifier = Certifier(ledger, upstream, valid_days=config.certification.valid_days)
            prober = Prober(gateway, certifier, unasked=config.certification.probe_at_start)
            await _read_standing(gateway)
            services.start_soon(prober.run)
            office = _office(config, gateway, board, certifier)
            async with (
                control_plane(office, board, identities.control, control_sockets if sockets else None) as control_urls,
                trio.open_nursery() as connections,
            ):
                handler = Handler(gateway)
                listener = Listener(handler.handle, refuse=handler.refuse, tls=lambda: identities.server.context)
                listeners = _listen(config, sockets)
                drained = trio.Event()
                connections.start_soon(_serve_data, listener, listeners, drained)
                addresses = [each.socket.getsockname() for each in listeners]
                urls = Listening(identities.server.urls(addresses), control_urls)
                services.start_soon(_announce, prober, office, task_status, urls)
                reloading = _Reload(gateway, office, prober, services, reload, identities, addresses)
                listening.start_soon(orders.run, reloading.start)
                await orders.stop()
                prober.stop()
                await _drain(gateway, listener, drained, orders, config.server.shutdown_grace_seconds)
                connections.cancel_scope.cancel()
            services.cancel_scope.cancel()
            # Last: a signal that nobody takes by then would be delivered again, and kill a process that is done.
            listening.cancel_scope.cancel()


def _gateway(
    config: Config, ledger: Ledger, upstream: Upstream, breakers: Breakers | None, spools: Spools | None
) -> Gateway:
    return Gateway(
        ledger=ledger,
        upstream=upstream,
        catalogue=config.catalogue,
        contracts=config.contracts,
        contract=config.server.contract,
        max_streams=fit_streams(config.server.max_streams),
        cors_origins=config.server.cors_origins,
        currency=config.ledger.currency,
        released_output_limit=config.server.released_output_limit,
        breakers=breakers,
        websocket=config.server.websocket,
        spools=spools,
    )


async def _read_standing(gateway: Gateway) -> None:
    """What the ledger knows of channels, if it is there."""
    with suppress(LedgerUnavailable):
        await gateway.certificates.refresh()
        await gateway.pauses.refresh()


@asynccontextmanager
async def _open_spools(config: Config, ledger: Ledger) -> AsyncIterator[Spools | None]:
    server = config.server
    if not server.keeps_streams:
        yield None
        return
    async with open_spools(
        server.spool_dir,
        Caps(kept_s=server.reattach_minutes * 60, stream_bytes_max=server.reattach_bytes_max),
        bytes_max=server.spool_bytes_max,
        sharers=server.workers,
        now_ms=ledger.now_ms,
    ) as spools:
        yield spools


def _office(config: Config, gateway: Gateway, board: FiguresBoard, certifier: Certifier) -> Office:
    return Office(
        ledger=gateway.ledger,
        config=config,
        breakers=gateway.router.breakers,
        certificates=gateway.certificates,
        pauses=gateway.pauses,
        figures=Figures(board),
        certify=lambda channel, model: certify_now(gateway.catalogue, gateway.ledger, certifier, channel, model),
    )


def _load_tokenizer(config: Config) -> None:
    """Before anything listens, where the server's contract or one of the operator's own charges interrupted output. For
    a key that names a preset which does, the first such stream makes the others wait for as long as it takes, and so
    does elsewhere the first count of tokens that no channel makes."""
    meant = {config.server.contract, *config.contracts} - (PRESETS.keys() - {config.server.contract})
    if any(config.contracts[name].interrupted == "charge" for name in meant):
        tokens.load()


def _signals(*, worker: bool) -> list[signal.Signals]:
    mine = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]
    return [*mine, RETIRE, HURRY] if worker else mine


class _Orders:
    """What signals ask for: SIGHUP a reload until the first stop; SIGTERM and SIGINT to stop, and then to hurry.

    A worker hurries on `HURRY` alone. SIGTERM may reach it twice, from its supervisor and from whoever told that.
    """

    def __init__(self, signals: AsyncIterator[int], *, worker: bool) -> None:
        self._signals = signals
        self._worker = worker
        self._stops = trio.Semaphore(0)
        self._stopping = False
        #: Others serve on: what still reaches this process is not refused.
        self.retiring = False

    async def run(self, reload: Callable[[], None]) -> None:
        """Take signals until cancelled."""
        async for number in self._signals:
            if number != signal.SIGHUP:
                self._stop(number)
            elif not self._stopping:
                reload()

    def _stop(self, number: int) -> None:
        if self._stopping and self._worker and number != HURRY:
            return
        self.retiring = self.retiring or number == RETIRE
        self._stopping = True
        self._stops.release()

    async def stop(self) -> None:
        """Wait for the next signal to stop."""
        await self._stops.acquire()


async def _serve_data(listener: Listener, sockets: list[trio.SocketListener], drained: trio.Event) -> None:
    await listener.serve(sockets)
    drained.set()


def _listen(config: Config, sockets: Sequence[socket.socket]) -> list[trio.SocketListener]:
    address = config.server.listen
    opened = sockets or listen(address.host, address.port)
    return [trio.SocketListener(trio.socket.from_stdlib_socket(each)) for each in opened]


async def _announce(prober: Prober, office: Office, task_status: trio.TaskStatus[Listening], urls: Listening) -> None:
    """Say that the gateway listens, once it has channels to send streams to, or knows that it has none."""
    office.data_urls = urls.data
    try:
        await prober.round_over()
    finally:
        task_status.started(urls)
    await tell_unknown_suppliers(office.ledger, office.config.catalogue)


class _Reload:
    """Takes over what may change while running. A config with mistakes, or that cannot be read, changes nothing."""

    def __init__(
        self,
        gateway: Gateway,
        office: Office,
        prober: Prober,
        nursery: trio.Nursery,
        read: Callable[[], Config] | None,
        identities: Identities,
        addresses: Sequence[tuple[str, int]],
    ) -> None:
        #: What the process started with.
        self._started = office.config
        self._gateway = gateway
        self._office = office
        self._prober = prober
        self._nursery = nursery
        self._read = read
        self._identities = identities
        #: Where the data plane listens.
        self._addresses = addresses
        self._latest = trio.CancelScope()

    def start(self) -> None:
        """Read the config now; it is in force once its new channels have been probed, or a later one is. Certificates
        are in force at once: those that run out must not wait for a provider."""
        if self._read is None:
            return
        try:
            config = self._read()
            self._identities.take(config)
        except (ConfigError, BadPair) as error:
            log.error("reload refused", error=str(error))
            return
        self._latest.cancel()
        self._latest = trio.CancelScope()
        self._nursery.start_soon(self._take_over, config, self._latest)

    async def _take_over(self, config: Config, scope: trio.CancelScope) -> None:
        with scope:
            await self._prober.prepare(config.catalogue)
            gateway = self._gateway
            self._office.config = config
            self._office.data_urls = self._identities.server.urls(self._addresses)
            gateway.catalogue = config.catalogue
            gateway.contracts = config.contracts
            gateway.default_contract = config.server.contract
            gateway.cors_origins = config.server.cors_origins
            gateway.websocket = config.server.websocket
            gateway.released.limit = config.server.released_output_limit
            if gateway.spools is not None:
                gateway.spools.own.caps.kept_s = config.server.reattach_minutes * 60
                gateway.spools.own.caps.stream_bytes_max = config.server.reattach_bytes_max
            gateway.max_streams = fit_streams(config.server.max_streams)
            gateway.upstream.close_idle()
            # What was wrong with a channel may be what was mended.
            gateway.router.breakers.forget()
            self._nursery.start_soon(tell_unknown_suppliers, gateway.ledger, config.catalogue)
            log.info("reloaded", models=len(config.catalogue.models), channels=len(config.catalogue.channels))
            tell_waiting(waiting_alone(self._started, config))


async def _drain(gateway: Gateway, listener: Listener, drained: trio.Event, orders: _Orders, grace_s: float) -> None:
    gateway.draining = not orders.retiring
    listener.drain()
    log.info("draining", streams=len(gateway.registry), grace_s=grace_s, pid=os.getpid())
    await _wait(drained, orders, grace_s)
    gateway.registry.stop_all(Reason.SHUTDOWN)
    await _wait(drained, orders, LAST_WORDS_S)
    log.info("drained", streams=len(gateway.registry))


async def _wait(drained: trio.Event, orders: _Orders, bound_s: float) -> None:
    """Until all is drained, `bound_s` have passed, or the operator cannot wait."""
    with trio.move_on_after(bound_s):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_hurry, orders, nursery.cancel_scope)
            await drained.wait()
            nursery.cancel_scope.cancel()


async def _hurry(orders: _Orders, waiting: trio.CancelScope) -> None:
    await orders.stop()
    waiting.cancel()
