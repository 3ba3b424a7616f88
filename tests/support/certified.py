"""Certificates for every channel of a catalogue, as if each had been probed: most tests are about what comes behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoptrio.admission.certificates import target_of
from hoptrio.ledger.model import Probed
from hoptrio.ledger.operations import EndProbe

if TYPE_CHECKING:
    from hoptrio.admission.catalogue import Catalogue
    from hoptrio.exchange.gateway import Gateway
    from hoptrio.ledger.ledger import Ledger

__all__ = ["certificates", "certify_all", "write_certificates"]

YEAR_MS = 365 * 86_400_000


def certificates(catalogue: Catalogue) -> list[EndProbe]:
    """A row for each channel, model and protocol, valid for a year."""
    return [
        EndProbe(
            probed=Probed(channel.name, model, protocol),
            probe="written by a test",
            finding="certified",
            target=target_of(channel, model, protocol),
            evidence="{}",
            valid_ms=YEAR_MS,
        )
        for channel in catalogue.channels.values()
        for model in channel.models
        for protocol in channel.base_urls
    ]


async def write_certificates(ledger: Ledger, catalogue: Catalogue) -> None:
    """Keep them in a ledger."""
    for each in certificates(catalogue):
        await ledger.end_probe(each)


async def certify_all(gateway: Gateway) -> None:
    """Write them for the gateway's channels, and let it know."""
    await write_certificates(gateway.ledger, gateway.catalogue)
    await gateway.certificates.refresh()
