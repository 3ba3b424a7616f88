"""What the model said in a chunk, or in a whole completion: text, reasoning, refusals, names and arguments of tools."""

from __future__ import annotations

from typing import Any

from hoptrio.protocols.members import loads
from hoptrio.protocols.texts import Said, texts

__all__ = ["said"]


def said(data: bytes) -> list[Said]:
    """By choice; a ``message`` in the place of a delta is all of its choice."""
    value = loads(data)
    choices = value.get("choices") if isinstance(value, dict) else None
    if not isinstance(choices, list):
        return []
    return [_choice(position, choice) for position, choice in enumerate(choices) if isinstance(choice, dict)]


def _choice(position: int, choice: dict[str, Any]) -> Said:
    index = choice.get("index")
    group = index if isinstance(index, int) else position
    if delta := choice.get("delta"):
        return Said(group, list(texts(delta)))
    return Said(group, list(texts(choice.get("message"))), whole=True)
