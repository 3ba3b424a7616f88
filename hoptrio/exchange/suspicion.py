"""Suspicion: live streams of a channel that end without evidence, until it takes a probe to decide. Pure counting.

Three in a row from two accounts, or ten from one (contract, "Certification"): one caller alone may have a request that
makes a provider odd. What counts is a stream that came to its end without usage that is evidence, one with suspect
usage, and one that the provider broke off after it had begun; whole evidence ends a row. Stalls, deadlines, errors and
whatever our side ended say nothing of usage. Each process counts its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoptrio import limits
from hoptrio.contract import Reason
from hoptrio.ledger.model import Probed
from hoptrio.metering.evidence import Flag

if TYPE_CHECKING:
    from hoptrio.ledger.model import RequestRecord
    from hoptrio.protocols.events import Protocol

__all__ = ["Suspicion"]


class Suspicion:
    """What one process saw."""

    def __init__(self) -> None:
        #: The accounts of the streams in a row that ended without evidence.
        self._rows: dict[Probed, list[str]] = {}

    def saw(self, record: RequestRecord, protocol: Protocol) -> None:
        """A request was resolved so; `protocol` is the one its channel was asked in."""
        if not record.stream or record.channel is None:
            return
        probed = Probed(record.channel, record.model, protocol)
        if _lacks_evidence(record):
            row = self._rows.setdefault(probed, [])
            if len(row) < limits.SUSPECTS_OF_ONE:
                row.append(record.account_id)
        elif record.reason is None:
            self.clear(probed)

    def suspects(self, probed: Probed) -> bool:
        """Must a probe decide?"""
        row = self._rows.get(probed, ())
        several = len(row) >= limits.SUSPECTS_OF_SEVERAL and len(set(row)) > 1
        return several or len(row) >= limits.SUSPECTS_OF_ONE

    def clear(self, probed: Probed) -> None:
        """There was evidence, or a probe decided."""
        self._rows.pop(probed, None)


def _lacks_evidence(record: RequestRecord) -> bool:
    if record.reason == Reason.TRUNCATED:
        return any(event == "first_event" for _, event in record.timeline)
    return record.reason == Reason.NO_EVIDENCE or Flag.SUSPECT in record.flags
