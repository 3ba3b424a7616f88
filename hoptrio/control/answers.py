"""How answers look: JSON with a code for programs, pages for people."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse, Response

from hoptrio import __version__, limits
from hoptrio.control.dashboard.words import FILTERS

if TYPE_CHECKING:
    from starlette.requests import Request

    from hoptrio.errors import HoptrioError

__all__ = ["error_answer", "for_programs", "json_answer", "page", "refusal", "templates"]


@cache
def templates() -> Environment:
    """The package's templates; everything in them is escaped, and a name that is not there is an error."""
    environment = Environment(
        loader=PackageLoader("hoptrio.control"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(FILTERS)
    return environment


def page(request: Request, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """A page for people. Each knows its `session` (None before the login), `path` and `version`."""
    known = {"session": request.state.session, "path": request.url.path, "version": __version__}
    body = templates().get_template(template).render(known | values)
    # Balances and outputs of other people's requests are in there: no cache keeps them.
    return HTMLResponse(body, status_code=status, headers={"cache-control": "no-store"})


def json_answer(value: Any, status: int = 200) -> Response:
    """A JSON answer of anything msgspec encodes."""
    body = msgspec.json.encode(value)
    return Response(body, status, {"cache-control": "no-store"}, media_type="application/json")


def error_answer(error: HoptrioError) -> Response:
    """A refusal for programs: ``{"error": {"code": ..., "message": ...}}``."""
    answer = json_answer({"error": {"code": error.code, "message": error.message}}, error.status)
    return _with_headers(answer, error)


def refusal(request: Request, error: HoptrioError) -> Response:
    """A refusal for whoever asked."""
    if for_programs(request):
        return error_answer(error)
    return _with_headers(page(request, "error.html", status=error.status, error=error), error)


def _with_headers(answer: Response, error: HoptrioError) -> Response:
    answer.headers.update(dict(error.headers))
    if error.retry_after_s is not None:
        answer.headers["retry-after"] = str(min(error.retry_after_s, limits.RETRY_AFTER_MAX_S))
    return answer


def for_programs(request: Request) -> bool:
    """The path is one of the API's, or the caller takes no HTML."""
    path = request.url.path
    return path.startswith(("/api/", "/metrics")) or "text/html" not in request.headers.get("accept", "")
