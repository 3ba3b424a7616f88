"""Security headers on every answer: no script but our own files, no frame, no guessed types, no referrer for others.

A page that must reach another origin (the playground calls the data plane) sets a policy of its own: `policy`.

There is no Strict-Transport-Security, with TLS either: it would hold for every port of the host (RFC 6797 8.3), and
keep browsers from a data plane that speaks plain HTTP, as behind a proxy, for as long as it lasts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.datastructures import MutableHeaders

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["SecurityHeaders", "policy"]


def policy(*, connect: Sequence[str] = ()) -> str:
    """A Content-Security-Policy (W3C CSP 3) without inline script or style; `connect` are further origins that the
    page's scripts may call."""
    reachable = " ".join(("'self'", *connect))
    return (
        f"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src {reachable};"
        " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )


_HEADERS = {
    "content-security-policy": policy(),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # Not `no-referrer`: a form of ours would then be sent with an Origin of null, and be refused.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


class SecurityHeaders:
    """ASGI middleware, the outermost: answers of a failure have them, too."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def secured(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, secured)
