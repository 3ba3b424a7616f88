"""CORS (WHATWG Fetch): browsers may call the gateway, and may read the headers a caller needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["allow", "preflight"]

#: Interface page: what a script may read besides the safelisted headers.
EXPOSED = b"X-Request-Id, Request-Id, Retry-After"
PREFLIGHT_MAX_AGE_S = 7200  # Chromium caps it at two hours


def allow(headers: Mapping[str, str], origins: Sequence[str]) -> list[tuple[bytes, bytes]]:
    """Headers for an answer to a cross-origin request; none if there is no Origin or it is not allowed."""
    origin = headers.get("origin")
    if origin is None:
        return []
    if "*" in origins:
        return [(b"access-control-allow-origin", b"*"), (b"access-control-expose-headers", EXPOSED)]
    if origin not in origins:
        return [(b"vary", b"Origin")]
    return [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-expose-headers", EXPOSED),
        (b"vary", b"Origin"),
    ]


def preflight(headers: Mapping[str, str], origins: Sequence[str]) -> list[tuple[bytes, bytes]]:
    """Headers for the 204 that answers a preflight: the headers that were asked for are allowed."""
    allowed = allow(headers, origins)
    if not any(name == b"access-control-allow-origin" for name, _ in allowed):
        return allowed
    asked = headers.get("access-control-request-headers", "")
    return [
        *allowed,
        (b"access-control-allow-methods", b"GET, POST, HEAD, OPTIONS"),
        (b"access-control-allow-headers", asked.encode("latin-1") or b"authorization, content-type"),
        (b"access-control-max-age", b"%d" % PREFLIGHT_MAX_AGE_S),
    ]
