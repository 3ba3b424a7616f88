"""A request, or an entry, as JSON, the same for its account (data plane), the CLI and the control plane. Pure.

Source: interface page, ``GET /v1/requests/{id}``.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from hoptrio.money import format_nanos

if TYPE_CHECKING:
    from hoptrio.ledger.model import Entry, RequestRecord

__all__ = ["entry_report", "iso_ms", "operator_report", "request_report"]


def request_report(record: RequestRecord, currency: str) -> dict[str, Any]:
    """What a request's own account sees of it; amounts are decimal strings in `currency`."""
    charge = record.charge_nanos
    return {
        "id": record.id,
        "created_at": iso_ms(record.created_at_ms),
        "protocol": record.protocol,
        "model": record.model,
        "contract": record.contract,
        "stream": record.stream,
        "state": record.state,
        "reason": record.reason,
        "evidence": record.evidence,
        "usage": msgspec.json.decode(record.usage) if record.usage else None,
        "hold": format_nanos(record.hold_nanos),
        "charge": None if charge is None else format_nanos(charge),
        "currency": currency,
        "flags": list(record.flags),
        "attempts": record.attempts,
        "client_request_id": record.client_request_id,
        "timeline": [{"at_ms": at_ms, "event": _without_channel(event)} for at_ms, event in record.timeline],
    }


def operator_report(record: RequestRecord, currency: str, account: str) -> dict[str, Any]:
    """What an operator sees of it: account (its name), key and channel too, and the channels of failed attempts."""
    return {
        **request_report(record, currency),
        "account": account,
        "key": record.key_id,
        "channel": record.channel,
        "timeline": [{"at_ms": at_ms, "event": event} for at_ms, event in record.timeline],
    }


def _without_channel(event: str) -> str:
    """``attempt_failed REASON CHANNEL`` is told without the channel: an operator's names are no account's business."""
    return " ".join(event.split(" ", 2)[:2])


def entry_report(entry: Entry) -> dict[str, Any]:
    """An entry; what its memo is depends on its kind."""
    memo = format_nanos(entry.memo_nanos)
    return {
        "seq": entry.seq,
        "at": iso_ms(entry.at_ms),
        "kind": entry.kind.value,
        "amount": format_nanos(entry.amount_nanos),
        "returned": memo if entry.kind.value in ("capture", "release") else None,
        "uncollected": memo if entry.kind.value == "uncollected" else None,
        "hold": entry.hold_id,
        "why": entry.why,
    }


def iso_ms(at_ms: int) -> str:
    """RFC 3339 in UTC with milliseconds: ``2026-11-30T10:00:00.000Z``."""
    return datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S") + f".{at_ms % 1000:03d}Z"
