"""Certificates: on which channels a model's streams are known to end with usage, as the ledger has it.

A frozen view that is replaced as a whole, so that a request reads it without waiting. It is read again every few
seconds (`certification.prober`), since other processes probe, too; while the ledger cannot be read the last view stands
(no hold is placed then either), and an expired row counts no more, however old the view is.

A row is for one protocol of a channel: usage in Chat Completions proves nothing of Responses. And it is for what was
probed: a channel that was given another address, or a model another name at the provider, is uncertified again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hoptrio.admission.catalogue import Channel
    from hoptrio.ledger.ledger import Ledger
    from hoptrio.protocols.events import Protocol

__all__ = ["Certificates", "target_of"]


def target_of(channel: Channel, model: str, protocol: Protocol) -> str:
    """What a probe of this channel, model and protocol is sent to, in words; no secret is part of it."""
    unasked = " without asking for usage" if channel.include_usage == "never" else ""
    return f"{channel.models[model]} at {channel.base_urls[protocol]}{unasked}"


class Certificates:
    """The view of one process, empty until `refresh`."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        #: (channel, model, protocol, target) -> when the row expires.
        self._expiries: Mapping[tuple[str, str, str, str], int] = {}

    def certified(self, channel: Channel, model: str, protocol: Protocol) -> bool:
        """May the channel stream this model on a shared route?"""
        return self.expires_at_ms(channel, model, protocol) > self._ledger.now_ms()

    def expires_at_ms(self, channel: Channel, model: str, protocol: Protocol) -> int:
        """When the certificate runs out, or has; 0 = there is none."""
        return self._expiries.get((channel.name, model, protocol, target_of(channel, model, protocol)), 0)

    async def refresh(self) -> None:
        """Read the rows. Raises LedgerUnavailable."""
        self._expiries = {
            (row.probed.channel, row.probed.model, row.probed.protocol, row.target): row.expires_at_ms
            for row in await self._ledger.usage_evidence()
        }
