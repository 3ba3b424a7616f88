"""Requests: the search, and one request with its timeline."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import msgspec
from starlette.routing import Route

from hoptrio import errors
from hoptrio.contract import Reason
from hoptrio.control.answers import page
from hoptrio.control.dashboard.forms import at_ms, text
from hoptrio.control.dashboard.live import follow
from hoptrio.control.dashboard.names import account_id_of, names_of
from hoptrio.control.dashboard.timeline import draw
from hoptrio.control.dashboard.words import failure_words
from hoptrio.ledger.model import RequestFilter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.requests import Request
    from starlette.responses import Response

    from hoptrio.control.office import Office
    from hoptrio.ledger.model import RequestRecord

__all__ = ["ROUTES"]

PAGE_ROWS = 50
#: For a desktop and for a phone: a drawing that is scaled down has text that nobody reads.
_WIDTHS = {"wide": 1000, "narrow": 360}
_STATES = ("running", "captured", "released", "refused")
#: How the choice of an outcome reads; a reason stands for requests that ended by it, whoever paid.
_OUTCOMES = [*((state, state) for state in _STATES), *((reason.value, failure_words(reason)) for reason in Reason)]
_FIELDS = ("id", "account", "key", "model", "channel", "outcome", "since", "until")


async def search(request: Request) -> Response:
    """Requests that match the form, newest first."""
    office: Office = request.app.state.office
    asked = {name: text(request.query_params, name) for name in _FIELDS}
    problem = ""
    found: list[RequestRecord] = []
    before = text(request.query_params, "before")
    try:
        found = await _find(office, asked, before)
    except ValueError as error:
        problem = str(error)
    shown = found[:PAGE_ROWS]
    older = "" if len(found) <= PAGE_ROWS else _link(asked, before=f"{shown[-1].created_at_ms},{shown[-1].id}")
    return page(
        request,
        "requests.html",
        status=422 if problem else 200,
        asked=asked,
        problem=problem,
        records=shown,
        older=older,
        newest=_link(asked) if before else "",
        accounts=await names_of(request, (record.account_id for record in shown)),
        channels=sorted(office.config.catalogue.channels),
        models=sorted(office.config.catalogue.models),
        outcomes=_OUTCOMES,
    )


async def _find(office: Office, asked: Mapping[str, str], before: str) -> list[RequestRecord]:
    """One more than a page has, if there are so many. Raises ValueError for what cannot be read."""
    if asked["id"]:
        record = await office.ledger.request(asked["id"])
        if record is not None:
            return [record]
    outcome = asked["outcome"]
    where = RequestFilter(
        client_request_id=asked["id"] or None,
        account_id=await account_id_of(office, asked["account"]),
        key_id=asked["key"] or None,
        model=asked["model"] or None,
        channel=asked["channel"] or None,
        state=outcome if outcome in _STATES else None,
        reason=None if outcome in _STATES else outcome or None,
        since_ms=at_ms(asked, "since", "Since"),
        until_ms=at_ms(asked, "until", "Until"),
        before=_place(before),
        limit=PAGE_ROWS + 1,
    )
    return await office.ledger.requests(where)


def _place(before: str) -> tuple[int, str] | None:
    """Where the last page ended. Raises ValueError."""
    created, comma, request_id = before.partition(",")
    if not before:
        return None
    if not comma or not (created.isascii() and created.isdecimal()) or int(created[:20]) >= 2**63:
        raise ValueError("there is no such page")
    return int(created), request_id


def _link(asked: Mapping[str, str], **more: str) -> str:
    query = urlencode({name: value for name, value in {**asked, **more}.items() if value})
    return "/requests" + (f"?{query}" if query else "")


async def show(request: Request) -> Response:
    """One request; while it runs the page follows it."""
    values = await _values(request)
    url = f"/requests/{values['record'].id}/live" if values["record"].state == "running" else ""
    return page(request, "request.html", live_url=url, **values)


async def live(request: Request) -> Response:
    """The same as it changes, until it is settled."""
    return await follow(request, "request_now.html", partial(_values, request), shared=True)


async def _values(request: Request) -> dict[str, Any]:
    office: Office = request.app.state.office
    record = await office.ledger.request(request.path_params["id"])
    if record is None:
        raise errors.NotFound("There is no such request.")
    account = await office.ledger.account(record.account_id)
    hold = await office.ledger.hold("hold_" + record.id.removeprefix("req_"))
    running = record.state == "running"
    timeline = await _timeline_so_far(office, record) if running else record.timeline
    settled_at = None if hold is None else hold.resolved_at_ms
    how: dict[str, Any] = {
        # Two clocks: by the gateway's, nothing settles before its stream is over.
        "settled": None
        if settled_at is None
        else (max(settled_at - record.created_at_ms, _last_ms(record)), record.state),
        "running_ms": office.ledger.now_ms() - record.created_at_ms if running else None,
    }
    return {
        "record": record,
        "account": record.account_id if account is None else account.name,
        "usage": msgspec.json.decode(record.usage) if record.usage else {},
        "drawings": {name: draw(timeline, width=width, **how) for name, width in _WIDTHS.items()},
        "currency": office.currency,
        "over": not running,
    }


async def _timeline_so_far(office: Office, record: RequestRecord) -> Sequence[tuple[int, str]]:
    """Of a request that runs: the worker that has it tells; another machine's do not."""
    streams = await office.figures.live()
    return next((stream.timeline for stream in streams if stream.id == record.id), record.timeline or ((0, "held"),))


def _last_ms(record: RequestRecord) -> int:
    return max((at for at, _ in record.timeline), default=0)


ROUTES = (
    Route("/requests", search, methods=["GET"]),
    Route("/requests/{id}", show, methods=["GET"]),
    Route("/requests/{id}/live", live, methods=["GET"]),
)
