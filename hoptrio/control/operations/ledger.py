"""The ledger: its entries, its open holds, and the audit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoptrio.control import reports, shapes
from hoptrio.control.operation import operation
from hoptrio.control.reading import checked
from hoptrio.control.turns import in_turns
from hoptrio.errors import Conflict, NotFound
from hoptrio.money import format_nanos

if TYPE_CHECKING:
    from hoptrio.control.office import Office

__all__ = ["audit", "list_entries", "list_holds", "release_hold"]


@operation("GET", "/api/entries", shapes.EntryPage, list[shapes.EntryItem], refuses=(NotFound,))
async def list_entries(office: Office, asked: shapes.EntryPage) -> list[shapes.EntryItem]:
    """The newest entries, of one account or of all."""
    account = None if asked.account is None else await office.account(asked.account)
    entries = await office.ledger.last_entries(
        account.id if account else None, before_seq=asked.before, limit=asked.limit
    )
    names = await office.account_names()
    return await in_turns(entries, lambda each: reports.entry(each, names))


@operation("GET", "/api/holds", shapes.HoldPage, list[shapes.HoldItem], refuses=(NotFound,))
async def list_holds(office: Office, asked: shapes.HoldPage) -> list[shapes.HoldItem]:
    """Open holds, oldest first."""
    account = None if asked.account is None else await office.account(asked.account)
    names, now_ms = await office.account_names(), office.ledger.now_ms()
    latest_ms = now_ms - asked.older_than_seconds * 1000
    holds = [
        each
        for each in await office.ledger.open_holds()
        if (account is None or each.account_id == account.id) and each.created_at_ms <= latest_ms
    ]
    return await in_turns(holds[: asked.limit], lambda each: reports.hold(each, names, now_ms))


@operation("POST", "/api/holds/{hold}/release", shapes.HoldRelease, shapes.HoldReleased, refuses=(NotFound, Conflict))
async def release_hold(office: Office, asked: shapes.HoldRelease) -> shapes.HoldReleased:
    """Release a hold that nobody settles."""
    with checked():
        resolved = await office.ledger.release(asked.hold, asked.why)
    if resolved is None:
        raise NotFound(f"no hold {asked.hold}")
    if not resolved.first:
        raise Conflict(f"{asked.hold} was resolved before, charge {format_nanos(resolved.charge_nanos)}")
    return shapes.HoldReleased(hold=asked.hold)


@operation("GET", "/api/audit", shapes.Nothing, shapes.Audit)
async def audit(office: Office, asked: shapes.Nothing) -> shapes.Audit:
    """Recompute every invariant from the entries."""
    return reports.audit(await office.ledger.audit())
