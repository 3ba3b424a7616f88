"""A `Conversation` as a Chat Completions body (protocols page 9.3 and 9.4).

Written for the many servers that speak this protocol, not for OpenAI alone: `system` instead of `developer`, a plain
string where all content is text, and no member that only OpenAI knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hoptrio.protocols.convert.naming import call_id, joined_name
from hoptrio.protocols.convert.request import media
from hoptrio.protocols.convert.request.conversation import (
    INSTRUCTING,
    Document,
    Image,
    Mode,
    Reasoning,
    Role,
    Text,
    ToolResult,
    ToolUse,
)
from hoptrio.protocols.convert.request.efforts import effort_of
from hoptrio.protocols.convert.request.pieces import error_text, joined, present, user_id
from hoptrio.protocols.convert.request.tables import param_of, unconvertible
from hoptrio.protocols.convert.request.tools import arguments_text, chosen, functions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hoptrio.protocols.convert.request.conversation import Conversation, Schema, Turn

__all__ = ["encode"]

#: OpenAI's bounds.
_STOP_MAX = 4
_USER_CHARS_MAX = 64
#: The API wants a name; Messages and Gemini have none.
_SCHEMA_NAME = "response"


def encode(conversation: Conversation, limit_tokens: int | None) -> dict[str, Any]:
    """Raises BadRequest, naming the client's parameter, for what cannot be said."""
    if len(conversation.stop) > _STOP_MAX:
        raise unconvertible(param_of(conversation.client, "stop"), "at most four stop sequences are taken")
    body: dict[str, Any] = {"model": conversation.model, "messages": list(_messages(conversation))}
    if conversation.stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    body |= present(
        max_tokens=limit_tokens,
        temperature=conversation.temperature,
        top_p=conversation.top_p,
        seed=conversation.seed,
        n=conversation.choices,
        presence_penalty=conversation.presence_penalty,
        frequency_penalty=conversation.frequency_penalty,
        verbosity=conversation.verbosity,
        reasoning_effort=effort_of(conversation.thinking) if conversation.thinking else None,
        user=user_id(conversation.user, _USER_CHARS_MAX),
        service_tier=conversation.tier,
        response_format=_format(conversation.schema, json=conversation.json),
    )
    if conversation.stop:
        body["stop"] = list(conversation.stop)
    if conversation.logprobs is not None:
        body |= {"logprobs": True} | ({"top_logprobs": conversation.logprobs} if conversation.logprobs else {})
    return body | _tools(conversation)


def _messages(conversation: Conversation) -> Iterator[dict[str, Any]]:
    for index, turn in enumerate(_merged(conversation.turns)):
        if turn.role in INSTRUCTING:
            yield {"role": "system", "content": joined(turn.parts)}
        elif turn.role is Role.TOOL:
            yield from _results(turn)
        elif turn.role is Role.ASSISTANT:
            yield from _assistant(turn)
        elif turn.parts or index == 0:
            yield {"role": "user", "content": _content(turn.parts)}


def _merged(turns: tuple[Turn, ...]) -> Iterator[Turn]:
    """Leading instructions as one message: many chat templates take one, and only in the first place."""
    leading = next((index for index, turn in enumerate(turns) if turn.role not in INSTRUCTING), len(turns))
    if leading:
        yield type(turns[0])(Role.SYSTEM, tuple(part for turn in turns[:leading] for part in turn.parts))
    yield from turns[leading:]


def _assistant(turn: Turn) -> Iterator[dict[str, Any]]:
    texts = [part for part in turn.parts if type(part) is Text]
    message: dict[str, Any] = {"role": "assistant", "content": joined(part for part in texts if not part.refusal)}
    refusal = joined(part for part in texts if part.refusal)
    if refusal:
        message["refusal"] = refusal
    calls = [
        {
            "id": call_id(part.id),
            "type": "function",
            "function": {
                "name": joined_name(part.tool.name, part.tool.namespace),
                "arguments": arguments_text(part),
            },
        }
        for part in turn.parts
        if type(part) is ToolUse
    ]
    if calls:
        message["tool_calls"] = calls
    message["content"] = message["content"] or None
    if calls or message["content"] or refusal:
        yield message


def _results(turn: Turn) -> Iterator[dict[str, Any]]:
    """One message a result; they take text only, so that images follow in a user message of their own."""
    seen: list[Any] = []
    for part in turn.parts:
        if type(part) is ToolResult:
            yield {"role": "tool", "tool_call_id": call_id(part.id), "content": error_text(part)}
            seen += [each for each in part.parts if type(each) is not Text]
    if seen:
        yield {"role": "user", "content": _content((Text("Returned by the tools above:"), *seen))}


def _content(parts: tuple[Any, ...]) -> str | list[dict[str, Any]]:
    if all(type(part) is Text for part in parts):
        return joined(parts)
    return [_part(part) for part in parts if type(part) is not Reasoning]


def _part(part: Any) -> dict[str, Any]:
    if type(part) is Text:
        return {"type": "text", "text": part.text}
    if type(part) is Image:
        url = part.url or media.data_uri(part.media_type, part.data)
        return {"type": "image_url", "image_url": {"url": url} | present(detail=part.detail)}
    if type(part) is Document and not part.url:
        uri = media.data_uri(part.media_type, part.data)
        return {"type": "file", "file": {"filename": part.title or "document.pdf", "file_data": uri}}
    raise unconvertible(part.param, "a document must be in the request itself")


def _tools(conversation: Conversation) -> dict[str, Any]:
    offered = [
        {
            "type": "function",
            "function": {"name": each.name}
            | present(description=each.description, parameters=each.schema, strict=each.strict or None),
        }
        for each in functions(conversation)
    ]
    if not offered:
        return {}
    members: dict[str, Any] = {"tools": offered}
    choice = chosen(conversation)
    if choice is not None:
        named = {"type": "function", "function": {"name": choice.name}}
        members["tool_choice"] = named if choice.name else str(choice.mode)
    if conversation.serial and (choice is None or choice.mode is not Mode.NONE):
        members["parallel_tool_calls"] = False
    return members


def _format(schema: Schema | None, *, json: bool) -> dict[str, Any] | None:
    if schema is None:
        return {"type": "json_object"} if json else None
    inner = {"name": schema.name or _SCHEMA_NAME, "schema": schema.schema, "strict": schema.strict}
    return {"type": "json_schema", "json_schema": inner | present(description=schema.description)}
