"""Prober: the background task of a gateway that probes what is due, and keeps its certificates fresh.

Every process of a ledger runs one, and they need not know of each other: what was found is read from the ledger, and a
probe is claimed there before it is made. `Gateway.probing` is true until the first round is over, whoever made it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog
import trio

from hoptrio import limits
from hoptrio.certification.certifier import setup_of, what_to_probe
from hoptrio.certification.finding import Weight, weight_of
from hoptrio.certification.schedule import Schedule, Standing, stands
from hoptrio.errors import LedgerUnavailable
from hoptrio.protocols.events import Protocol

if TYPE_CHECKING:
    from hoptrio.admission.catalogue import Catalogue
    from hoptrio.certification.certifier import Certifier
    from hoptrio.certification.probe import Result
    from hoptrio.exchange.gateway import Gateway
    from hoptrio.ledger.model import Probed, ProbeRow

__all__ = ["Prober"]

log = structlog.get_logger("hoptrio.certification")


class Prober:
    """Runs beside `gateway`; `unasked`: what is not certified is probed without being asked (``probe_at_start``)."""

    def __init__(self, gateway: Gateway, certifier: Certifier, *, unasked: bool) -> None:
        self._gateway = gateway
        self._certifier = certifier
        self._catalogue = gateway.catalogue
        self._schedule = Schedule(certifier.valid_ms, unasked, gateway.ledger.now_ms())
        self._running: set[Probed] = set()
        self._scope = trio.CancelScope()
        self._wake = trio.Event()
        self._round_over = trio.Event()
        self._readable = True
        gateway.probing = True

    async def run(self) -> None:
        """Look for what is due until `stop` is called; probes that run then are given up."""
        with self._scope:
            async with trio.open_nursery() as nursery:
                while True:
                    self._wake = trio.Event()
                    readable = await self._try_to_look(nursery)
                    hasty = readable and not self._round_over.is_set()
                    pause_s = limits.PROBE_ROUND_S if hasty else limits.CERTIFICATES_S
                    with trio.move_on_after(pause_s):
                        await self._wake.wait()
        self._end_round()

    async def round_over(self) -> None:
        """Wait until everything that is not certified has been probed, by whomever; at most `limits.ROUND_S`."""
        with trio.move_on_after(limits.ROUND_S):
            await self._round_over.wait()

    async def prepare(self, catalogue: Catalogue) -> None:
        """A round for channels that are about to be taken over, while those they replace still serve."""
        self._catalogue = catalogue
        self._round_over = trio.Event()
        self._wake.set()
        await self.round_over()

    def stop(self) -> None:
        """A gateway that drains probes nothing."""
        self._scope.cancel()

    def _end_round(self) -> None:
        self._gateway.probing = False
        self._round_over.set()

    async def _try_to_look(self, nursery: trio.Nursery) -> bool:
        """False = the ledger is away, which is said once, and once that it is back."""
        try:
            await self._look(nursery)
        except LedgerUnavailable:
            if self._readable:
                log.warning("certificates cannot be read now; those that are known stand")
            self._readable = False
        else:
            if not self._readable:
                log.info("certificates can be read again")
            self._readable = True
        return self._readable

    async def _look(self, nursery: trio.Nursery) -> None:
        catalogue, ledger = self._catalogue, self._gateway.ledger
        await self._gateway.pauses.refresh()
        # In this order: what another process's probe proved was written with its end, so whoever sees the end first and
        # then reads the certificates has them. The other way round a probe that ends in between is over and unheard of.
        rows = {row.probed: row for row in await ledger.probes()}
        await self._gateway.certificates.refresh()
        now_ms = ledger.now_ms()
        undecided = False
        for probed in what_to_probe(catalogue):
            row = rows.get(probed)
            standing = self._standing(catalogue, probed, row, now_ms)
            due = self._schedule.due_at_ms(standing, now_ms) <= now_ms
            undecided |= standing.expires_at_ms <= now_ms and (due or _runs(standing.last))
            if due and probed not in self._running:
                self._running.add(probed)
                instead_of = row.probe if row is not None and standing.last is None else ""
                nursery.start_soon(self._probe, catalogue, probed, standing.suspected, instead_of)
        if not undecided and catalogue is self._catalogue:
            self._end_round()

    def _standing(self, catalogue: Catalogue, probed: Probed, row: ProbeRow | None, now_ms: int) -> Standing:
        gateway = self._gateway
        channel = catalogue.channels[probed.channel]
        return Standing(
            expires_at_ms=gateway.certificates.expires_at_ms(channel, probed.model, Protocol(probed.protocol)),
            last=row if stands(row, setup_of(channel, probed), now_ms) else None,
            suspected=gateway.suspicion.suspects(probed),
        )

    async def _probe(self, catalogue: Catalogue, probed: Probed, suspected: bool, instead_of: str) -> None:
        try:
            result = await self._certifier.certify(
                catalogue, probed, every_s=limits.PROBE_EVERY_S, decide=suspected, instead_of=instead_of
            )
            if result is not None:
                self._found(probed, result)
            await self._gateway.certificates.refresh()
        except LedgerUnavailable:
            log.warning("a probe could not be kept; it will be made again")
        finally:
            self._running.discard(probed)

    def _found(self, probed: Probed, result: Result) -> None:
        if result.certified or weight_of(result.finding) is not Weight.PASSES:
            self._gateway.suspicion.clear(probed)
        told = log.info if result.certified else log.warning
        told(
            "probed",
            channel=probed.channel,
            model=probed.model,
            protocol=probed.protocol,
            finding=result.finding.value,
            why=result.words,
        )


def _runs(row: ProbeRow | None) -> bool:
    return row is not None and row.ended_at_ms is None
