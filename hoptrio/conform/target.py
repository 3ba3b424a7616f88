"""Target: the gateway under test: where it is, its key, and its models' names. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

if TYPE_CHECKING:
    from hoptrio.protocols.events import Protocol

__all__ = ["DEFAULT_MODEL", "Target", "TargetError", "target_at"]

#: A model for each protocol of a channel, so that a case can ask for a conversion.
DEFAULT_MODEL = "conform-{protocol}"
_PLACE = "{protocol}"


class TargetError(ValueError):
    """It is no address of a gateway; the message says why."""


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """`base` stands before the paths of every protocol."""

    host: str
    port: int
    tls: bool
    base: str
    key: str
    model: str = DEFAULT_MODEL

    def model_for(self, protocol: Protocol) -> str:
        """The model whose channel speaks `protocol`."""
        return self.model.replace(_PLACE, protocol.value)

    @property
    def converts(self) -> bool:
        """Whether a client can ask for a model on a channel of another protocol."""
        return _PLACE in self.model

    @property
    def address(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def target_at(url: str, *, key: str, model: str = DEFAULT_MODEL) -> Target:
    """The gateway at `url`, with or without a trailing ``/v1``. Raises TargetError."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise TargetError(f"{url!r} is not a URL such as http://127.0.0.1:8080")
    if not key.isascii() or any(each <= " " for each in key):
        raise TargetError("the key has characters that no header can carry")
    tls = parts.scheme == "https"
    return Target(
        host=parts.hostname,
        port=port or (443 if tls else 80),
        tls=tls,
        base=parts.path.rstrip("/").removesuffix("/v1"),
        key=key,
        model=model,
    )
