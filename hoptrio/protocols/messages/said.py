"""What the model said in an event, or in a whole message: text, thinking, names and arguments of tools."""

from __future__ import annotations

from hoptrio.protocols.members import loads
from hoptrio.protocols.texts import Said, texts

__all__ = ["said"]

#: Beside every block: what ``message_start`` and whole answers hold.
_MESSAGE = -1


def said(data: bytes) -> list[Said]:
    """By content block."""
    value = loads(data)
    if not isinstance(value, dict):
        return []
    if value.get("type") == "message":
        return [Said(_MESSAGE, list(texts(value.get("content"))))]
    if value.get("type") == "message_start":
        return [Said(_MESSAGE, list(texts(value.get("message"))))]
    index = value.get("index")
    pieces = [*texts(value.get("content_block")), *texts(value.get("delta"))]
    return [Said(index if isinstance(index, int) else 0, pieces)] if pieces else []
