"""Handshake: whether a request may become a WebSocket, and what the library has to see of it.

The library is given a head of our own making with nothing of the client's but its key, since it cannot refuse one in a
way that its caller survives: everything it would find fault with is judged here, while a plain answer is possible.
"""

from __future__ import annotations

import binascii
from typing import TYPE_CHECKING

from hoptrio.errors import BadRequest, UpgradeRequired

if TYPE_CHECKING:
    from hoptrio.downstream.head import Head

__all__ = ["asks_upgrade", "check", "library_head"]

_VERSION = "13"
_KEY_BYTES = 16


class WrongVersion(UpgradeRequired):
    """Another version of the protocol (426), with the one that is spoken (RFC 6455 section 4.4)."""

    headers: tuple[tuple[str, str], ...] = (*UpgradeRequired.headers, ("sec-websocket-version", _VERSION))


def asks_upgrade(head: Head) -> bool:
    """Whether a request asks for WebSocket at all."""
    return "websocket" in _tokens(head, "upgrade")


def check(head: Head) -> None:
    """Raise BadRequest for a handshake that is none, UpgradeRequired for a version other than 13 (RFC 6455, 4.2.1)."""
    if head.http_version != b"1.1" or "upgrade" not in _tokens(head, "connection"):
        raise BadRequest("A WebSocket handshake needs HTTP/1.1 and 'Connection: Upgrade'.")
    if (head.header("sec-websocket-version") or "").strip() != _VERSION:
        raise WrongVersion("Only version 13 of WebSocket is spoken here.")
    if not _is_key(head.header("sec-websocket-key") or ""):
        raise BadRequest("A WebSocket handshake needs a Sec-WebSocket-Key of 16 bytes.")


def library_head(head: Head) -> bytes:
    """A handshake with the same key."""
    key = (head.header("sec-websocket-key") or "").strip().encode("ascii")
    return (
        b"GET / HTTP/1.1\r\nhost: gateway\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
        b"sec-websocket-version: 13\r\nsec-websocket-key: %b\r\n\r\n" % key
    )


def _tokens(head: Head, name: str) -> list[str]:
    return [token.strip().lower() for token in (head.header(name) or "").split(",")]


def _is_key(text: str) -> bool:
    try:
        return len(binascii.a2b_base64(text.strip().encode("ascii"), strict_mode=True)) == _KEY_BYTES
    except (binascii.Error, UnicodeEncodeError):
        return False
