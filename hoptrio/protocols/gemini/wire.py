"""Bytes of the Gemini protocol that are not events of a provider: keep-alive, the models list. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from hoptrio.protocols.events import Framing

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["keepalive", "models_body"]

#: Google's client libraries name themselves in either header.
_AGENT_HEADERS = ("x-goog-api-client", "user-agent")


def keepalive(framing: Framing, headers: Mapping[str, str]) -> bytes:
    """A bare blank line between events, or white space between elements of the array.

    Never a comment: official clients fail on it, or lose the next event (cases 2; protocols page 1.1). The first
    generation of the JavaScript client fails even on a blank line and gets nothing. Header names are lower-case.
    """
    if framing is Framing.JSON or (framing is Framing.SSE and _fails_on_blank_lines(headers)):
        return b""
    return b"\n"


def models_body(models: list[dict[str, Any]], one: bool) -> bytes:
    """Google's list (``models``), or one model.

    Each of `models` has ``id``, and may have ``max_input_tokens`` and ``max_output_tokens``.
    """
    shown = [_model(model) for model in models]
    return msgspec.json.encode(shown[0] if one else {"models": shown})


def _fails_on_blank_lines(headers: Mapping[str, str]) -> bool:
    agents = (headers.get(name, "") for name in _AGENT_HEADERS)
    return any("google-genai-sdk/1." in agent and "gl-node" in agent for agent in agents)


def _model(model: dict[str, Any]) -> dict[str, Any]:
    limits = {"inputTokenLimit": model.get("max_input_tokens"), "outputTokenLimit": model.get("max_output_tokens")}
    return {
        "name": f"models/{model['id']}",
        "version": model["id"],
        "displayName": model["id"],
        **{name: limit for name, limit in limits.items() if limit is not None},
        "supportedGenerationMethods": ["generateContent", "streamGenerateContent", "countTokens"],
    }
