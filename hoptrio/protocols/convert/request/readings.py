"""Small readings of one parameter each that several protocols have in common. Pure."""

from __future__ import annotations

from typing import Any

from hoptrio.errors import BadRequest
from hoptrio.protocols import fields
from hoptrio.protocols.convert.request.conversation import Choice, Mode

__all__ = ["grammar_of", "mode_of", "nonzero", "serial_of", "several", "stop_of", "tier_of", "user_of"]

_MODES = {mode.value: mode for mode in Mode}
#: What OpenAI and Anthropic call the price without any choice.
_STANDARD = ("default", "standard", "standard_only")


def nonzero(body: dict[str, Any], name: str, param: str = "") -> float | None:
    """A penalty; 0 is what an absent one is."""
    return fields.number(body, name, param) or None


def several(body: dict[str, Any], name: str, param: str = "") -> int | None:
    """How many answers, if not one."""
    count = fields.whole(body, name, param)
    return None if count == 1 else count


def serial_of(body: dict[str, Any]) -> bool:
    """``parallel_tool_calls: false``; true is what an absent one is."""
    return body.get("parallel_tool_calls") is not None and not fields.flag(body, "parallel_tool_calls")


def stop_of(body: dict[str, Any], name: str, param: str = "") -> tuple[str, ...]:
    """A string or a list of strings."""
    value = body.get(name)
    if type(value) is str:
        return (value,)
    listed = fields.optional_list(body, name, param)
    for each in listed:
        if type(each) is not str:
            raise fields.wrong_type(param or name, "strings", each)
    return tuple(listed)


def user_of(body: dict[str, Any]) -> str:
    user = fields.string(body, "user")
    return fields.string(body, "safety_identifier") or user


def tier_of(body: dict[str, Any], name: str) -> str:
    """The tier in OpenAI's words; "" = none said."""
    tier = fields.string(body, name).lower()
    return "default" if tier in _STANDARD else tier


def mode_of(value: Any, param: str) -> Choice | None:
    """``none``, ``auto`` or ``required``. Raises BadRequest."""
    if value is None:
        return None
    if type(value) is not str or value not in _MODES:
        raise BadRequest(f"Invalid '{param}': expected none, auto, required or a named tool.", param=param)
    return Choice(_MODES[value])


def grammar_of(grammar: dict[str, Any], param: str) -> str:
    """What a custom tool's input must match, in words for the tool's description; "" = anything."""
    definition = fields.string(grammar, "definition", f"{param}.definition")
    syntax = fields.string(grammar, "syntax", f"{param}.syntax")
    return f"The input must match this {syntax} grammar:\n{definition}" if definition else ""
