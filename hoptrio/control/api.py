"""The JSON API: every operation, served at its place; and their description.

A path is matched as it was sent, so that a slash in a name (``%2F``) is part of the name. Parameters of a question are
strings and are read as what they should be; the body of a change is JSON and is read strictly.
"""

from __future__ import annotations

import json
from functools import cache, partial
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import msgspec
from starlette.responses import Response
from starlette.routing import Mount, Route, Router

from hoptrio import limits
from hoptrio.control.answers import json_answer, page
from hoptrio.control.metrics import CONTENT_TYPE, metrics
from hoptrio.control.openapi import describe
from hoptrio.control.operations import OPERATIONS
from hoptrio.errors import BadRequest, ServerFull

if TYPE_CHECKING:
    from collections.abc import Mapping

    import trio
    from starlette.requests import Request
    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp, Receive, Scope, Send

    from hoptrio.control.operation import Operation

__all__ = ["api_routes"]


def api_routes() -> list[BaseRoute]:
    """The API, its description and its reference page; and the metrics."""
    places: dict[str, dict[str, Operation[Any, Any]]] = {}
    for each in OPERATIONS:
        places.setdefault(each.path.removeprefix("/api"), {})[each.method] = each
    # One route for a path, whatever it takes, so that a refused method is told all of them.
    served: list[BaseRoute] = [
        Route(path, partial(_serve, there), methods=list(there)) for path, there in places.items()
    ]
    served += [Route("/openapi.json", _description), Route("/", _reference)]
    return [
        Route("/metrics", _metrics),
        Route("/api", _reference),
        Mount("/api", _AsSent(Router(served, redirect_slashes=False))),
    ]


class _AsSent:
    """Matches paths as they were sent, with their percent encoding."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        await self._app({**scope, "path": raw.decode("ascii", "replace")}, receive, send)


async def _serve(there: Mapping[str, Operation[Any, Any]], request: Request) -> Response:
    operation = there["GET" if request.method == "HEAD" else request.method]
    asked = _asked(operation, request, await request.body() if operation.changes else b"")
    if operation.changes:
        return json_answer(await operation.run(request.app.state.office, asked), operation.status)
    turns: trio.CapacityLimiter = request.app.state.turns
    if turns.statistics().tasks_waiting >= limits.CONTROL_QUESTIONS_WAITING_MAX:
        raise ServerFull("The control plane is asked as much as it may be.", retry_after_s=1)
    async with turns:
        return json_answer(await operation.run(request.app.state.office, asked), operation.status)


def _asked(operation: Operation[Any, Any], request: Request, body: bytes) -> Any:
    """What the request asks for. Raises BadRequest."""
    try:
        in_path = {name: unquote(value, errors="strict") for name, value in request.path_params.items()}
        if operation.changes:
            return _from_body(operation, in_path, body)
        return _from_query(operation, in_path, _query(request))
    except UnicodeDecodeError:
        raise BadRequest("The path is not UTF-8.") from None
    except msgspec.ValidationError as error:
        raise BadRequest(str(error)) from None


def _query(request: Request) -> dict[str, str]:
    names = [name for name, _ in request.query_params.multi_items()]
    if len(set(names)) < len(names):
        raise BadRequest("A parameter stands in the query twice.")
    return dict(request.query_params)


def _from_query(operation: Operation[Any, Any], in_path: dict[str, str], query: dict[str, str]) -> Any:
    asked = msgspec.convert({**query, **in_path}, operation.takes, strict=False)
    if nulls := [name for name in query if getattr(asked, name) is None]:
        # Leaving it out is how nothing is said; the word itself is a value, and not one of these.
        raise BadRequest(f"{', '.join(nulls)} cannot be null.")
    return asked


def _from_body(operation: Operation[Any, Any], in_path: dict[str, str], body: bytes) -> Any:
    try:
        members = msgspec.json.decode(body or b"{}")
        json.loads(body or b"{}", object_pairs_hook=_once)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BadRequest("The body is not JSON.") from None
    if not isinstance(members, dict):
        raise BadRequest("The body is not a JSON object.")
    if twice := members.keys() & in_path.keys():
        raise BadRequest(f"{', '.join(sorted(twice))} belongs into the path alone.")
    return msgspec.convert({**members, **in_path}, operation.takes)


def _once(members: list[tuple[str, Any]]) -> None:
    """Which of two would count is nowhere said (RFC 8259 section 4). Raises BadRequest."""
    if len({name for name, _ in members}) < len(members):
        raise BadRequest("A member stands in the body twice.")


@cache
def _described() -> bytes:
    return msgspec.json.encode(describe(OPERATIONS))


async def _description(request: Request) -> Response:
    return Response(_described(), media_type="application/json")


async def _metrics(request: Request) -> Response:
    return Response(await metrics(request.app.state.office), media_type=CONTENT_TYPE)


async def _reference(request: Request) -> Response:
    return page(request, "reference.html", description=describe(OPERATIONS))
