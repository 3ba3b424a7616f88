"""The pages for people, server-rendered: the way in and out, and what `ROUTES` names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from hoptrio import limits
from hoptrio.control.access import SESSION_COOKIE
from hoptrio.control.answers import page
from hoptrio.control.dashboard.routes import ROUTES as DASHBOARD

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.routing import BaseRoute

    from hoptrio.control.access import Access
    from hoptrio.control.guesses import Guesses

__all__ = ["Login", "routes"]


def routes(login: Login) -> list[BaseRoute]:
    """Every page."""
    return [
        Route("/login", login.show, methods=["GET"]),
        Route("/login", login.enter, methods=["POST"]),
        Route("/logout", login.leave, methods=["POST"]),
        *DASHBOARD,
        Mount("/static", StaticFiles(packages=[("hoptrio.control", "static")])),
    ]


class Login:
    """Opens and ends sessions."""

    def __init__(self, access: Access, guesses: Guesses) -> None:
        self._access = access
        self._guesses = guesses

    async def show(self, request: Request) -> Response:
        """The form."""
        return page(request, "login.html", next=_inside(request.query_params.get("next")), failed=False)

    async def enter(self, request: Request) -> Response:
        """The token was given: a session, or the form again."""
        form = request.state.form
        to = _inside(form.get("next"))
        if not self._access.is_token(form.get("token", "")):
            self._guesses.wrong(request)
            return page(request, "login.html", status=401, next=to, failed=True)
        answer = RedirectResponse(to, status_code=303)
        answer.set_cookie(
            SESSION_COOKIE,
            self._access.open_session(),
            max_age=limits.SESSION_S,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return answer

    async def leave(self, request: Request) -> Response:
        """End the session, here and on every worker, and forget the cookie."""
        if request.state.session is not None:
            self._access.close_session(request.state.session)
        answer = RedirectResponse("/login", status_code=303)
        secure = request.url.scheme == "https"
        answer.delete_cookie(SESSION_COOKIE, httponly=True, samesite="strict", secure=secure)
        return answer


def _inside(to: str | None) -> str:
    """Where to go after the login: a path of ours, never another origin."""
    if to is None or not to.startswith("/") or to.startswith(("//", "/\\")) or not to.isprintable():
        return "/"
    return to
