"""Everything that changes the ledger, as values: a store applies a list of these in one durable transaction.

`model.Hold` and `model.Resolution` are operations too. Ids and references are made by the caller, so that an operation
whose answer was lost can be repeated (all but a hold), or made void (a hold), without knowing whether it happened.
"""

from __future__ import annotations

import msgspec

from hoptrio.ledger.model import EntryKind, Hold, Probed, RequestRecord, Resolution

__all__ = [
    "BeginProbe",
    "CreateAccount",
    "CreateKey",
    "EndProbe",
    "Move",
    "Note",
    "Operation",
    "Ping",
    "Purge",
    "Release",
    "Renew",
    "RevokeKey",
    "SetDisabled",
    "SetPaused",
    "is_owed",
]


class Note(msgspec.Struct, frozen=True):
    """Keep the record of a request that held nothing. Answer: None."""

    record: RequestRecord


class Release(msgspec.Struct, frozen=True):
    """Release a hold without its gateway: an orphan, one by hand, or one whose answer came too late.

    Answer: `Resolved`, or None if there is no such hold.
    """

    hold_id: str
    reason: str
    why: str = ""


class CreateAccount(msgspec.Struct, frozen=True, kw_only=True):
    """Answer: `Account`, or `Conflict` if another account has the name."""

    id: str
    name: str
    deposit_nanos: int
    ref: str


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """A deposit or an adjustment. Answer: `Account`, also for the same again; `NotFound`, `Conflict` if another change
    has the `ref` or the balance would be above `money.BALANCE_NANOS_MAX`, or `InsufficientBalance` below what is
    held."""

    ref: str
    account: str
    kind: EntryKind
    amount_nanos: int
    why: str


class SetDisabled(msgspec.Struct, frozen=True):
    """Disable an account or enable it, with an adjustment of nothing that says so if it was not so before.

    Answer: `Account`, or `NotFound`.
    """

    account: str
    disabled: bool
    why: str = ""


class CreateKey(msgspec.Struct, frozen=True, kw_only=True):
    """Answer: `ApiKey`, `NotFound` for the account, or `Conflict` if another key has the id or the secret."""

    id: str
    secret_hash: str
    account: str
    contract: str | None = None
    max_streams: int | None = None
    rpm: int | None = None
    budget_nanos: int | None = None
    budget_per: str | None = None
    expires_at_ms: int | None = None
    models: tuple[str, ...] = ()


class RevokeKey(msgspec.Struct, frozen=True):
    """Answer: `ApiKey`, or `NotFound`."""

    id: str


class Renew(msgspec.Struct, frozen=True):
    """Renew an owner's lease, or begin it. Answer: None."""

    owner: str


class Purge(msgspec.Struct, frozen=True):
    """Forget the oldest `limit` records of requests made before `before_ms`, and the provider-side ids they made; never
    one that runs. Answer: how many there were."""

    before_ms: int
    limit: int


class BeginProbe(msgspec.Struct, frozen=True, kw_only=True):
    """Claim a probe, unless one of the same with the same `setup` began less than `every_ms` ago. Answer: True if it is
    this one's to make.

    `instead_of`: the id of a probe that does not count, since its process is gone.
    """

    probed: Probed
    probe: str
    owner: str
    setup: str
    every_ms: int
    instead_of: str = ""


class EndProbe(msgspec.Struct, frozen=True, kw_only=True):
    """Keep what a probe found. With `evidence` the row of evidence is written, valid for `valid_ms` from now; without,
    it is removed if `revokes`. Answer: None."""

    probed: Probed
    probe: str
    finding: str
    detail: str = ""
    target: str = ""
    evidence: str | None = None
    valid_ms: int = 0
    revokes: bool = False


class SetPaused(msgspec.Struct, frozen=True):
    """Take a channel out of service, or put it back; one that is paused already stays so since then. Answer: None."""

    channel: str
    paused: bool
    why: str = ""


class Ping(msgspec.Struct, frozen=True):
    """An empty transaction: can the ledger be written? Answer: None."""


Operation = (
    Hold
    | Resolution
    | Release
    | Note
    | CreateAccount
    | Move
    | SetDisabled
    | CreateKey
    | RevokeKey
    | Renew
    | Purge
    | BeginProbe
    | EndProbe
    | SetPaused
    | Ping
)


def is_owed(operation: Operation) -> bool:
    """True for what must happen however long it takes: it is tried again until it is done."""
    return isinstance(operation, Resolution | Release)
