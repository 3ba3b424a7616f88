"""Tools as plain functions, which is what every channel has: namespaces joined, custom tools wrapped. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from hoptrio.errors import BadRequest
from hoptrio.protocols.convert.naming import CUSTOM_FIELD, joined_name
from hoptrio.protocols.convert.request.conversation import Mode
from hoptrio.protocols.convert.request.tables import param_of

if TYPE_CHECKING:
    from hoptrio.protocols.convert.request.conversation import Conversation, Tool, ToolUse

__all__ = ["Function", "arguments_object", "arguments_text", "chosen", "functions"]


class Function(NamedTuple):
    """A tool as a channel sees it."""

    name: str
    description: str
    schema: dict[str, Any] | None
    strict: bool


class _Chosen(NamedTuple):
    """`forced` = some tool must be called; `name` = this one."""

    mode: Mode
    name: str


def functions(conversation: Conversation) -> list[Function]:
    """The tools that may be called. Raises BadRequest where two would have one name.

    A choice among some leaves the others out, since only OpenAI can say "these may be called" (protocols page 9.2).
    """
    allowed = {joined_name(each.name, each.namespace) for each in _allowed(conversation)}
    made = [_function(tool) for tool in conversation.tools]
    if len({each.name for each in made}) < len(made):
        raise BadRequest("Invalid 'tools': two tools have the same name.", param=param_of(conversation.client, "tools"))
    offered = [each for each in made if not allowed or each.name in allowed]
    choice = conversation.choice
    if choice is not None and choice.mode is Mode.REQUIRED and not offered:
        param = param_of(conversation.client, "choice")
        raise BadRequest(f"Invalid '{param}': there is no tool that could be called.", param=param)
    return offered


def chosen(conversation: Conversation) -> _Chosen | None:
    """The choice that is left when `functions` has taken out what may not be called."""
    choice = conversation.choice
    if choice is None:
        return None
    named = choice.mode is Mode.REQUIRED and len(choice.tools) == 1
    return _Chosen(choice.mode, joined_name(choice.tools[0].name, choice.tools[0].namespace) if named else "")


def arguments_text(use: ToolUse) -> str:
    """A call's arguments as JSON text; what a model wrote is not mended."""
    return msgspec.json.encode({CUSTOM_FIELD: use.arguments}).decode() if use.tool.custom else use.arguments


def arguments_object(use: ToolUse) -> dict[str, Any]:
    """A call's arguments as the object they must be. Raises BadRequest if they are none."""
    if use.tool.custom:
        return {CUSTOM_FIELD: use.arguments}
    if not use.arguments:
        return {}
    try:
        return msgspec.json.decode(use.arguments, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        raise BadRequest(
            f"Invalid '{use.param}': this model needs a tool call's arguments to be a JSON object.", param=use.param
        ) from None


def _allowed(conversation: Conversation) -> tuple[Any, ...]:
    """The tools of a choice among several; a single named one keeps the others in sight."""
    choice = conversation.choice
    if choice is None or (choice.mode is Mode.REQUIRED and len(choice.tools) == 1):
        return ()
    return choice.tools


def _function(tool: Tool) -> Function:
    name = joined_name(tool.tool.name, tool.tool.namespace)
    if not tool.tool.custom:
        return Function(name, tool.description, tool.schema, tool.strict)
    description = "\n\n".join(text for text in (tool.description, tool.grammar) if text)
    field = {"type": "string", "description": "The whole input of the tool, as free text."}
    schema = {"type": "object", "properties": {CUSTOM_FIELD: field}, "required": [CUSTOM_FIELD]}
    return Function(name, description, {**schema, "additionalProperties": False}, strict=False)
