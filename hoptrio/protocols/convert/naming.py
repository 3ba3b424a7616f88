"""Names and ids that one protocol takes and another does not, rewritten the same way wherever they occur. Pure.

A tool of a Responses namespace becomes the function ``namespace__name``, a free-form (custom) tool a function of one
string, and what violates a provider's pattern gets a deterministic substitute. `names_by_join` is the way back: what
the channel calls a tool -> what the client calls it. Ids need none: an answer's ids are new to the client either way.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["CUSTOM_FIELD", "ToolName", "call_id", "joined_name", "names_by_join"]

#: The one field of the function that a custom tool is wrapped as.
CUSTOM_FIELD = "input"
#: What all take: OpenAI 64 of these, Anthropic 128, Gemini a letter or underscore first (protocols page 9.5).
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", re.ASCII)
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_OUTSIDE = re.compile(r"[^A-Za-z0-9_-]", re.ASCII)
_CHARS_MAX = 64


class ToolName(NamedTuple):
    """What the client calls a tool, and whether it is one of free-form input."""

    name: str
    namespace: str = ""
    custom: bool = False


def joined_name(name: str, namespace: str = "") -> str:
    """The name towards a channel: ``name``, or ``namespace__name``, where all providers take it."""
    joined = f"{namespace}__{name}" if namespace else name
    if _NAME.fullmatch(joined):
        return joined
    return _substitute(joined, lead="t_")


def call_id(value: str) -> str:
    """A tool call's id towards a channel: itself where all providers take it, else a substitute."""
    return value if _ID.fullmatch(value) else _substitute(value, lead="call_")


def _substitute(value: str, *, lead: str) -> str:
    """Readable, within the pattern, and different for different values."""
    digest = hashlib.blake2b(value.encode(), digest_size=8).hexdigest()
    kept = _OUTSIDE.sub("_", value[:_CHARS_MAX])[: _CHARS_MAX - len(lead) - len(digest) - 1]
    return f"{lead}{kept}_{digest}"


def names_by_join(names: Iterable[ToolName]) -> dict[str, ToolName]:
    """Every tool by the name that a channel has for it; of two with one name the first counts."""
    table: dict[str, ToolName] = {}
    for each in names:
        table.setdefault(joined_name(each.name, each.namespace), each)
    return table
