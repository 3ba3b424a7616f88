"""The ledger: its entries, the open holds, and the audit, which is run when somebody asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import trio
from starlette.routing import Route

from hoptrio import errors
from hoptrio.control.answers import page
from hoptrio.control.dashboard.forms import text
from hoptrio.control.dashboard.names import account_id_of, names_of

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from hoptrio.control.office import Office
    from hoptrio.ledger.audit import AuditReport
    from hoptrio.ledger.model import Entry

__all__ = ["ROUTES"]

PAGE_ROWS = 50
HOLDS_SHOWN = 20


async def show(request: Request) -> Response:
    """Entries, newest first, and the open holds, oldest first."""
    return await _page(request, report=None, took_s=0.0)


async def audit(request: Request) -> Response:
    """The audit's verdict."""
    office: Office = request.app.state.office
    began = trio.current_time()
    report = await office.ledger.audit()
    return await _page(request, report=report, took_s=trio.current_time() - began)


async def _page(request: Request, *, report: AuditReport | None, took_s: float) -> Response:
    office: Office = request.app.state.office
    account = text(request.query_params, "account")
    before = _before(request.query_params.get("before", ""))
    problem = ""
    entries: list[Entry] = []
    try:
        account_id = await account_id_of(office, account)
        entries = await office.ledger.last_entries(account_id, before_seq=before, limit=PAGE_ROWS + 1)
    except ValueError as error:
        problem = str(error)
    holds = sorted(await office.ledger.open_holds(), key=lambda hold: hold.created_at_ms)
    shown = entries[:PAGE_ROWS]
    named = [*(entry.account_id for entry in shown), *(hold.account_id for hold in holds[:HOLDS_SHOWN])]
    return page(
        request,
        "ledger.html",
        status=422 if problem else 200,
        problem=problem,
        accounts=await names_of(request, named),
        asked_account=account,
        entries=shown,
        newest=_link(account=account) if before is not None else "",
        older=_link(account=account, before=shown[-1].seq) if len(entries) > PAGE_ROWS else "",
        holds=holds[:HOLDS_SHOWN],
        open_holds=len(holds),
        held_nanos=sum(hold.amount_nanos for hold in holds),
        currency=office.currency,
        now_ms=office.ledger.now_ms(),
        report=report,
        took_s=took_s,
    )


def _before(given: str) -> int | None:
    if not given:
        return None
    if not (given.isascii() and given.isdecimal()) or not 0 < int(given[:20]) < 2**63:
        raise errors.BadRequest("before is the number of an entry.", param="before")
    return int(given)


def _link(**query: Any) -> str:
    said = urlencode({name: value for name, value in query.items() if value != ""})
    return "/ledger" + (f"?{said}" if said else "")


ROUTES = (
    Route("/ledger", show, methods=["GET"]),
    Route("/ledger/audit", audit, methods=["POST"]),
)
