"""Small pieces that several encoders write the same way. Pure."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from hoptrio.protocols.convert.request.conversation import INSTRUCTING, Text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hoptrio.protocols.convert.request.conversation import Conversation, Part, ToolResult

__all__ = ["EMPTY_SCHEMA", "PARAGRAPH", "error_text", "instructions", "joined", "present", "user_id"]

#: The schema of a tool without arguments, where a channel wants one.
EMPTY_SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}
#: What stands between two texts of a turn.
PARAGRAPH = "\n\n"


def present(**members: Any) -> dict[str, Any]:
    """The members that say something."""
    return {name: value for name, value in members.items() if value is not None and value != "" and value != ()}


def joined(parts: Iterable[Part]) -> str:
    """All text of some parts, as paragraphs."""
    return PARAGRAPH.join(part.text for part in parts if type(part) is Text and part.text)


def instructions(conversation: Conversation) -> list[str]:
    """Every text that the model is to obey, in order, wherever it stood."""
    return [
        part.text
        for turn in conversation.turns
        if turn.role in INSTRUCTING
        for part in turn.parts
        if type(part) is Text and part.text.strip()
    ]


def error_text(result: ToolResult) -> str:
    """A tool result's text where the protocol cannot mark it as an error."""
    text = joined(result.parts)
    return f"Error: {text}" if result.error else text


def user_id(user: str, chars_max: int) -> str:
    """An end user's id, or a hash of one that is too long (Claude Code's is a JSON text)."""
    return user if len(user) <= chars_max else hashlib.sha256(user.encode()).hexdigest()
