"""A Chat Completions body as a `Conversation` (protocols page 3.3, 9.2 and 9.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hoptrio.errors import BadRequest
from hoptrio.protocols import fields
from hoptrio.protocols.chat.request import LIMITS, hosted_name
from hoptrio.protocols.convert.naming import ToolName
from hoptrio.protocols.convert.request import media
from hoptrio.protocols.convert.request.conversation import (
    Choice,
    Conversation,
    Mode,
    Role,
    Schema,
    Text,
    Thinking,
    Tool,
    ToolResult,
    ToolUse,
    Turn,
)
from hoptrio.protocols.convert.request.readings import (
    grammar_of,
    mode_of,
    nonzero,
    serial_of,
    several,
    stop_of,
    tier_of,
    user_of,
)
from hoptrio.protocols.convert.request.tables import check_client, unconvertible
from hoptrio.protocols.events import Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hoptrio.protocols.convert.request.conversation import Part
    from hoptrio.protocols.events import Call

__all__ = ["decode"]

_ROLES = {role.value: role for role in Role}


def decode(call: Call, drop_tools: frozenset[str]) -> Conversation:
    """Raises BadRequest, naming the parameter, for what is refused or malformed."""
    body = call.body
    body = {
        name: value for name, value in body.items() if name != "web_search_options" or "web_search" not in drop_tools
    }
    check_client(Protocol.CHAT, body)
    schema, json = _format(body)
    effort = fields.string(body, "reasoning_effort")
    tools = tuple(_tools(body, drop_tools))
    return Conversation(
        client=Protocol.CHAT,
        model=call.model,
        stream=call.stream,
        turns=tuple(_turns(body)),
        tools=tools,
        choice=_choice(body),
        serial=serial_of(body) and bool(tools),
        limit_tokens=max((body[name] for name in LIMITS if fields.whole(body, name)), default=None),
        temperature=fields.number(body, "temperature"),
        top_p=fields.number(body, "top_p"),
        top_k=fields.number(body, "top_k"),
        seed=fields.integer(body, "seed"),
        presence_penalty=nonzero(body, "presence_penalty"),
        frequency_penalty=nonzero(body, "frequency_penalty"),
        stop=stop_of(body, "stop"),
        logprobs=(fields.integer(body, "top_logprobs") or 0) if fields.flag(body, "logprobs") else None,
        schema=schema,
        json=json,
        verbosity=fields.string(body, "verbosity"),
        thinking=Thinking(effort=effort, summary=effort != "none") if effort else None,
        user=user_of(body),
        cache_key=fields.string(body, "prompt_cache_key"),
        tier=tier_of(body, "service_tier"),
        choices=several(body, "n"),
    )


def _turns(body: dict[str, Any]) -> Iterator[Turn]:
    results: list[ToolResult] = []
    for param, message in fields.objects(body["messages"], "messages"):
        role = fields.required_string(message, "role", f"{param}.role")
        if role == Role.TOOL:
            results.append(_result(message, param))
            continue
        if results:
            yield Turn(Role.TOOL, tuple(results))
            results = []
        yield _turn(role, message, param)
    if results:
        yield Turn(Role.TOOL, tuple(results))


def _turn(role: str, message: dict[str, Any], param: str) -> Turn:
    if role not in _ROLES:
        raise unconvertible(f"{param}.role", "messages of this role are not converted")
    if message.get("function_call") is not None or message.get("audio") is not None:
        raise unconvertible(param, "function_call and audio in a message are not converted")
    parts = [*_content(message, param)]
    if role != Role.ASSISTANT:
        return Turn(_ROLES[role], tuple(parts))
    refusal = fields.string(message, "refusal", f"{param}.refusal")
    if refusal:
        parts.append(Text(refusal, refusal=True))
    calls = fields.optional_list(message, "tool_calls", f"{param}.tool_calls")
    parts += [_use(each, path) for path, each in fields.objects(calls, f"{param}.tool_calls")]
    return Turn(Role.ASSISTANT, tuple(parts))


def _result(message: dict[str, Any], param: str) -> ToolResult:
    parts = tuple(_content(message, param))
    return ToolResult(
        id=fields.required_string(message, "tool_call_id", f"{param}.tool_call_id"), parts=parts, param=param
    )


def _use(call: dict[str, Any], param: str) -> ToolUse:
    custom = call.get("type") == "custom"
    kind = "custom" if custom else "function"
    inner = fields.optional_object(call, kind, f"{param}.{kind}") or {}
    return ToolUse(
        id=fields.required_string(call, "id", f"{param}.id"),
        tool=ToolName(fields.required_string(inner, "name", f"{param}.{kind}.name"), custom=custom),
        arguments=fields.string(inner, "input" if custom else "arguments", f"{param}.{kind}"),
        param=f"{param}.{kind}",
    )


def _content(message: dict[str, Any], param: str) -> Iterator[Any]:
    content = message.get("content")
    if type(content) is not list:
        text = fields.string(message, "content", f"{param}.content")
        if text:
            yield Text(text)
        return
    for path, part in fields.objects(
        ({"type": "text", "text": each} if type(each) is str else each for each in content), f"{param}.content"
    ):
        yield from _part(part, path)


def _part(part: dict[str, Any], param: str) -> Iterator[Part]:
    kind = part.get("type")
    if kind == "text":
        yield Text(fields.required_string(part, "text", f"{param}.text"))
    elif kind == "refusal":
        yield Text(fields.required_string(part, "refusal", f"{param}.refusal"), refusal=True)
    elif kind == "image_url":
        image = fields.optional_object(part, "image_url", f"{param}.image_url") or {}
        url = fields.required_string(image, "url", f"{param}.image_url.url")
        detail = fields.string(image, "detail", f"{param}.image_url.detail")
        yield media.image_of_uri(url, detail=detail, param=f"{param}.image_url.url")
    elif kind == "file":
        yield _file(fields.optional_object(part, "file", f"{param}.file") or {}, f"{param}.file")
    elif kind not in ("thinking", "reasoning"):
        raise unconvertible(f"{param}.type", "content of this type is not converted")


def _file(file: dict[str, Any], param: str) -> Part:
    if file.get("file_id") is not None:
        raise unconvertible(f"{param}.file_id", "it names what is kept at the provider")
    data = fields.required_string(file, "file_data", f"{param}.file_data")
    title = fields.string(file, "filename", f"{param}.filename")
    return media.document_of_uri(data, title=title, param=f"{param}.file_data")


def _tools(body: dict[str, Any], drop_tools: frozenset[str]) -> Iterator[Tool]:
    for param, tool in fields.objects(fields.optional_list(body, "tools"), "tools"):
        hosted = hosted_name(tool, f"{param}.type")
        if hosted in drop_tools:
            continue
        if hosted is not None:
            raise unconvertible(f"{param}.type", "tools that the provider runs are not converted")
        yield _custom(tool, param) if tool.get("type") == "custom" else _function(tool, param)


def _function(tool: dict[str, Any], param: str) -> Tool:
    function = fields.optional_object(tool, "function", f"{param}.function") or {}
    return Tool(
        tool=ToolName(fields.required_string(function, "name", f"{param}.function.name")),
        description=fields.string(function, "description", f"{param}.function.description"),
        schema=fields.optional_object(function, "parameters", f"{param}.function.parameters"),
        strict=fields.flag(function, "strict", f"{param}.function.strict"),
    )


def _custom(tool: dict[str, Any], param: str) -> Tool:
    custom = fields.optional_object(tool, "custom", f"{param}.custom") or {}
    shape = fields.optional_object(custom, "format", f"{param}.custom.format") or {}
    grammar = fields.optional_object(shape, "grammar", f"{param}.custom.format.grammar") or {}
    return Tool(
        tool=ToolName(fields.required_string(custom, "name", f"{param}.custom.name"), custom=True),
        description=fields.string(custom, "description", f"{param}.custom.description"),
        grammar=grammar_of(grammar, f"{param}.custom.format.grammar"),
    )


def _choice(body: dict[str, Any]) -> Choice | None:
    choice = body.get("tool_choice")
    if choice is None or type(choice) is str:
        return mode_of(choice, "tool_choice")
    if type(choice) is not dict:
        raise fields.wrong_type("tool_choice", "a string or an object", choice)
    if choice.get("type") != "allowed_tools":
        return Choice(Mode.REQUIRED, (_chosen(choice, "tool_choice"),))
    allowed = fields.optional_object(choice, "allowed_tools", "tool_choice.allowed_tools") or {}
    mode = mode_of(allowed.get("mode", "auto"), "tool_choice.allowed_tools.mode")
    listed = fields.optional_list(allowed, "tools", "tool_choice.allowed_tools.tools")
    names = tuple(_chosen(each, path) for path, each in fields.objects(listed, "tool_choice.allowed_tools.tools"))
    return Choice(mode.mode if mode else Mode.AUTO, names)


def _chosen(choice: dict[str, Any], param: str) -> ToolName:
    kind = choice.get("type")
    if kind not in ("function", "custom"):
        raise unconvertible(f"{param}.type", "only functions and custom tools can be chosen")
    inner = fields.optional_object(choice, kind, f"{param}.{kind}") or {}
    return ToolName(fields.required_string(inner, "name", f"{param}.{kind}.name"), custom=kind == "custom")


def _format(body: dict[str, Any]) -> tuple[Schema | None, bool]:
    shape = fields.optional_object(body, "response_format") or {}
    kind = shape.get("type", "text")
    if kind in ("text", "json_object"):
        return None, kind == "json_object"
    if kind != "json_schema":
        raise BadRequest("Invalid 'response_format.type'.", param="response_format.type")
    inner = fields.optional_object(shape, "json_schema", "response_format.json_schema") or {}
    return Schema(
        schema=fields.optional_object(inner, "schema", "response_format.json_schema.schema") or {},
        name=fields.string(inner, "name", "response_format.json_schema.name"),
        description=fields.string(inner, "description", "response_format.json_schema.description"),
        strict=fields.flag(inner, "strict", "response_format.json_schema.strict"),
    ), False
