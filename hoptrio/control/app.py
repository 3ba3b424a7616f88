"""The ASGI app: routes behind the guard, and what becomes of an error.

It does no work when it starts (hypercorn reports a failed start too late to be of use): everything it needs is built
before, and given to `make_app`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog
import trio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException

from hoptrio import errors, limits
from hoptrio.control.answers import refusal
from hoptrio.control.api import api_routes
from hoptrio.control.guard import Guard
from hoptrio.control.guesses import Guesses
from hoptrio.control.headers import SecurityHeaders
from hoptrio.control.pages import Login, routes

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

    from hoptrio.control.access import Access
    from hoptrio.control.office import Office

__all__ = ["make_app"]

log = structlog.get_logger("hoptrio.control")


def make_app(office: Office, access: Access) -> ASGIApp:
    """The app; a handler finds what it stands on as ``request.app.state.office``, and questions take
    turns by ``request.app.state.turns``."""
    guesses = Guesses(lambda: office.config.server.trusted_proxies)
    app = Starlette(
        routes=[*api_routes(), *routes(Login(access, guesses))],
        exception_handlers={errors.HoptrioError: _refused, HTTPException: _not_found, Exception: _failed},
    )
    app.state.office = office
    app.state.access = access
    app.state.turns = trio.CapacityLimiter(limits.CONTROL_QUESTIONS)
    return SecurityHeaders(Guard(app, access, guesses))


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, errors.HoptrioError)
    return refusal(request, error)


async def _not_found(request: Request, error: Exception) -> Response:
    """Starlette's own: no such path, or not with this method."""
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "GET").split(", ")
        return refusal(request, errors.MethodNotAllowed("The path does not take this method.", allowed))
    if error.status_code == 404:
        return refusal(request, errors.NotFound("There is nothing here.", code="unknown_path"))
    return refusal(request, errors.BadRequest("The request cannot be understood."))


async def _failed(request: Request, error: Exception) -> Response:
    """A bug of ours; no message of an exception is told or logged, since it may quote what was parsed."""
    log.error("control request failed", path=request.url.path, error=type(error).__name__, exc_info=error)
    return refusal(request, errors.Internal("The control plane failed to answer."))
