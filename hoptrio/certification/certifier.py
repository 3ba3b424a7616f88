"""Certifier: claims a probe in the ledger, makes it, and keeps what it found. At most `limits.PROBES_MAX` at a time.

The claim is what makes one prober of many processes; the evidence is what routing asks for. A probe that proves that a
channel's streams cannot be charged removes the row; one that only casts a doubt does so if it was asked to decide.
"""

from __future__ import annotations

import hashlib
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
import structlog
import trio

from hoptrio import limits
from hoptrio.admission.certificates import target_of
from hoptrio.certification.finding import Finding, Weight, weight_of
from hoptrio.certification.probe import Result, probe
from hoptrio.errors import LedgerUnavailable
from hoptrio.ledger.model import Probed
from hoptrio.ledger.operations import BeginProbe, EndProbe
from hoptrio.ledger.owner import this_process
from hoptrio.protocols.events import Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hoptrio.admission.catalogue import Catalogue, Channel
    from hoptrio.ledger.ledger import Ledger
    from hoptrio.upstream.client import Upstream

__all__ = ["Certifier", "setup_of", "what_to_probe"]

log = structlog.get_logger("hoptrio.certification")

_DAY_MS = 86_400_000
#: When the gateway stops, what a probe leaves behind is tidied up within this.
_TIDY_S = 2.0


def what_to_probe(catalogue: Catalogue, *, channel: str | None = None, model: str | None = None) -> list[Probed]:
    """Every channel on a shared route, with each text model and each protocol that it has; a channel that is named is
    included whatever its route."""
    return [
        Probed(each.name, name, protocol)
        for each in catalogue.channels.values()
        if (each.route == "shared" and channel is None) or each.name == channel
        for name in each.models
        if model in (None, name) and catalogue.models[name].generates
        for protocol in each.base_urls
    ]


def setup_of(channel: Channel, probed: Probed) -> str:
    """A digest of everything in the config that the outcome of a probe depends on."""
    told = (
        target_of(channel, probed.model, Protocol(probed.protocol)),
        (channel.api_key, channel.auth, channel.unknown_fields, channel.proxy, channel.authorities),
        sorted(channel.headers.items()),
        sorted(channel.query.items()),
    )
    return hashlib.sha256(msgspec.json.encode(told)).hexdigest()[:16]


class Certifier:
    """Probes for one process; `valid_days` is how long evidence holds."""

    def __init__(self, ledger: Ledger, upstream: Upstream, *, valid_days: int) -> None:
        self._ledger = ledger
        self._upstream = upstream
        self.valid_ms = valid_days * _DAY_MS
        self._owner = ledger.owner or this_process()
        self._places = trio.CapacityLimiter(limits.PROBES_MAX)
        self._channels: dict[str, trio.CapacityLimiter] = {}

    async def certify_all(
        self, catalogue: Catalogue, what: Iterable[Probed], *, tell: Callable[[Probed, Result], None]
    ) -> None:
        """Probe all of `what` on demand, whenever they were probed last; `tell` is called with each result.

        Raises LedgerUnavailable.
        """

        async def one(probed: Probed) -> None:
            result = await self.certify(catalogue, probed, every_s=0, decide=True)
            assert result is not None, "on demand no other probe is too recent"
            tell(probed, result)

        async with trio.open_nursery() as nursery:
            for probed in what:
                nursery.start_soon(one, probed)

    async def certify(
        self, catalogue: Catalogue, probed: Probed, *, every_s: float, decide: bool, instead_of: str = ""
    ) -> Result | None:
        """Probe, unless somebody did within `every_s`: None then. `decide`: a doubt is enough to revoke; `instead_of`
        as in `BeginProbe`. Raises LedgerUnavailable."""
        channel = catalogue.channels[probed.channel]
        async with self._place_on(channel), self._places:
            name = f"probe_{secrets.token_hex(8)}"
            begin = BeginProbe(
                probed=probed,
                probe=name,
                owner=self._owner,
                setup=setup_of(channel, probed),
                every_ms=int(every_s * 1000),
                instead_of=instead_of,
            )
            if not await self._ledger.begin_probe(begin):
                return None
            result = None
            try:
                result = await self._probe(catalogue, probed)
            finally:
                if result is None:
                    # Whoever starts next need not wait for a probe that nobody makes any more.
                    with trio.move_on_after(_TIDY_S, shield=True), suppress(LedgerUnavailable):
                        await self._ledger.end_probe(EndProbe(probed=probed, probe=name, finding=Finding.ABANDONED))
            await self._keep(channel, probed, name, result, decide=decide)
        return result

    def _place_on(self, channel: Channel) -> trio.CapacityLimiter:
        """A channel that may run few streams is probed by as few; its limit is the one it had first."""
        places = min(channel.max_streams, limits.PROBES_OF_CHANNEL_MAX)
        return self._channels.setdefault(channel.name, trio.CapacityLimiter(places))

    async def _probe(self, catalogue: Catalogue, probed: Probed) -> Result:
        """A bug in one probe ends no other."""
        channel, model = catalogue.channels[probed.channel], catalogue.models[probed.model]
        try:
            return await probe(self._upstream, channel, model, Protocol(probed.protocol))
        except Exception as error:
            log.error("probe failed", error=type(error).__name__, exc_info=error)
            return Result(Finding.INTERNAL, type(error).__name__, None, "", 0.0)

    async def _keep(self, channel: Channel, probed: Probed, name: str, result: Result, *, decide: bool) -> None:
        weight = weight_of(result.finding)
        end = EndProbe(
            probed=probed,
            probe=name,
            finding=result.finding,
            detail=result.detail,
            target=target_of(channel, probed.model, Protocol(probed.protocol)),
            evidence=result.evidence if result.certified else None,
            valid_ms=self.valid_ms,
            revokes=weight is Weight.PROVES or (weight is Weight.DOUBTS and decide),
        )
        await self._ledger.end_probe(end)
