"""What the API takes and gives: one struct for each, from which requests are checked, answers written, and the OpenAPI
description made.

Amounts are decimal strings in the ledger's currency, without exponent or trailing zeros; times are RFC 3339 in UTC.
What is absent in an answer is null. An unknown member of a request is refused.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from hoptrio import limits

__all__ = [
    "Account",
    "AccountDeposit",
    "AccountDisabling",
    "AccountName",
    "AccountPage",
    "Adjustment",
    "Asked",
    "Audit",
    "CertificateState",
    "Certification",
    "CertificationOrder",
    "Channel",
    "ChannelModel",
    "ChannelName",
    "ChannelPause",
    "Contract",
    "EntryItem",
    "EntryPage",
    "HoldItem",
    "HoldPage",
    "HoldRelease",
    "HoldReleased",
    "Interval",
    "Key",
    "KeyId",
    "KeyMade",
    "KeyPage",
    "LiveStream",
    "Model",
    "NewAccount",
    "NewKey",
    "NotAsked",
    "Nothing",
    "Outcome",
    "Overview",
    "Pause",
    "Probe",
    "Problem",
    "ProblemDetail",
    "RequestId",
    "RequestItem",
    "RequestPage",
    "RequestPageOf",
    "RouteAnswer",
    "RouteQuestion",
    "Routing",
    "StatementPage",
    "TimelineStep",
    "Usage",
]

_AMOUNT = r"^[0-9]{1,15}(\.[0-9]{1,9})?$"
Amount = Annotated[str, Meta(pattern=_AMOUNT, description="A decimal amount.", examples=["12.5"])]
SomeAmount = Annotated[str, Meta(pattern=_AMOUNT, description="A decimal amount above 0.", examples=["12.5"])]
SignedAmount = Annotated[
    str,
    Meta(pattern="^-?" + _AMOUNT[1:], description="A decimal amount other than 0.", examples=["-0.75"]),
]
Money = Annotated[str, Meta(description="A decimal amount in the ledger's currency.", examples=["0.128"])]
Time = Annotated[str, Meta(description="RFC 3339, UTC, milliseconds.", examples=["2026-11-30T10:00:00.000Z"])]
When = Annotated[
    str,
    Meta(
        pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?(Z|[+-][0-9]{2}:[0-9]{2})$",
        description="RFC 3339 with an offset.",
        examples=["2026-11-30T10:00:00Z"],
    ),
]
Name = Annotated[str, Meta(min_length=1, max_length=limits.NAME_CHARS_MAX)]
Word = Annotated[str, Meta(min_length=1, max_length=limits.CONTROL_WORD_CHARS_MAX)]
ClientRequestId = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=limits.HEAD_BYTES_MAX,
        description=f"The caller's own; its first {limits.CLIENT_REQUEST_ID_CHARS_MAX} characters are kept.",
    ),
]
Why = Annotated[str, Meta(max_length=limits.CONTROL_WHY_CHARS_MAX, description="Kept with the change.")]
Reason = Annotated[str, Meta(min_length=1, max_length=limits.CONTROL_WHY_CHARS_MAX, description="Kept with the entry.")]
Ref = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=limits.CONTROL_WORD_CHARS_MAX,
        description="The caller's own id of this change: the same again changes nothing, another change is refused.",
    ),
]
Cursor = Annotated[str, Meta(pattern=r"^[0-9]{1,16}\.[A-Za-z0-9_-]{1,64}$", description="`next` of a page.")]
Count = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Limit = Annotated[int, Meta(ge=1, le=limits.CONTROL_PAGE_ROWS_MAX)]
Protocol = Literal["chat", "responses", "messages", "gemini"]
State = Literal["running", "captured", "released", "refused"]
Period = Literal["day", "month"]


class _Taken(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a request may say."""


class _Given(Struct, frozen=True, kw_only=True):
    """What an answer says."""


class Nothing(_Taken, frozen=True, kw_only=True):
    """No parameters."""


class ProblemDetail(_Given, frozen=True, kw_only=True):
    """Why a request was refused: a stable code, and words that are safe to show."""

    code: str
    message: str


class Problem(_Given, frozen=True, kw_only=True):
    """A refusal."""

    error: ProblemDetail


# -- accounts --------------------------------------------------------------------------------------------------------


class Account(_Given, frozen=True, kw_only=True):
    """An account as it stands; `available` is the balance less what is held."""

    id: str
    name: str
    balance: Money
    held: Money
    available: Money
    disabled: bool
    created_at: Time


class AccountPage(_Taken, frozen=True, kw_only=True):
    """Accounts by name."""

    after: Annotated[str, Meta(description="Those behind this name.")] = ""
    limit: Limit = limits.CONTROL_PAGE_ROWS_MAX


class NewAccount(_Taken, frozen=True, kw_only=True):
    """An account to open."""

    name: Name
    deposit: Amount = "0"


class AccountName(_Taken, frozen=True, kw_only=True):
    """One account, by its name or id."""

    account: Name


class AccountDeposit(_Taken, frozen=True, kw_only=True):
    """A payment into an account."""

    account: Name
    amount: SomeAmount
    why: Why = ""
    ref: Ref | None = None


class Adjustment(_Taken, frozen=True, kw_only=True):
    """A correction of a balance, up or down."""

    account: Name
    amount: SignedAmount
    why: Reason
    ref: Ref | None = None


class AccountDisabling(_Taken, frozen=True, kw_only=True):
    """Whether an account's new requests are refused."""

    account: Name
    disabled: bool
    why: Why = ""


# -- the ledger ------------------------------------------------------------------------------------------------------


class EntryItem(_Given, frozen=True, kw_only=True):
    """A line of an account's history. `amount` changed its balance; `returned` came back of a hold, `uncollected` could
    not be taken, and neither moved the balance."""

    seq: int
    at: Time
    kind: str
    amount: Money
    returned: Money | None
    uncollected: Money | None
    hold: str | None
    why: str
    account: str


class StatementPage(_Taken, frozen=True, kw_only=True):
    """An account's entries, oldest first."""

    account: Name
    after: Annotated[int, Meta(ge=0, le=2**53, description="Those behind this seq.")] = 0
    limit: Limit = 100


class EntryPage(_Taken, frozen=True, kw_only=True):
    """Entries of all accounts or of one, newest first."""

    account: Name | None = None
    before: Annotated[int, Meta(ge=0, le=2**53, description="Those in front of this seq.")] | None = None
    limit: Limit = 100


class HoldItem(_Given, frozen=True, kw_only=True):
    """An open hold."""

    id: str
    request: str
    account: str
    key: str
    amount: Money
    created_at: Time
    age_seconds: float
    owner: Annotated[str, Meta(description="The process that placed it.")]


class HoldPage(_Taken, frozen=True, kw_only=True):
    """Open holds, oldest first."""

    account: Name | None = None
    older_than_seconds: Annotated[int, Meta(ge=0, le=2**31)] = 0
    limit: Limit = 100


class HoldRelease(_Taken, frozen=True, kw_only=True):
    """A hold that nobody settles, and why it is released by hand."""

    hold: Word
    why: Reason


class HoldReleased(_Given, frozen=True, kw_only=True):
    """It is released."""

    hold: str
    state: Literal["released"] = "released"


class Audit(_Given, frozen=True, kw_only=True):
    """Every invariant, recomputed from the entries; `violations` name the rows that break one."""

    ok: bool
    violations: list[str]
    accounts: int
    entries: int
    open_holds: int
    captured: int
    released: int
    captured_amount: Money
    supplier_amount: Money
    platform_amount: Money
    uncollected_amount: Money
    balances: Money
    held: Money


# -- keys ------------------------------------------------------------------------------------------------------------


class Key(_Given, frozen=True, kw_only=True):
    """An API key and its limits; its secret is nowhere."""

    id: str
    account: str
    contract: str | None
    max_streams: int | None
    rpm: int | None
    budget: Money | None
    per: Period | None
    expires_at: Time | None
    models: list[str]
    revoked: bool
    created_at: Time


class KeyMade(Key, frozen=True, kw_only=True):
    """A new key with its secret, which is told this once; `unknown_models` are among its models and in no config."""

    secret: str
    unknown_models: list[str] = []


class KeyPage(_Taken, frozen=True, kw_only=True):
    """Keys, oldest first."""

    account: Name | None = None


class NewKey(_Taken, frozen=True, kw_only=True):
    """A key to make. Without a contract it has the server's; without models it may use all."""

    account: Name
    contract: Word | None = None
    max_streams: Count | None = None
    rpm: Count | None = None
    budget: Amount | None = None
    per: Period | None = None
    expires: When | None = None
    models: Annotated[list[Word], Meta(max_length=1000)] = []


class KeyId(_Taken, frozen=True, kw_only=True):
    """One key."""

    key: Word


# -- requests --------------------------------------------------------------------------------------------------------


class Usage(_Given, frozen=True, kw_only=True):
    """Tokens; the input without the cached and cache-write ones, the output with the reasoning ones."""

    input_tokens: int
    cached_input_tokens: int
    cache_write_tokens: int
    output_tokens: int
    reasoning_tokens: int


class TimelineStep(_Given, frozen=True, kw_only=True):
    """Something that happened to a request, in milliseconds since it came."""

    at_ms: int
    event: str


class RequestItem(_Given, frozen=True, kw_only=True):
    """A request, its evidence, settlement and timeline."""

    id: str
    created_at: Time
    protocol: str
    model: str
    contract: str
    stream: bool
    state: State
    reason: str | None
    evidence: str
    usage: Usage | None
    hold: Money
    charge: Money | None
    currency: str
    flags: list[str]
    attempts: int
    client_request_id: str | None
    timeline: list[TimelineStep]
    account: str
    key: str
    channel: str | None


class RequestId(_Taken, frozen=True, kw_only=True):
    """One request."""

    id: Word


class RequestPage(_Taken, frozen=True, kw_only=True):
    """Requests, newest first; every filter that is given must apply."""

    account: Name | None = None
    key: Word | None = None
    protocol: Protocol | None = None
    model: Word | None = None
    channel: Word | None = None
    state: State | None = None
    reason: Annotated[Word, Meta(description="Why it was released or refused.")] | None = None
    client_request_id: ClientRequestId | None = None
    since: When | None = None
    until: When | None = None
    before: Cursor | None = None
    limit: Limit = 50


class RequestPageOf(_Given, frozen=True, kw_only=True):
    """A page, and what to ask for as `before` to get the next; null = this was the last."""

    requests: list[RequestItem]
    next: str | None


# -- channels --------------------------------------------------------------------------------------------------------


class Probe(_Given, frozen=True, kw_only=True):
    """The last probe of a channel's model in a protocol; without an end it runs."""

    began_at: Time
    ended_at: Time | None
    finding: str
    detail: str


class CertificateState(_Given, frozen=True, kw_only=True):
    """Whether a channel's streams of a model are known to end with usage, in one of its protocols."""

    protocol: str
    certified: bool
    valid_until: Time | None
    probe: Probe | None


class ChannelModel(_Given, frozen=True, kw_only=True):
    """A model of a channel. `health` is good, doubted, due, tried, cooling, or unknown without a server."""

    name: str
    upstream: str
    health: str
    fault: str | None
    wait_seconds: float
    certificates: list[CertificateState]


class Pause(_Given, frozen=True, kw_only=True):
    """Since when a channel is out of service, and why."""

    since: Time
    why: str


class Channel(_Given, frozen=True, kw_only=True):
    """A channel as it stands; no credential is in it."""

    name: str
    protocols: list[str]
    addresses: dict[str, str]
    route: str
    accounts: list[str]
    keys: list[str]
    priority: int
    weight: int
    max_streams: Annotated[int, Meta(description="For each worker.")]
    supplier: str | None
    paused: Pause | None
    models: list[ChannelModel]


class ChannelName(_Taken, frozen=True, kw_only=True):
    """One channel."""

    channel: Word


class ChannelPause(_Taken, frozen=True, kw_only=True):
    """A channel to take out of service."""

    channel: Word
    why: Why = ""


class CertificationOrder(_Taken, frozen=True, kw_only=True):
    """What to probe now: a channel whatever its route, else all on shared routes; all models, or one."""

    channel: Word | None = None
    model: Word | None = None


class Certification(_Given, frozen=True, kw_only=True):
    """What a probe found; `why` in words."""

    channel: str
    model: str
    protocol: str
    certified: bool
    finding: str
    why: str
    input: int | None
    output: int | None
    evidence: str | None
    seconds: float
    valid_until: Time | None


class RouteQuestion(_Taken, frozen=True, kw_only=True):
    """Who would be asked for a stream of a model?"""

    model: Word
    protocol: Protocol | None = None
    key: Word | None = None
    contract: Word | None = None


class Asked(_Given, frozen=True, kw_only=True):
    """A channel that would be asked."""

    channel: str
    upstream: str
    converts_to: str | None
    route: str
    priority: int
    weight: int
    health: str


class NotAsked(_Given, frozen=True, kw_only=True):
    """A channel that would not, and why."""

    channel: str
    why: str


class RouteAnswer(_Given, frozen=True, kw_only=True):
    """Who would be asked in one protocol, in this order."""

    protocol: str
    asked: list[Asked]
    last_resort: bool
    not_asked: list[NotAsked]
    refused: str | None


class Routing(_Given, frozen=True, kw_only=True):
    """Who would be asked for a model; `health` is shared with a running server, or unknown."""

    model: str
    key: str | None
    contract: str
    attempts: int
    health: Literal["shared", "unknown"]
    routes: list[RouteAnswer]


# -- now -------------------------------------------------------------------------------------------------------------


class LiveStream(_Given, frozen=True, kw_only=True):
    """A stream that runs now, on any worker; `draining`: its client has left, and the provider is read to its end."""

    id: str
    account: str
    key: str
    protocol: str
    model: str
    channel: str
    contract: str
    stream: bool
    created_at: Time
    age_seconds: float
    hold: Money
    events: int
    draining: bool
    timeline: list[TimelineStep]


class Interval(_Given, frozen=True, kw_only=True):
    """What all workers did in one interval of a few seconds; `open` and `draining` are those at its end."""

    at: Time
    open: int
    draining: int
    events_per_second: float
    ended: int
    failed: int
    charged: Money
    first_event_seconds: Annotated[float | None, Meta(description="The mean; null where no stream began.")]


class Outcome(_Given, frozen=True, kw_only=True):
    """How many streams ended so since the server started: "complete", or the reason."""

    outcome: str
    streams: int


class Overview(_Given, frozen=True, kw_only=True):
    """The figures of all workers of this machine. Totals count from the start of the server; holds are the ledger's, of
    every machine."""

    at: Time
    workers: int
    draining_workers: int
    ledger_reachable: bool
    ledger_queue: int
    open: int
    draining: int
    events: int
    keepalives: int
    charged: Money
    currency: str
    outcomes: list[Outcome]
    refusals: list[Outcome]
    holds_by_age: Annotated[dict[str, int], Meta(description="Open holds older than the one before, up to this age.")]
    history: Annotated[list[Interval], Meta(description="The last ten minutes, oldest first.")]


# -- what is configured ----------------------------------------------------------------------------------------------


class Contract(_Given, frozen=True, kw_only=True):
    """What a stream promises its caller."""

    name: str
    default: bool
    protocols: list[str]
    keepalive: str
    keepalive_seconds: float
    usage: str
    failure: str
    interrupted: str
    attempts: int
    stall: bool
    deadline_seconds: float
    certified_only: bool
    reattach: bool


class Model(_Given, frozen=True, kw_only=True):
    """A model as callers name it; prices per million tokens."""

    name: str
    input: Money
    cached_input: Money
    cache_write: Money
    cache_write_1h: Money
    output: Money
    tools: dict[str, str]
    image: Money | None
    tiers: list[str]
    max_input_tokens: int
    max_output_tokens: int | None
    stall_seconds: float
    channels: list[str]
