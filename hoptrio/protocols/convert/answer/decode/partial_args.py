"""Gemini's streamed function arguments: values by JSON path, strings in pieces (protocols page 7.2). Pure."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["put"]

_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d{1,4})\]")
_VALUES = ("stringValue", "numberValue", "boolValue", "nullValue")


def put(args: dict[str, Any], piece: Any) -> None:
    """Set one value at its path, or append to the string there. A piece of an unknown make is passed over."""
    path = piece.get("jsonPath") if isinstance(piece, dict) else None
    name = next((each for each in _VALUES if isinstance(piece, dict) and each in piece), None)
    if not isinstance(path, str) or name is None:
        return
    steps: list[Any] = [key or int(at) for key, at in _STEP.findall(path.removeprefix("$"))]
    holder: Any = args
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        if not _fits(holder, step):
            return
        if following is None:
            _assign(holder, step, None if name == "nullValue" else piece[name])
        elif _at(holder, step) is None:
            _assign(holder, step, [] if isinstance(following, int) else {})
        holder = _at(holder, step)


def _fits(holder: Any, step: Any) -> bool:
    return isinstance(holder, list) if isinstance(step, int) else isinstance(holder, dict)


def _at(holder: Any, step: Any) -> Any:
    if isinstance(step, int):
        return holder[step] if step < len(holder) else None
    return holder.get(step)


def _assign(holder: Any, step: Any, value: Any) -> None:
    before = _at(holder, step)
    if isinstance(before, str) and isinstance(value, str):
        value = before + value
    if isinstance(step, int):
        holder.extend([None] * (step + 1 - len(holder)))
    holder[step] = value
