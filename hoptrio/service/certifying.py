"""Probes on an operator's demand, for the control plane and the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoptrio.admission.certificates import Certificates
from hoptrio.certification.certifier import what_to_probe
from hoptrio.control.shapes import Certification
from hoptrio.ledger.report import iso_ms
from hoptrio.protocols.events import Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from hoptrio.admission.catalogue import Catalogue
    from hoptrio.certification.certifier import Certifier
    from hoptrio.certification.probe import Result
    from hoptrio.ledger.ledger import Ledger
    from hoptrio.ledger.model import Probed

__all__ = ["certify_now"]


async def certify_now(
    catalogue: Catalogue,
    ledger: Ledger,
    certifier: Certifier,
    channel: str | None,
    model: str | None,
    *,
    tell: Callable[[Probed, Result], None] = lambda _probed, _result: None,
) -> list[Certification]:
    """Probe `channel` whatever its route, or all on shared routes; all models, or `model`. `tell` hears each result as
    it comes. Raises LedgerUnavailable."""
    results: dict[Probed, Result] = {}

    def keep(probed: Probed, result: Result) -> None:
        results[probed] = result
        tell(probed, result)

    what = what_to_probe(catalogue, channel=channel, model=model)
    await certifier.certify_all(catalogue, what, tell=keep)
    certificates = Certificates(ledger)
    await certificates.refresh()
    return [_row(catalogue, certificates, probed, results[probed]) for probed in what]


def _row(catalogue: Catalogue, certificates: Certificates, probed: Probed, result: Result) -> Certification:
    channel = catalogue.channels[probed.channel]
    expires_at_ms = certificates.expires_at_ms(channel, probed.model, Protocol(probed.protocol))
    return Certification(
        channel=probed.channel,
        model=probed.model,
        protocol=probed.protocol,
        certified=result.certified,
        finding=result.finding.value,
        why=result.words,
        input=result.usage.all_input if result.usage else None,
        output=result.usage.output if result.usage else None,
        evidence=result.evidence or None,
        seconds=round(result.duration_s, 2),
        valid_until=iso_ms(expires_at_ms) if expires_at_ms else None,
    )
