"""The ledger's values and rules, pure: what a hold is, what may become of it, and in which order refusals are judged.

Amounts are integers in billionths. An account has `balance` (all that was paid in, less all that was captured) and
`held` (the sum of its open holds); ``0 <= held <= balance`` at every commit, so a balance can never be negative. A hold
is resolved exactly once, by a capture of at most its amount or by a release. Entries are never changed or removed.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

__all__ = [
    "DOT_SEGMENTS",
    "Account",
    "ApiKey",
    "Claim",
    "ClaimRow",
    "Claimed",
    "Entry",
    "EntryKind",
    "Hold",
    "HoldRefusal",
    "HoldRefused",
    "HoldRow",
    "HoldState",
    "OwnerRow",
    "PauseRow",
    "Placed",
    "ProbeRow",
    "Probed",
    "RequestFilter",
    "RequestRecord",
    "Resolution",
    "Resolved",
    "Terms",
    "UsageEvidence",
]


#: No names: clients take them out of a path, escaped or not (RFC 3986 section 5.2.4).
DOT_SEGMENTS = frozenset({".", ".."})


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
    #: By the ledger's clock; told where a key is found by its secret.
    expired: bool = False
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


class Claim(msgspec.Struct, frozen=True):
    """That one request stands for all with the same Idempotency-Key of an API key; both are in `name`, hashed."""

    name: str
    #: Of what is asked: the same again is a retry.
    digest: str
    #: How long after its end a captured request still stands for others.
    window_ms: int


class ClaimRow(msgspec.Struct, frozen=True):
    """The newest hold that was placed under a claim's name."""

    name: str
    hold_id: str
    digest: str
    made_at_ms: int


class Claimed(msgspec.Struct, frozen=True):
    """Another request stands for this one: nothing was held. `running`: it is not captured yet."""

    request_id: str
    digest: str
    running: bool


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
    #: It is placed only if no other request stands for this one.
    claim: Claim | None = None


class HoldRefusal(StrEnum):
    """Why a hold is refused; judged in this order, the first that applies is the answer."""

    KEY_REVOKED = "key_revoked"
    KEY_EXPIRED = "key_expired"
    ACCOUNT_DISABLED = "account_disabled"
    MAX_STREAMS = "max_streams"
    RATE = "rate"
    BUDGET = "budget"
    BALANCE = "balance"


class Placed(msgspec.Struct, frozen=True):
    """The hold is durable."""

    available_nanos: int
    #: Further requests that the key may make now; None = as many as it likes.
    requests_left: int | None = None


class HoldRefused(msgspec.Struct, frozen=True):
    """Nothing was held. `available_nanos` is what could have been (balance or budget)."""

    why: HoldRefusal
    available_nanos: int = 0
    #: RATE: until there is room for one request more.
    wait_ms: int = 0


class Terms(msgspec.Struct, frozen=True):
    """Who is credited for a capture: a supplier's account name ("" = nobody), and its share in billionths."""

    supplier: str
    revenue_share_nanos: int


class Resolution(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of a hold: a capture of `capture_nanos`, or a release if that is None.

    The request's row is replaced by `request`, whose state and charge agree with it. `terms` replace the hold's (None =
    they stand): of several attempts, the last may have gone to another supplier's channel.
    """

    hold_id: str
    capture_nanos: int | None
    request: RequestRecord
    terms: Terms | None = None


class Resolved(msgspec.Struct, frozen=True):
    """The hold is resolved, durably; by this call if `first`, else it was before and nothing changed."""

    first: bool
    charge_nanos: int
    flags: tuple[str, ...] = ()


class HoldState(StrEnum):
    """Where a hold stands; the only transitions are OPEN to one of the others, once."""

    OPEN = "open"
    CAPTURED = "captured"
    RELEASED = "released"


class HoldRow(msgspec.Struct, frozen=True, kw_only=True):
    """A hold as the ledger keeps it. `charge_nanos` is what was taken, by a late capture too (`late`)."""

    id: str
    request_id: str
    account_id: str
    key_id: str
    amount_nanos: int
    prices: str
    owner: str
    supplier: str
    revenue_share_nanos: int
    state: HoldState
    #: Why it was released: a `contract.Reason`, or "operator" for one released by hand.
    reason: str | None
    charge_nanos: int
    late: bool
    created_at_ms: int
    resolved_at_ms: int | None


class EntryKind(StrEnum):
    """What an entry records. The two kinds with a memo alone move no balance."""

    DEPOSIT = "deposit"
    ADJUST = "adjust"
    CAPTURE = "capture"
    #: Memo: what returned to the account.
    RELEASE = "release"
    LATE_CAPTURE = "late_capture"
    #: Memo: what a late capture was due and could not take.
    UNCOLLECTED = "uncollected"
    #: A supplier's part of a capture. What is left of the capture is the platform's.
    SHARE = "share"


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One line of an account's history; a balance is the sum of its `amount_nanos`, in the order of `seq`."""

    seq: int
    at_ms: int
    account_id: str
    kind: EntryKind
    #: Signed change of the balance.
    amount_nanos: int
    #: An amount that moves no balance: what a capture or release returned, what could not be collected.
    memo_nanos: int = 0
    hold_id: str | None = None
    why: str = ""
    #: The caller's own id of a deposit or adjustment, so that a repeated one is applied once.
    ref: str | None = None


class OwnerRow(msgspec.Struct, frozen=True, kw_only=True):
    """A gateway process that places holds. `beat` grows with every renewal of its lease."""

    id: str
    beat: int
    renewed_at_ms: int
    open_holds: int = 0


class RequestFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which requests to list, newest first; None = any. `since_ms` is inclusive, `until_ms` exclusive; `before` is the
    (created_at_ms, id) of the last one of the page before."""

    account_id: str | None = None
    key_id: str | None = None
    protocol: str | None = None
    model: str | None = None
    channel: str | None = None
    state: str | None = None
    reason: str | None = None
    client_request_id: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    before: tuple[int, str] | None = None
    limit: int = 50


class PauseRow(msgspec.Struct, frozen=True):
    """A channel that an operator has taken out of service: it gets no new streams."""

    channel: str
    since_ms: int
    why: str


class Probed(msgspec.Struct, frozen=True, order=True):
    """What one probe is about: a channel, a model as callers name it, and a protocol that the channel speaks."""

    channel: str
    model: str
    protocol: str


class UsageEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """Proof that a channel reports usage for a model: a row of ``channel_model_usage_evidence``."""

    probed: Probed
    kind: str = "sse_terminal"
    #: What was probed: the row says nothing of another address, or another model of the provider.
    target: str
    #: The usage object as received.
    evidence: str
    observed_at_ms: int
    #: The id of the probe that saw it.
    probe: str
    expires_at_ms: int


class ProbeRow(msgspec.Struct, frozen=True, kw_only=True):
    """The last probe of something. `finding` is "" until it has ended."""

    probed: Probed
    probe: str
    #: The process that probes (`owner.this_process`).
    owner: str
    #: Digest of how the channel was configured.
    setup: str
    began_at_ms: int
    ended_at_ms: int | None = None
    finding: str = ""
    detail: str = ""
