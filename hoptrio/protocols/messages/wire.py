"""Bytes of the Messages protocol that are not events of a provider: keep-alive, the models list. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from hoptrio.protocols.events import Framing
from hoptrio.protocols.sse import KEEPALIVE

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["keepalive", "models_body"]


def keepalive(framing: Framing, headers: Mapping[str, str]) -> bytes:
    """A comment with its own blank line (contract, "Keep-alive bytes"); nothing where the answer is one JSON body.

    Never a forged ``ping``: those hide a hang from people and do not reset the watchdogs of agents (cases 4).
    """
    return KEEPALIVE if framing is Framing.SSE else b""


def models_body(models: list[dict[str, Any]], one: bool) -> bytes:
    """Anthropic's list (``data``, ``has_more``, ``first_id``, ``last_id``), or one model.

    Each of `models` has ``id``, and may have ``created`` (Unix seconds), ``max_input_tokens``, ``max_output_tokens``.
    """
    shown = [_model(model) for model in models]
    if one:
        return msgspec.json.encode(shown[0])
    ids = [model["id"] for model in models]
    page = {"data": shown, "has_more": False, "first_id": ids[0] if ids else None, "last_id": ids[-1] if ids else None}
    return msgspec.json.encode(page)


def _model(model: dict[str, Any]) -> dict[str, Any]:
    created = datetime.fromtimestamp(model.get("created") or 0, UTC)
    return {
        "type": "model",
        "id": model["id"],
        "display_name": model["id"],
        "created_at": f"{created:%Y-%m-%dT%H:%M:%SZ}",
        "lifecycle": "active",
        "max_input_tokens": model.get("max_input_tokens"),
        "max_tokens": model.get("max_output_tokens"),
    }
