"""A `Conversation` as a Responses body (protocols page 9.4). Nothing is stored: all is in the input."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Any

from hoptrio.protocols.convert.naming import call_id, joined_name
from hoptrio.protocols.convert.request import media
from hoptrio.protocols.convert.request.conversation import (
    Image,
    Mode,
    Reasoning,
    Role,
    Text,
    ToolResult,
    ToolUse,
    Turn,
)
from hoptrio.protocols.convert.request.efforts import effort_of
from hoptrio.protocols.convert.request.pieces import EMPTY_SCHEMA, error_text, joined, present, user_id
from hoptrio.protocols.convert.request.tools import arguments_text, chosen, functions
from hoptrio.protocols.events import Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hoptrio.protocols.convert.request.conversation import Conversation

__all__ = ["encode"]

_USER_CHARS_MAX = 64
#: The API wants a name; Messages and Gemini have none.
_SCHEMA_NAME = "response"


def encode(conversation: Conversation, limit_tokens: int | None) -> dict[str, Any]:
    """Raises BadRequest, naming the client's parameter, for what cannot be said."""
    system = list(takewhile(lambda turn: turn.role is Role.SYSTEM, conversation.turns))
    rest = conversation.turns[len(system) :]
    body: dict[str, Any] = {
        "model": conversation.model,
        "input": [item for turn in rest for item in _items(turn)],
        "store": False,
    }
    include = ["reasoning.encrypted_content"] if _keeps_reasoning(conversation) else []
    if conversation.logprobs is not None:
        include.append("message.output_text.logprobs")
    body |= present(
        stream=conversation.stream or None,
        instructions=joined(part for turn in system for part in turn.parts),
        max_output_tokens=limit_tokens,
        temperature=conversation.temperature,
        top_p=conversation.top_p,
        top_logprobs=conversation.logprobs or None,
        include=include or None,
        text=_text(conversation) or None,
        reasoning=_reasoning(conversation) or None,
        safety_identifier=user_id(conversation.user, _USER_CHARS_MAX),
        prompt_cache_key=conversation.cache_key,
        service_tier=conversation.tier,
    )
    return body | _tools(conversation)


def _keeps_reasoning(conversation: Conversation) -> bool:
    """Chat has no slot for it (protocols page 9.8)."""
    return conversation.client is not Protocol.CHAT


def _items(turn: Turn) -> Iterator[dict[str, Any]]:
    said: list[dict[str, Any]] = []
    for part in turn.parts:
        if type(part) not in (ToolUse, ToolResult, Reasoning):
            said.append(_part(part, turn.role))
            continue
        if said:
            yield {"role": turn.role.value, "content": said}
            said = []
        if type(part) is ToolUse:
            yield _call(part)
        elif type(part) is ToolResult:
            yield {"type": "function_call_output", "call_id": call_id(part.id), "output": _output(part)}
        elif type(part) is Reasoning and part.carried.family is Protocol.RESPONSES:
            yield _thought(part)
    if said:
        yield {"role": turn.role.value, "content": said}


def _call(use: ToolUse) -> dict[str, Any]:
    name = joined_name(use.tool.name, use.tool.namespace)
    return {"type": "function_call", "call_id": call_id(use.id), "name": name, "arguments": arguments_text(use)}


def _thought(part: Reasoning) -> dict[str, Any]:
    text = part.text if part.carried.text is None else part.carried.text
    summary = [{"type": "summary_text", "text": text}] if text else []
    return {"type": "reasoning", "summary": summary, "encrypted_content": part.carried.token}


def _output(result: ToolResult) -> str | list[dict[str, Any]]:
    if all(type(part) is Text for part in result.parts):
        return error_text(result)
    marked = (Text("Error:"), *result.parts) if result.error else result.parts
    return [_part(part, Role.USER) for part in marked]


def _part(part: Any, role: Role) -> dict[str, Any]:
    if type(part) is Text:
        if part.refusal:
            return {"type": "refusal", "refusal": part.text}
        return {"type": "output_text" if role is Role.ASSISTANT else "input_text", "text": part.text}
    if type(part) is Image:
        url = part.url or media.data_uri(part.media_type, part.data)
        return {"type": "input_image", "image_url": url, "detail": part.detail or "auto"}
    if part.url:
        return {"type": "input_file", "file_url": part.url}
    uri = media.data_uri(part.media_type, part.data)
    return {"type": "input_file", "filename": part.title or "document.pdf", "file_data": uri}


def _text(conversation: Conversation) -> dict[str, Any]:
    schema = conversation.schema
    text: dict[str, Any] = present(verbosity=conversation.verbosity)
    if schema is not None:
        shape = {"type": "json_schema", "name": schema.name or _SCHEMA_NAME, "schema": schema.schema}
        text["format"] = shape | {"strict": schema.strict} | present(description=schema.description)
    elif conversation.json:
        text["format"] = {"type": "json_object"}
    return text


def _reasoning(conversation: Conversation) -> dict[str, Any]:
    if conversation.thinking is None:
        return {}
    return present(effort=effort_of(conversation.thinking), summary="auto" if conversation.thinking.summary else None)


def _tools(conversation: Conversation) -> dict[str, Any]:
    # Left out, `strict` would be true here and false everywhere else.
    offered = [
        {
            "type": "function",
            "name": each.name,
            "parameters": EMPTY_SCHEMA if each.schema is None else each.schema,
            "strict": each.strict,
        }
        | present(description=each.description)
        for each in functions(conversation)
    ]
    if not offered:
        return {}
    members: dict[str, Any] = {"tools": offered}
    choice = chosen(conversation)
    if choice is not None:
        members["tool_choice"] = {"type": "function", "name": choice.name} if choice.name else str(choice.mode)
    if conversation.serial and (choice is None or choice.mode is not Mode.NONE):
        members["parallel_tool_calls"] = False
    return members
