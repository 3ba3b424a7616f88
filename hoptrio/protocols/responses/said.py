"""What the model said in an event, or in a whole response: text, reasoning, names and arguments of tools."""

from __future__ import annotations

from typing import Any

from hoptrio.protocols.members import loads
from hoptrio.protocols.texts import Said, texts

__all__ = ["said"]

#: Deltas that are bytes in base64 and not words.
_BINARY = frozenset(("response.audio.delta", "response.output_audio.delta"))


def said(data: bytes) -> list[Said]:
    """By output item: its deltas, and the item itself when it is done, since some providers send nothing else."""
    value = loads(data)
    if not isinstance(value, dict):
        return []
    if isinstance(output := value.get("output"), list):
        return [Said(position, _item(item), whole=True) for position, item in enumerate(output)]
    index = value.get("output_index")
    group = index if isinstance(index, int) else 0
    if value.get("type") == "response.output_item.done":
        return [Said(group, _item(value.get("item")), whole=True)]
    if value.get("type") == "response.output_item.added":
        return [Said(group, _item(value.get("item")))]
    delta = value.get("delta")
    if isinstance(delta, str) and value.get("type") not in _BINARY:
        part = f"{value.get('type')}[{value.get('content_index', value.get('summary_index', 0))}]"
        return [Said(group, [(part, delta)])]
    return []


def _item(item: Any) -> list[tuple[str, str]]:
    """An item that hosted tools made holds their results, which no model wrote."""
    if not isinstance(item, dict):
        return []
    return list(texts({name: member for name, member in item.items() if name != "output"}))
