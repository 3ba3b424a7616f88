"""In front of every route: who asks, whether a page of ours made the request, how large it is, how many there are.

Nothing behind it is reached by a stranger but what `OPEN` names. It reads the body of a change itself, whole and
bounded, since a form's CSRF token is in there: no handler can forget to look. Every refusal is JSON with a code for
programs, and for people a page, or the way to the login.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qs, quote

import trio
from starlette.requests import Request
from starlette.responses import RedirectResponse

from hoptrio import errors, limits
from hoptrio.control.access import CSRF_FIELD, CSRF_HEADER, from_elsewhere, is_csrf_token
from hoptrio.control.answers import for_programs, refusal

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from hoptrio.control.access import Access, Session
    from hoptrio.control.guesses import Guesses

__all__ = ["FORM", "OPEN", "Guard"]

#: What needs no login: the way in, and the looks of it.
OPEN = ("/login", "/static/")
FORM = "application/x-www-form-urlencoded"
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


class Guard:
    """ASGI middleware. Behind it ``request.state.session`` is the person's session, None for a program, and of a change
    ``request.state.form`` has the fields."""

    def __init__(self, app: ASGIApp, access: Access, guesses: Guesses) -> None:
        self._app = app
        self._access = access
        self._guesses = guesses
        self._running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        self._running += 1
        try:
            await self._pass(scope, receive, send)
        finally:
            self._running -= 1

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        session = self._access.session(request)
        request.state.session = session
        bearer = self._access.bearer(request)
        try:
            if self._running > limits.CONTROL_REQUESTS_MAX:
                raise errors.ServerFull("The control plane answers as many requests as it may.", retry_after_s=1)
            if not bearer and (bearer is False or session is None) and not request.url.path.startswith(OPEN):
                if bearer is False:
                    self._guesses.wrong(request)
                raise errors.InvalidKey("The control token is needed.")
            if bearer:
                request.state.session = None
            if request.method not in _SAFE:
                body = await _read(receive)
                request.state.form = _form(request, body)
                if not bearer:
                    _check_origin(request, session)
                receive = _replayed(body, receive)
        except errors.HoptrioError as error:
            await _refuse(request, error)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _check_origin(request: Request, session: Session | None) -> None:
    """Raise for a change that no page of ours made. Without a session (the login) the browser's word must do."""
    if from_elsewhere(request):
        raise errors.Forged("The request was made by a page of another origin.")
    if session is None or request.url.path.startswith(OPEN):
        return
    given = request.headers.get(CSRF_HEADER) or request.state.form.get(CSRF_FIELD, "")
    if not is_csrf_token(session, given):
        raise errors.Forged("The CSRF token is missing or is another session's.")


def _form(request: Request, body: bytes) -> dict[str, str]:
    """The fields of a form, of each the first; empty for any other body. Raises BadRequest."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM:
        return {}
    try:
        fields = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=limits.CONTROL_FIELDS_MAX)
    except ValueError:
        raise errors.BadRequest("The form cannot be understood.") from None
    return {name: values[0] for name, values in fields.items()}


async def _read(receive: Receive) -> bytes:
    """The whole body. Raises BodyTooLarge, BodyTooSlow."""
    body = bytearray()
    with trio.move_on_after(limits.CONTROL_BODY_S):
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise errors.BadRequest("The request's body did not arrive.")
            body += message.get("body", b"")
            if len(body) > limits.CONTROL_BODY_BYTES_MAX:
                raise errors.BodyTooLarge(f"A body has at most {limits.CONTROL_BODY_BYTES_MAX} bytes here.")
            if not message.get("more_body", False):
                return bytes(body)
    raise errors.BodyTooSlow("The request's body did not arrive in time.")


def _replayed(body: bytes, receive: Receive) -> Receive:
    """What a handler receives from: the body, then whatever comes."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return waiting.pop() if waiting else await receive()

    return replay


def _refuse(request: Request, error: errors.HoptrioError) -> ASGIApp:
    lost = isinstance(error, errors.InvalidKey) and not for_programs(request) and request.method in _SAFE
    if not lost:
        return refusal(request, error)
    here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return RedirectResponse(f"/login?next={quote(here, safe='')}", status_code=303)
