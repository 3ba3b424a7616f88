"""What a probe asks: one short answer, as a client would ask for it in each protocol. Pure.

The output limit leaves a reasoning model room to think about so little; one that uses it all up ends with a terminal
and usage as well. In Chat the limit has two spellings, and each is refused somewhere: they are tried one after the
other, and last none at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from hoptrio.limits import PROBE_OUTPUT_TOKENS
from hoptrio.protocols.events import Protocol

if TYPE_CHECKING:
    from hoptrio.protocols.events import Call
    from hoptrio.protocols.rules import Rules

__all__ = ["calls"]

_PROMPT = "Reply with the word: ready"
_MESSAGES = [{"role": "user", "content": _PROMPT}]
_LIMITS: tuple[dict[str, Any], ...] = (
    {"max_completion_tokens": PROBE_OUTPUT_TOKENS},
    {"max_tokens": PROBE_OUTPUT_TOKENS},
    {},
)


def calls(rules: Rules, model: str) -> list[Call]:
    """The calls to try, until one is not refused for its shape."""
    return [
        rules.parse(_path(rules.protocol, model), {"alt": "sse"}, {}, msgspec.json.encode(body))
        for body in _bodies(rules.protocol, model)
    ]


def _path(protocol: Protocol, model: str) -> str:
    """Only Gemini's path says something: the model."""
    return f"/v1beta/models/{model}:streamGenerateContent" if protocol is Protocol.GEMINI else ""


def _bodies(protocol: Protocol, model: str) -> list[dict[str, Any]]:
    if protocol is Protocol.GEMINI:
        contents = [{"role": "user", "parts": [{"text": _PROMPT}]}]
        return [{"contents": contents, "generationConfig": {"maxOutputTokens": PROBE_OUTPUT_TOKENS}}]
    head = {"model": model, "stream": True}
    if protocol is Protocol.RESPONSES:
        return [{**head, "input": _PROMPT, "max_output_tokens": PROBE_OUTPUT_TOKENS}]
    if protocol is Protocol.MESSAGES:
        return [{**head, "messages": _MESSAGES, "max_tokens": PROBE_OUTPUT_TOKENS}]
    return [{**head, "messages": _MESSAGES, **limit} for limit in _LIMITS]
