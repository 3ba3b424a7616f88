"""Rows of the SQL engines as the ledger's values and back: column lists, and functions that read them by position."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from hoptrio.ledger.model import (
    Account,
    ApiKey,
    ClaimRow,
    Entry,
    EntryKind,
    HoldRow,
    HoldState,
    OwnerRow,
    PauseRow,
    Probed,
    ProbeRow,
    RequestRecord,
    UsageEvidence,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "ACCOUNT",
    "CLAIM",
    "ENTRY",
    "EVIDENCE",
    "HOLD",
    "KEY",
    "PAUSE",
    "PROBE",
    "REQUEST",
    "account_of",
    "claim_of",
    "entry_of",
    "evidence_of",
    "hold_of",
    "key_of",
    "owner_of",
    "pause_of",
    "probe_of",
    "record_of",
    "request_row",
    "text_of",
    "texts_of",
]

ACCOUNT = "a.id, a.name, a.balance_nanos, a.held_nanos, a.disabled, a.created_at_ms"
#: Select from ``api_keys k JOIN accounts a ON a.id = k.account_id``.
KEY = (
    "k.id, k.contract, k.max_streams, k.rpm, k.budget_nanos, k.budget_per, k.expires_at_ms, k.models, k.revoked,"
    f" k.created_at_ms, {ACCOUNT}"
)
HOLD = (
    "h.id, h.request_id, h.account_id, h.key_id, h.amount_nanos, h.prices, h.owner, h.supplier, h.revenue_share_nanos,"
    " h.state, h.reason, h.charge_nanos, h.late, h.created_at_ms, h.resolved_at_ms"
)
ENTRY = "seq, at_ms, account_id, kind, amount_nanos, memo_nanos, hold_id, why, ref"
REQUEST = (
    "id, account_id, key_id, created_at_ms, protocol, model, contract, stream, channel, client_request_id, state,"
    " reason, evidence, usage, raw_usage, hold_nanos, charge_nanos, flags, attempts, timeline, provider_ids"
)
#: Behind `HOLD`, from ``claims c JOIN holds h ON h.id = c.hold_id``.
CLAIM = "c.name, c.hold_id, c.digest, c.made_at_ms"
EVIDENCE = "channel, model, protocol, kind, target, evidence, observed_at_ms, probe, expires_at_ms"
PAUSE = "channel, since_ms, why"
PROBE = "channel, model, protocol, probe, owner, setup, began_at_ms, ended_at_ms, finding, detail"

_texts = msgspec.json.Decoder(tuple[str, ...])
_timeline = msgspec.json.Decoder(tuple[tuple[int, str], ...])
_encode = msgspec.json.Encoder().encode


def text_of(values: Sequence[Any]) -> str:
    """A list as JSON text."""
    return _encode(values).decode() if values else "[]"


def texts_of(text: str) -> tuple[str, ...]:
    """The list in a JSON text."""
    return () if text == "[]" else _texts.decode(text)


def account_of(row: Sequence[Any]) -> Account:
    """A row of `ACCOUNT`."""
    account_id, name, balance, held, disabled, created_at_ms = row
    return Account(
        id=account_id,
        name=name,
        balance_nanos=balance,
        held_nanos=held,
        disabled=bool(disabled),
        created_at_ms=created_at_ms,
    )


def key_of(row: Sequence[Any]) -> ApiKey:
    """A row of `KEY`."""
    return ApiKey(
        id=row[0],
        contract=row[1],
        max_streams=row[2],
        rpm=row[3],
        budget_nanos=row[4],
        budget_per=row[5],
        expires_at_ms=row[6],
        models=texts_of(row[7]),
        revoked=bool(row[8]),
        created_at_ms=row[9],
        account=account_of(row[10:16]),
    )


def hold_of(row: Sequence[Any]) -> HoldRow:
    """A row of `HOLD`."""
    return HoldRow(
        id=row[0],
        request_id=row[1],
        account_id=row[2],
        key_id=row[3],
        amount_nanos=row[4],
        prices=row[5],
        owner=row[6],
        supplier=row[7],
        revenue_share_nanos=row[8],
        state=HoldState(row[9]),
        reason=row[10],
        charge_nanos=row[11],
        late=bool(row[12]),
        created_at_ms=row[13],
        resolved_at_ms=row[14],
    )


def claim_of(row: Sequence[Any]) -> ClaimRow:
    """A row of `CLAIM`."""
    name, hold_id, digest, made_at_ms = row
    return ClaimRow(name, hold_id, digest, made_at_ms)


def entry_of(row: Sequence[Any]) -> Entry:
    """A row of `ENTRY`."""
    seq, at_ms, account_id, kind, amount, memo, hold_id, why, ref = row
    return Entry(
        seq=seq,
        at_ms=at_ms,
        account_id=account_id,
        kind=EntryKind(kind),
        amount_nanos=amount,
        memo_nanos=memo,
        hold_id=hold_id,
        why=why,
        ref=ref,
    )


def owner_of(row: Sequence[Any]) -> OwnerRow:
    """A row of id, beat, time of renewal and number of open holds."""
    return OwnerRow(id=row[0], beat=row[1], renewed_at_ms=row[2], open_holds=row[3])


def record_of(row: Sequence[Any]) -> RequestRecord:
    """A row of `REQUEST`."""
    return RequestRecord(
        id=row[0],
        account_id=row[1],
        key_id=row[2],
        created_at_ms=row[3],
        protocol=row[4],
        model=row[5],
        contract=row[6],
        stream=bool(row[7]),
        channel=row[8],
        client_request_id=row[9],
        state=row[10],
        reason=row[11],
        evidence=row[12],
        usage=row[13],
        raw_usage=row[14],
        hold_nanos=row[15],
        charge_nanos=row[16],
        flags=texts_of(row[17]),
        attempts=row[18],
        timeline=_timeline.decode(row[19]),
        provider_ids=texts_of(row[20]),
    )


def evidence_of(row: Sequence[Any]) -> UsageEvidence:
    """A row of `EVIDENCE`."""
    channel, model, protocol, kind, target, evidence, observed_at_ms, probe, expires_at_ms = row
    return UsageEvidence(
        probed=Probed(channel, model, protocol),
        kind=kind,
        target=target,
        evidence=evidence,
        observed_at_ms=observed_at_ms,
        probe=probe,
        expires_at_ms=expires_at_ms,
    )


def probe_of(row: Sequence[Any]) -> ProbeRow:
    """A row of `PROBE`."""
    channel, model, protocol, probe, owner, setup, began_at_ms, ended_at_ms, finding, detail = row
    return ProbeRow(
        probed=Probed(channel, model, protocol),
        probe=probe,
        owner=owner,
        setup=setup,
        began_at_ms=began_at_ms,
        ended_at_ms=ended_at_ms,
        finding=finding,
        detail=detail,
    )


def pause_of(row: Sequence[Any]) -> PauseRow:
    """A row of `PAUSE`."""
    return PauseRow(row[0], row[1], row[2])


def request_row(record: RequestRecord, account_id: str, state: str, hold_nanos: int) -> tuple[Any, ...]:
    """The values of `REQUEST`; the ledger's own account, state and hold, whatever the record says."""
    return (
        record.id,
        account_id,
        record.key_id,
        record.created_at_ms,
        record.protocol,
        record.model,
        record.contract,
        record.stream,
        record.channel,
        record.client_request_id,
        state,
        record.reason,
        record.evidence,
        record.usage,
        record.raw_usage,
        hold_nanos,
        record.charge_nanos,
        text_of(record.flags),
        record.attempts,
        text_of(record.timeline),
        text_of(record.provider_ids),
    )
