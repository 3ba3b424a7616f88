"""What the model said in a chunk or a whole answer: text, thoughts, code, names and arguments of functions."""

from __future__ import annotations

from hoptrio.protocols.members import loads
from hoptrio.protocols.texts import Said, texts

__all__ = ["said"]


def said(data: bytes) -> list[Said]:
    """By candidate; every chunk continues it."""
    value = loads(data)
    candidates = value.get("candidates") if isinstance(value, dict) else None
    if not isinstance(candidates, list):
        return []
    found = []
    for position, candidate in enumerate(candidates):
        if isinstance(candidate, dict):
            index = candidate.get("index")
            pieces = list(texts(candidate.get("content")))
            found.append(Said(index if isinstance(index, int) else position, pieces))
    return found
