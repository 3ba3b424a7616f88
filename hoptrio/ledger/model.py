"""The ledger's values and rules, pure: what a hold is, what may become of it, and in which order refusals are judged.

Amounts are integers in billionths. An account has `balance` (all that was paid in, less all that was captured) and
`held` (the sum of its open holds); ``0 <= held <= balance`` at every commit, so a balance can never be negative. A hold
is resolved exactly once, by a capture of at most its amount or by a release. Entries are never changed or removed.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

__all__ = [
    "Account",
    "ApiKey",
    "Hold",
    "HoldRefusal",
    "HoldRefused",
    "Placed",
    "RequestRecord",
    "Resolution",
    "Resolved",
]


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """An account as it stands."""

    id: str
    name: str
    balance_nanos: int
    held_nanos: int
    disabled: bool = False
    created_at_ms: int

    @property
    def available_nanos(self) -> int:
        """What a new hold may take."""
        return self.balance_nanos - self.held_nanos


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key and its limits, with its account as it stands; the secret itself is never stored."""

    id: str
    account: Account
    #: Name of the contract, None = the server's.
    contract: str | None = None
    max_streams: int | None = None
    rpm: int | None = None
    budget_nanos: int | None = None
    budget_per: str | None = None
    expires_at_ms: int | None = None
    #: Model names it may use; () = all.
    models: tuple[str, ...] = ()
    revoked: bool = False
    created_at_ms: int


class RequestRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One request as its account may see it: interface page, ``GET /v1/requests/{id}``. JSON members as text."""

    id: str
    account_id: str
    key_id: str
    created_at_ms: int
    protocol: str
    model: str
    contract: str
    stream: bool
    channel: str | None = None
    client_request_id: str | None = None
    #: running | captured | released | refused
    state: str
    reason: str | None = None
    #: sse_terminal | json_body | partial | estimated | none
    evidence: str = "none"
    #: The interface page's usage object as JSON, "" = unknown.
    usage: str = ""
    #: The provider's usage object as received, "" = none.
    raw_usage: str = ""
    hold_nanos: int = 0
    #: None while unknown.
    charge_nanos: int | None = None
    flags: tuple[str, ...] = ()
    attempts: int = 0
    #: ((at_ms, event), ...) relative to created_at.
    timeline: tuple[tuple[int, str], ...] = ()
    #: Provider-side ids this answer made, which only this account may refer to later.
    provider_ids: tuple[str, ...] = ()


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """A hold to place. Ids are made by the caller before anything is queued, so a lost answer loses nothing."""

    id: str
    request: RequestRecord
    amount_nanos: int
    #: The price tables in force, as JSON: pinned here, used at the capture.
    prices: str
    #: Node, process and start of the gateway that owns it; a hold of a dead owner is an orphan.
    owner: str
    #: Supplier account name ("" = none) and share in billionths, pinned too.
    supplier: str = ""
    revenue_share_nanos: int = 0


class HoldRefusal(StrEnum):
    """Why a hold is refused; judged in this order, the first that applies is the answer."""

    KEY_REVOKED = "key_revoked"
    KEY_EXPIRED = "key_expired"
    ACCOUNT_DISABLED = "account_disabled"
    MAX_STREAMS = "max_streams"
    BUDGET = "budget"
    BALANCE = "balance"


class Placed(msgspec.Struct, frozen=True):
    """The hold is durable."""

    available_nanos: int


class HoldRefused(msgspec.Struct, frozen=True):
    """Nothing was held. `available_nanos` is what could have been (balance or budget)."""

    why: HoldRefusal
    available_nanos: int = 0


class Resolution(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of a hold: a capture of `capture_nanos`, or a release if that is None.

    The request's row is replaced by `request`, whose state and charge agree with it.
    """

    hold_id: str
    capture_nanos: int | None
    request: RequestRecord


class Resolved(msgspec.Struct, frozen=True):
    """The hold is resolved, durably; by this call if `first`, else it was before and nothing changed."""

    first: bool
    charge_nanos: int
    flags: tuple[str, ...] = ()
