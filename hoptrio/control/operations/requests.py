"""Requests: what became of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from hoptrio.control import reports, shapes
from hoptrio.control.operation import operation
from hoptrio.control.reading import milliseconds
from hoptrio.control.turns import in_turns
from hoptrio.errors import NotFound
from hoptrio.ledger.model import RequestFilter

if TYPE_CHECKING:
    from hoptrio.control.office import Office
    from hoptrio.ledger.model import RequestRecord

__all__ = ["get_request", "list_requests"]


@operation("GET", "/api/requests", shapes.RequestPage, shapes.RequestPageOf, refuses=(NotFound,))
async def list_requests(office: Office, asked: shapes.RequestPage) -> shapes.RequestPageOf:
    """Search requests, newest first."""
    account = None if asked.account is None else await office.account(asked.account)
    where = RequestFilter(
        account_id=account.id if account else None,
        key_id=asked.key,
        protocol=asked.protocol,
        model=asked.model,
        channel=asked.channel,
        state=asked.state,
        reason=asked.reason,
        client_request_id=asked.client_request_id,
        since_ms=milliseconds(asked.since),
        until_ms=milliseconds(asked.until),
        before=_cursor(asked.before),
        # One more tells whether there is a next page.
        limit=asked.limit + 1,
    )
    found = await office.ledger.requests(where)
    names = await office.account_names()
    page = await in_turns(found[: asked.limit], lambda each: reports.request(each, office.currency, names))
    last = found[asked.limit - 1] if len(found) > asked.limit else None
    return shapes.RequestPageOf(requests=page, next=None if last is None else f"{last.created_at_ms}.{last.id}")


@operation("GET", "/api/requests/{id}", shapes.RequestId, shapes.RequestItem, refuses=(NotFound,))
async def get_request(office: Office, asked: shapes.RequestId) -> shapes.RequestItem:
    """Show a request with its timeline, evidence and settlement."""
    record = await office.ledger.request(asked.id)
    if record is None:
        raise NotFound(f"no request {asked.id}")
    if record.state == "running":
        record = await _with_timeline(office, record)
    account = await office.ledger.account(record.account_id)
    return reports.request(record, office.currency, {} if account is None else {account.id: account.name})


async def _with_timeline(office: Office, record: RequestRecord) -> RequestRecord:
    """What its worker knows of a stream that runs; the ledger is told at its end."""
    live = next((each for each in await office.figures.live() if each.id == record.id), None)
    return record if live is None else replace(record, channel=live.channel, timeline=tuple(live.timeline))


def _cursor(before: str | None) -> tuple[int, str] | None:
    if before is None:
        return None
    created_at_ms, _, request_id = before.partition(".")
    return int(created_at_ms), request_id
