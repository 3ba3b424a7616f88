"""Small bytes of the OpenAI surface that are neither an answer nor an error: keep-alive and the list of models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from hoptrio.protocols.events import Framing
from hoptrio.protocols.sse import KEEPALIVE

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["keepalive", "models_body"]


def keepalive(framing: Framing, headers: Mapping[str, str]) -> bytes:
    """A comment, which every OpenAI SDK ignores between two events; nothing for an answer that does not stream."""
    return KEEPALIVE if framing is Framing.SSE else b""


def models_body(models: list[dict[str, Any]], one: bool) -> bytes:
    """``GET /v1/models`` and, if `one`, ``GET /v1/models/{id}``. Each of `models` has ``id`` and may have ``created``
    (Unix seconds) and ``owned_by``."""
    data = [
        {
            "id": model["id"],
            "object": "model",
            "created": model.get("created", 0),
            "owned_by": model.get("owned_by", "hoptrio"),
        }
        for model in models
    ]
    return msgspec.json.encode(data[0] if one else {"object": "list", "data": data})
