"""A Messages body as a `Conversation` (protocols page 6.4, 6.6 and 9.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from hoptrio.errors import BadRequest
from hoptrio.protocols import fields
from hoptrio.protocols.convert.carrier import unpack
from hoptrio.protocols.convert.naming import ToolName
from hoptrio.protocols.convert.request import media
from hoptrio.protocols.convert.request.conversation import (
    ADAPTIVE,
    Choice,
    Conversation,
    Image,
    Mode,
    Reasoning,
    Role,
    Schema,
    Text,
    Thinking,
    Tool,
    ToolResult,
    ToolUse,
    Turn,
)
from hoptrio.protocols.convert.request.readings import stop_of, tier_of
from hoptrio.protocols.convert.request.tables import check_client, unconvertible
from hoptrio.protocols.events import Protocol
from hoptrio.protocols.messages.request import hosted_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hoptrio.protocols.convert.request.conversation import Part
    from hoptrio.protocols.events import Call

__all__ = ["decode"]

_ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT, "system": Role.SYSTEM}
_MODES = {"auto": Mode.AUTO, "any": Mode.REQUIRED, "none": Mode.NONE, "tool": Mode.REQUIRED}
#: Thinking whose amount the model decides.
_ADAPTIVE = ("adaptive", "between_tools")


def decode(call: Call, drop_tools: frozenset[str]) -> Conversation:
    """Raises BadRequest, naming the parameter, for what is refused or malformed."""
    body = call.body
    if "mcp" in drop_tools:
        body = {name: value for name, value in body.items() if name != "mcp_servers"}
    check_client(Protocol.MESSAGES, body)
    tools = tuple(_tools(body, drop_tools))
    choice, serial = _choice(body)
    return Conversation(
        client=Protocol.MESSAGES,
        model=call.model,
        stream=call.stream,
        turns=tuple(_turns(body)),
        tools=tools,
        choice=choice,
        serial=serial and bool(tools),
        limit_tokens=fields.whole(body, "max_tokens"),
        temperature=fields.number(body, "temperature"),
        top_p=fields.number(body, "top_p"),
        top_k=fields.number(body, "top_k"),
        stop=stop_of(body, "stop_sequences"),
        schema=_schema(body),
        thinking=_thinking(body),
        user=_user(body),
        tier=tier_of(body, "service_tier"),
    )


def _turns(body: dict[str, Any]) -> Iterator[Turn]:
    system = tuple(_content(body.get("system"), "system"))
    if system:
        yield Turn(Role.SYSTEM, system)
    for param, message in fields.objects(body["messages"], "messages"):
        role = _ROLES.get(fields.required_string(message, "role", f"{param}.role"))
        if role is None:
            raise unconvertible(f"{param}.role", "messages of this role are not converted")
        parts = list(_content(message.get("content"), f"{param}.content"))
        results = tuple(part for part in parts if type(part) is ToolResult)
        rest = tuple(part for part in parts if type(part) is not ToolResult)
        if results:
            yield Turn(Role.TOOL, results)
        if rest or not results:
            yield Turn(role, rest)


def _content(content: Any, param: str) -> Iterator[Any]:
    if content is None:
        return
    if type(content) is str:
        if content:
            yield Text(content)
        return
    if type(content) is not list:
        raise fields.wrong_type(param, "a string or an array", content)
    for path, block in fields.objects(content, param):
        yield from _block(block, path)


def _block(block: dict[str, Any], param: str) -> Iterator[Part]:
    kind = block.get("type")
    if kind == "tool_use":
        yield _use(block, param)
    elif kind == "tool_result":
        yield _result(block, param)
    elif kind in ("thinking", "redacted_thinking"):
        yield from _reasoning(block, param)
    else:
        yield from _reading(block, kind, param)


def _reading(block: dict[str, Any], kind: Any, param: str) -> Iterator[Text | Image | Any]:
    """What the model reads, in a message or in a tool's result."""
    if kind == "text":
        yield Text(fields.required_string(block, "text", f"{param}.text"))
    elif kind == "image":
        yield from _source(block, param)
    elif kind == "document":
        yield from _source(block, param, title=fields.string(block, "title", f"{param}.title"))
    elif kind == "search_result":
        yield _search_result(block, param)
    else:
        raise unconvertible(f"{param}.type", "content of this type is not converted")


def _source(block: dict[str, Any], param: str, title: str = "") -> Iterator[Part]:
    path = f"{param}.source"
    source = fields.optional_object(block, "source", path) or {}
    kind = source.get("type")
    image = block["type"] == "image"
    if kind == "base64":
        data = fields.required_string(source, "data", f"{path}.data")
        media_type = fields.required_string(source, "media_type", f"{path}.media_type")
        yield media.media_of_data(media_type, data, title=title, param=path)
    elif kind == "url":
        url = fields.required_string(source, "url", f"{path}.url")
        yield (
            media.image_of_uri(url, detail="", param=path)
            if image
            else media.media_of_url(url, "", title=title, param=path)
        )
    elif kind == "text" and not image:
        yield Text(fields.required_string(source, "data", f"{path}.data"))
    elif kind == "content" and not image:
        yield from _readings(source.get("content"), f"{path}.content")
    else:
        raise unconvertible(f"{path}.type", "sources of this type are not converted")


def _readings(content: Any, param: str) -> Iterator[Any]:
    if type(content) is not list:
        yield from _content(content, param)
        return
    for path, block in fields.objects(content, param):
        yield from _reading(block, block.get("type"), path)


def _search_result(block: dict[str, Any], param: str) -> Text:
    lines = [fields.string(block, name, f"{param}.{name}") for name in ("title", "source")]
    inner = _readings(block.get("content"), f"{param}.content")
    return Text("\n".join([*lines, *(part.text for part in inner if type(part) is Text)]))


def _use(block: dict[str, Any], param: str) -> ToolUse:
    arguments = fields.optional_object(block, "input", f"{param}.input") or {}
    return ToolUse(
        id=fields.required_string(block, "id", f"{param}.id"),
        tool=ToolName(fields.required_string(block, "name", f"{param}.name")),
        arguments=msgspec.json.encode(arguments).decode(),
        param=f"{param}.input",
    )


def _result(block: dict[str, Any], param: str) -> ToolResult:
    return ToolResult(
        id=fields.required_string(block, "tool_use_id", f"{param}.tool_use_id"),
        parts=tuple(_readings(block.get("content"), f"{param}.content")),
        error=fields.flag(block, "is_error", f"{param}.is_error"),
        param=param,
    )


def _reasoning(block: dict[str, Any], param: str) -> Iterator[Reasoning]:
    """Only a token of ours can be given back to anyone but Anthropic."""
    redacted = block["type"] == "redacted_thinking"
    carried = unpack(block.get("data" if redacted else "signature"))
    if carried is not None:
        yield Reasoning(carried=carried, text="" if redacted else fields.string(block, "thinking", f"{param}.thinking"))


def _tools(body: dict[str, Any], drop_tools: frozenset[str]) -> Iterator[Tool]:
    for param, tool in fields.objects(fields.optional_list(body, "tools"), "tools"):
        if tool.get("type") not in (None, "custom"):
            if hosted_name(tool, f"{param}.type") in drop_tools:
                continue
            raise unconvertible(f"{param}.type", "tools of Anthropic's own are not converted")
        yield Tool(
            tool=ToolName(fields.required_string(tool, "name", f"{param}.name")),
            description=fields.string(tool, "description", f"{param}.description"),
            schema=fields.optional_object(tool, "input_schema", f"{param}.input_schema"),
            strict=fields.flag(tool, "strict", f"{param}.strict"),
        )


def _choice(body: dict[str, Any]) -> tuple[Choice | None, bool]:
    choice = fields.optional_object(body, "tool_choice")
    if choice is None:
        return None, False
    kind = fields.required_string(choice, "type", "tool_choice.type")
    if kind not in _MODES:
        raise BadRequest("Invalid 'tool_choice.type': expected auto, any, tool or none.", param="tool_choice.type")
    serial = fields.flag(choice, "disable_parallel_tool_use", "tool_choice.disable_parallel_tool_use")
    names = (ToolName(fields.required_string(choice, "name", "tool_choice.name")),) if kind == "tool" else ()
    return Choice(_MODES[kind], names), serial


def _schema(body: dict[str, Any]) -> Schema | None:
    config = fields.optional_object(body, "output_config") or {}
    shape = fields.optional_object(config, "format", "output_config.format")
    shape = shape or fields.optional_object(body, "output_format")
    if shape is None:
        return None
    if shape.get("type") != "json_schema":
        raise BadRequest("Invalid 'output_config.format.type'.", param="output_config.format.type")
    schema = fields.optional_object(shape, "schema", "output_config.format.schema")
    return Schema(schema=schema or {}, strict=True)


def _thinking(body: dict[str, Any]) -> Thinking | None:
    config = fields.optional_object(body, "output_config") or {}
    effort = fields.string(config, "effort", "output_config.effort")
    thinking = fields.optional_object(body, "thinking")
    kind = thinking.get("type") if thinking else None
    if thinking is None or kind is None:
        return Thinking(effort=effort) if effort else None
    if kind == "disabled":
        return Thinking(effort="none")
    summary = thinking.get("display") != "omitted"
    if kind in _ADAPTIVE:
        return Thinking(effort=effort, budget_tokens=ADAPTIVE, summary=summary)
    if kind != "enabled":
        raise BadRequest("Invalid 'thinking.type'.", param="thinking.type")
    budget = fields.whole(thinking, "budget_tokens", "thinking.budget_tokens")
    if budget is None:
        raise fields.missing("thinking.budget_tokens")
    return Thinking(effort=effort, budget_tokens=budget, summary=summary)


def _user(body: dict[str, Any]) -> str:
    return fields.string(fields.optional_object(body, "metadata") or {}, "user_id", "metadata.user_id")
