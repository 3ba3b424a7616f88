"""What may be held and what becomes of a hold, pure: every store decides by these functions inside its transaction.

Invariants: refusals are judged in the order of `HoldRefusal`; a charge never exceeds its hold; a hold is resolved once;
evidence that comes after a hold was taken from a dead owner takes what is available and never more ("Late capture",
contract page).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from hoptrio.contract import Reason
from hoptrio.errors import Conflict, InsufficientBalance
from hoptrio.ledger.model import (
    ApiKey,
    Claimed,
    ClaimRow,
    EntryKind,
    HoldRefusal,
    HoldRefused,
    HoldRow,
    HoldState,
    Placed,
    RequestRecord,
    Terms,
)
from hoptrio.limits import RATE_WINDOW_MS
from hoptrio.money import BALANCE_NANOS_MAX, format_nanos, share_nanos

if TYPE_CHECKING:
    from hoptrio.errors import HoptrioError
    from hoptrio.ledger.model import Account
    from hoptrio.ledger.operations import Move

__all__ = [
    "OPERATOR",
    "Effect",
    "KeyUse",
    "Moved",
    "budget_period",
    "decide",
    "join",
    "judge",
    "on_terms",
    "refused_move",
    "repeated",
    "resolve_open",
    "settled_record",
    "standing",
    "why_disabled",
    "with_expiry",
]

#: The reason of a hold that was released by hand.
OPERATOR = "operator"
#: What is said before anybody is let join another request (contract, "When the status is decided").
_NOT_A_KEY = frozenset({HoldRefusal.KEY_REVOKED, HoldRefusal.KEY_EXPIRED, HoldRefusal.ACCOUNT_DISABLED})
#: Releases that were made without its gateway: evidence may still come for these.
_WITHOUT_GATEWAY = frozenset({Reason.ORPHANED.value, OPERATOR})


class KeyUse(NamedTuple):
    """What a key uses of its limits now; only asked for when it has any."""

    open_streams: int = 0
    #: Holds placed in the last `limits.RATE_WINDOW_MS`, and if that is the key's rate, the time of the one that has to
    #: leave this window before there is room again.
    recent: int = 0
    leaves_first_ms: int | None = None
    held_nanos: int = 0
    #: Captured in the budget's current period.
    spent_nanos: int = 0


def judge(key: ApiKey | None, use: KeyUse, amount_nanos: int, now_ms: int) -> Placed | HoldRefused:
    """Place or refuse a hold of `amount_nanos` for `key` (None = there is no such key)."""
    if key is None or key.revoked:
        return HoldRefused(HoldRefusal.KEY_REVOKED)
    if with_expiry(key, now_ms).expired:
        return HoldRefused(HoldRefusal.KEY_EXPIRED)
    if key.account.disabled:
        return HoldRefused(HoldRefusal.ACCOUNT_DISABLED)
    if key.max_streams is not None and use.open_streams >= key.max_streams:
        return HoldRefused(HoldRefusal.MAX_STREAMS)
    if key.rpm is not None and use.recent >= key.rpm:
        return HoldRefused(HoldRefusal.RATE, wait_ms=_wait_ms(use.leaves_first_ms, now_ms))
    if key.budget_nanos is not None:
        left = key.budget_nanos - use.spent_nanos - use.held_nanos
        if amount_nanos > left:
            return HoldRefused(HoldRefusal.BUDGET, max(left, 0))
    available = key.account.available_nanos
    if amount_nanos > available:
        return HoldRefused(HoldRefusal.BALANCE, available)
    return Placed(available - amount_nanos, None if key.rpm is None else key.rpm - use.recent - 1)


def standing(row: ClaimRow | None, hold: HoldRow | None, window_ms: int, now_ms: int) -> Claimed | None:
    """The request that stands for another under a claim: one that runs, or was paid for (late, too) at most `window_ms`
    ago. A refused one held nothing, and a released one gave nothing: the next is a new request under the same key."""
    if row is None or hold is None:
        return None
    running = hold.state is HoldState.OPEN
    paid = hold.state is HoldState.CAPTURED or hold.late
    if running or (paid and (hold.resolved_at_ms or 0) > now_ms - window_ms):
        return Claimed(hold.request_id, row.digest, running)
    return None


def join(judged: Placed | HoldRefused, claimed: Claimed | None) -> Placed | HoldRefused | Claimed:
    """What is answered: joining comes before limits and balance, and behind the key."""
    if claimed is None or (isinstance(judged, HoldRefused) and judged.why in _NOT_A_KEY):
        return judged
    return claimed


def _wait_ms(leaves_first_ms: int | None, now_ms: int) -> int:
    """Never longer than the window, wherever the clock was when the hold was placed."""
    leaves_ms = now_ms if leaves_first_ms is None else leaves_first_ms
    return max(1, min(leaves_ms + RATE_WINDOW_MS - now_ms, RATE_WINDOW_MS))


def with_expiry(key: ApiKey, now_ms: int) -> ApiKey:
    """The key, `expired` if it is at `now_ms`."""
    expired = key.expires_at_ms is not None and key.expires_at_ms <= now_ms
    return replace(key, expired=True) if expired else key


class Effect(NamedTuple):
    """What a resolution changes. `kind` None = nothing: the hold was resolved before."""

    kind: EntryKind | None
    state: HoldState
    charge_nanos: int
    #: What leaves the account's `held_nanos`: the hold, or nothing if it was open no more.
    unheld_nanos: int = 0
    returned_nanos: int = 0
    uncollected_nanos: int = 0
    share_nanos: int = 0
    flags: tuple[str, ...] = ()


def on_terms(hold: HoldRow, terms: Terms | None) -> HoldRow:
    """The hold with the terms of its resolution, which are kept with it from then on."""
    if terms is None:
        return hold
    return replace(hold, supplier=terms.supplier, revenue_share_nanos=terms.revenue_share_nanos)


def decide(hold: HoldRow, capture_nanos: int | None, available_nanos: int) -> Effect:
    """What a capture of `capture_nanos`, or a release if None, does to `hold` as it stands.

    `available_nanos` is what the account could pay a late capture with. A capture beyond the hold takes the hold, with
    the flag ``clamped``.
    """
    if hold.state is HoldState.OPEN:
        return resolve_open(hold.amount_nanos, hold.revenue_share_nanos, capture_nanos)
    due = None if capture_nanos is None else min(capture_nanos, hold.amount_nanos)
    late = hold.state is HoldState.RELEASED and hold.reason in _WITHOUT_GATEWAY and not hold.late
    if late and due is not None:
        taken = min(due, max(available_nanos, 0))
        return Effect(
            EntryKind.LATE_CAPTURE,
            HoldState.RELEASED,
            taken,
            uncollected_nanos=due - taken,
            share_nanos=share_nanos(taken, hold.revenue_share_nanos),
            flags=("late_capture",),
        )
    return Effect(None, hold.state, hold.charge_nanos, flags=("late_capture",) if hold.late else ())


def resolve_open(amount_nanos: int, revenue_share_nanos: int, capture_nanos: int | None) -> Effect:
    """What a capture of `capture_nanos`, or a release if None, does to an open hold of `amount_nanos`."""
    if capture_nanos is None:
        return Effect(EntryKind.RELEASE, HoldState.RELEASED, 0, amount_nanos, returned_nanos=amount_nanos)
    due = min(capture_nanos, amount_nanos)
    return Effect(
        EntryKind.CAPTURE,
        HoldState.CAPTURED,
        due,
        unheld_nanos=amount_nanos,
        returned_nanos=amount_nanos - due,
        share_nanos=share_nanos(due, revenue_share_nanos),
        flags=("clamped",) if capture_nanos > amount_nanos else (),
    )


def settled_record(record: RequestRecord, effect: Effect, reason: str | None, hold_nanos: int) -> RequestRecord:
    """The request as its account sees it once `effect` has happened; `record` is the settlement's own."""
    return replace(
        record,
        state=effect.state.value,
        reason=reason,
        hold_nanos=hold_nanos,
        charge_nanos=effect.charge_nanos,
        flags=(*record.flags, *(flag for flag in effect.flags if flag not in record.flags)),
    )


class Moved(NamedTuple):
    """What the entry with a `ref` did."""

    account_id: str
    kind: EntryKind
    amount_nanos: int


def repeated(account: Account, move: Move, before: Moved) -> Account | Conflict:
    """The answer to a move of `account` whose `ref` was used `before`: the same again changes nothing, another is
    refused. What it says of its reason may differ."""
    if before == Moved(account.id, move.kind, move.amount_nanos):
        return account
    return Conflict(f"the ref {move.ref} was used for another change")


def refused_move(account: Account, amount_nanos: int) -> HoptrioError | None:
    """Why a deposit or an adjustment of `account` cannot be made; None = it can."""
    if account.available_nanos + amount_nanos < 0:
        return InsufficientBalance(f"the account has {format_nanos(account.available_nanos)} available")
    if account.balance_nanos + amount_nanos > BALANCE_NANOS_MAX:
        most, has = format_nanos(BALANCE_NANOS_MAX), format_nanos(account.balance_nanos)
        return Conflict(f"a balance is {most} at most, and the account has {has}")
    return None


def why_disabled(disabled: bool, why: str) -> str:
    """What the entry of an account that was disabled or enabled says."""
    return ("disabled" if disabled else "enabled") + (f": {why}" if why else "")


def budget_period(per: str, now_ms: int) -> str:
    """The name of the budget's current period in UTC: ``2026-11-30`` for "day", ``2026-11`` for "month"."""
    day = datetime.fromtimestamp(now_ms / 1000, UTC).date().isoformat()
    return day if per == "day" else day[:7]
