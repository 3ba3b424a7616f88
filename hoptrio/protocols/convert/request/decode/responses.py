"""A Responses body as a `Conversation` (protocols page 4.4, 4.7, 4.8 and 9.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hoptrio.errors import BadRequest
from hoptrio.protocols import fields
from hoptrio.protocols.convert.carrier import unpack
from hoptrio.protocols.convert.naming import ToolName
from hoptrio.protocols.convert.request import media
from hoptrio.protocols.convert.request.conversation import (
    Choice,
    Conversation,
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
from hoptrio.protocols.convert.request.readings import grammar_of, mode_of, serial_of, tier_of, user_of
from hoptrio.protocols.convert.request.tables import check_client, unconvertible
from hoptrio.protocols.events import Protocol
from hoptrio.protocols.responses.request import hosted_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hoptrio.protocols.convert.request.conversation import Part
    from hoptrio.protocols.events import Call

__all__ = ["decode"]

_ROLES = {role.value: role for role in Role if role is not Role.TOOL}
_LOGPROBS = "message.output_text.logprobs"
#: Codex offers these with every request and leaves their use open (protocols page 9.4); what `tool_search` would find
#: is given at once.
_DROPPED_TOOLS = frozenset({"web_search", "tool_search"})
#: Records of such tools in the history, whose finds are in the text that follows; and tools, which `_all_tools` reads.
_DROPPED_ITEMS = ("web_search_call", "additional_tools")


def decode(call: Call, drop_tools: frozenset[str]) -> Conversation:
    """Raises BadRequest, naming the parameter, for what is refused or malformed."""
    body = call.body
    check_client(Protocol.RESPONSES, body)
    schema, json, verbosity = _text(body)
    droppable = drop_tools | _DROPPED_TOOLS if call.tools_optional else drop_tools
    tools = tuple(_tools(_all_tools(body), droppable))
    return Conversation(
        client=Protocol.RESPONSES,
        model=call.model,
        stream=call.stream,
        turns=_turns(body),
        tools=tools,
        choice=_choice(body),
        serial=serial_of(body) and bool(tools),
        limit_tokens=fields.whole(body, "max_output_tokens"),
        temperature=fields.number(body, "temperature"),
        top_p=fields.number(body, "top_p"),
        logprobs=_logprobs(body),
        schema=schema,
        json=json,
        verbosity=verbosity,
        thinking=_thinking(body),
        user=user_of(body),
        cache_key=fields.string(body, "prompt_cache_key"),
        tier=tier_of(body, "service_tier"),
    )


def _turns(body: dict[str, Any]) -> tuple[Turn, ...]:
    turns: list[tuple[Role, list[Any]]] = []
    instructions = fields.string(body, "instructions")
    if instructions:
        turns.append((Role.SYSTEM, [Text(instructions)]))
    if type(body.get("input")) is str:
        turns.append((Role.USER, [Text(body["input"])]))
    else:
        for param, item in fields.objects(fields.optional_list(body, "input"), "input"):
            _add_item(turns, item, param)
    return tuple(Turn(role, tuple(parts)) for role, parts in turns)


def _add_item(turns: list[tuple[Role, list[Any]]], item: dict[str, Any], param: str) -> None:
    kind = item.get("type") or ("message" if "content" in item else None)
    if kind == "message":
        role = _ROLES.get(fields.required_string(item, "role", f"{param}.role"))
        if role is None:
            raise unconvertible(f"{param}.role", "messages of this role are not converted")
        _add(turns, role, list(_content(item.get("content"), f"{param}.content")))
    elif kind in ("function_call", "custom_tool_call"):
        _add(turns, Role.ASSISTANT, [_use(item, param)])
    elif kind in ("function_call_output", "custom_tool_call_output"):
        _add(turns, Role.TOOL, [_result(item, param)])
    elif kind == "reasoning":
        _add(turns, Role.ASSISTANT, list(_reasoning(item, param)))
    elif kind not in _DROPPED_ITEMS:
        raise unconvertible(f"{param}.type", "items of this type are not converted")


def _add(turns: list[tuple[Role, list[Any]]], role: Role, parts: list[Any]) -> None:
    """What a model said in one go comes as several items; other messages stay apart."""
    if role in (Role.ASSISTANT, Role.TOOL) and turns and turns[-1][0] is role:
        turns[-1][1].extend(parts)
    elif parts or role is not Role.ASSISTANT:
        turns.append((role, parts))


def _content(content: Any, param: str) -> Iterator[Any]:
    if type(content) is str:
        yield Text(content)
        return
    if type(content) is not list:
        raise fields.wrong_type(param, "a string or an array", content)
    for path, part in fields.objects(content, param):
        yield _part(part, path)


def _part(part: dict[str, Any], param: str) -> Part:
    kind = part.get("type")
    if part.get("file_id") is not None:
        raise unconvertible(f"{param}.file_id", "it names what is kept at the provider")
    if kind in ("input_text", "output_text", "text"):
        return Text(fields.required_string(part, "text", f"{param}.text"))
    if kind == "refusal":
        return Text(fields.required_string(part, "refusal", f"{param}.refusal"), refusal=True)
    if kind == "input_image":
        url = fields.required_string(part, "image_url", f"{param}.image_url")
        detail = fields.string(part, "detail", f"{param}.detail")
        return media.image_of_uri(url, detail=detail, param=f"{param}.image_url")
    if kind == "input_file":
        return _file(part, param)
    raise unconvertible(f"{param}.type", "content of this type is not converted")


def _file(part: dict[str, Any], param: str) -> Part:
    title = fields.string(part, "filename", f"{param}.filename")
    url = fields.string(part, "file_url", f"{param}.file_url")
    if url:
        return media.media_of_url(url, "", title=title, param=f"{param}.file_url")
    data = fields.required_string(part, "file_data", f"{param}.file_data")
    return media.document_of_uri(data, title=title, param=f"{param}.file_data")


def _use(item: dict[str, Any], param: str) -> ToolUse:
    custom = item["type"] == "custom_tool_call"
    name = fields.required_string(item, "name", f"{param}.name")
    namespace = fields.string(item, "namespace", f"{param}.namespace")
    holder = "input" if custom else "arguments"
    return ToolUse(
        id=fields.required_string(item, "call_id", f"{param}.call_id"),
        tool=ToolName(name, namespace, custom),
        arguments=fields.string(item, holder, f"{param}.{holder}"),
        param=f"{param}.{holder}",
    )


def _result(item: dict[str, Any], param: str) -> ToolResult:
    output = item.get("output")
    parts = tuple(_content("" if output is None else output, f"{param}.output"))
    return ToolResult(id=fields.required_string(item, "call_id", f"{param}.call_id"), parts=parts, param=param)


def _reasoning(item: dict[str, Any], param: str) -> Iterator[Reasoning]:
    """Only a token of ours can be given back to anyone."""
    carried = unpack(item.get("encrypted_content"))
    if carried is None:
        return
    texts = []
    for path, part in fields.objects(fields.optional_list(item, "summary", f"{param}.summary"), f"{param}.summary"):
        texts.append(fields.string(part, "text", f"{path}.text"))
    yield Reasoning(carried=carried, text="\n\n".join(texts))


def _all_tools(body: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Those of the request, and those that an item brought later."""
    yield from fields.objects(fields.optional_list(body, "tools"), "tools")
    if type(body.get("input")) is list:
        for param, item in fields.objects(body["input"], "input"):
            if item.get("type") == "additional_tools":
                yield from fields.objects(fields.optional_list(item, "tools", f"{param}.tools"), f"{param}.tools")


def _tools(tools: Iterator[tuple[str, dict[str, Any]]], droppable: frozenset[str]) -> Iterator[Tool]:
    for param, tool in tools:
        kind = tool.get("type")
        if kind == "namespace":
            namespace = fields.required_string(tool, "name", f"{param}.name")
            nested = fields.objects(fields.optional_list(tool, "tools", f"{param}.tools"), f"{param}.tools")
            for path, each in nested:
                yield _tool(each, path, namespace)
        elif kind in ("function", "custom"):
            yield _tool(tool, param, "")
        elif (hosted_name(tool, f"{param}.type") or kind) not in droppable:
            raise unconvertible(f"{param}.type", "tools of this type are not converted")


def _tool(tool: dict[str, Any], param: str, namespace: str) -> Tool:
    kind = tool.get("type")
    if kind not in ("function", "custom"):
        raise unconvertible(f"{param}.type", "tools of this type are not converted")
    shape = fields.optional_object(tool, "format", f"{param}.format") or {}
    return Tool(
        tool=ToolName(fields.required_string(tool, "name", f"{param}.name"), namespace, kind == "custom"),
        description=fields.string(tool, "description", f"{param}.description"),
        schema=fields.optional_object(tool, "parameters", f"{param}.parameters"),
        strict=fields.flag(tool, "strict", f"{param}.strict"),
        grammar=grammar_of(shape, f"{param}.format"),
    )


def _choice(body: dict[str, Any]) -> Choice | None:
    choice = body.get("tool_choice")
    if choice is None or type(choice) is str:
        return mode_of(choice, "tool_choice")
    if type(choice) is not dict:
        raise fields.wrong_type("tool_choice", "a string or an object", choice)
    if choice.get("type") != "allowed_tools":
        return Choice(Mode.REQUIRED, (_chosen(choice, "tool_choice"),))
    mode = mode_of(choice.get("mode", "auto"), "tool_choice.mode")
    listed = fields.optional_list(choice, "tools", "tool_choice.tools")
    names = tuple(_chosen(each, path) for path, each in fields.objects(listed, "tool_choice.tools"))
    return Choice(mode.mode if mode else Mode.AUTO, names)


def _chosen(choice: dict[str, Any], param: str) -> ToolName:
    kind = choice.get("type")
    if kind not in ("function", "custom"):
        raise unconvertible(f"{param}.type", "only functions and custom tools can be chosen")
    namespace = fields.string(choice, "namespace", f"{param}.namespace")
    return ToolName(fields.required_string(choice, "name", f"{param}.name"), namespace, kind == "custom")


def _text(body: dict[str, Any]) -> tuple[Schema | None, bool, str]:
    text = fields.optional_object(body, "text") or {}
    verbosity = fields.string(text, "verbosity", "text.verbosity")
    shape = fields.optional_object(text, "format", "text.format") or {}
    kind = shape.get("type", "text")
    if kind in ("text", "json_object"):
        return None, kind == "json_object", verbosity
    if kind != "json_schema":
        raise BadRequest("Invalid 'text.format.type'.", param="text.format.type")
    schema = Schema(
        schema=fields.optional_object(shape, "schema", "text.format.schema") or {},
        name=fields.string(shape, "name", "text.format.name"),
        description=fields.string(shape, "description", "text.format.description"),
        strict=fields.flag(shape, "strict", "text.format.strict"),
    )
    return schema, False, verbosity


def _thinking(body: dict[str, Any]) -> Thinking | None:
    reasoning = fields.optional_object(body, "reasoning")
    if reasoning is None:
        return None
    names = ("summary", "generate_summary")
    summary = any([fields.string(reasoning, name, f"reasoning.{name}") for name in names])
    effort = fields.string(reasoning, "effort", "reasoning.effort")
    return Thinking(effort=effort, summary=summary) if effort or summary else None


def _logprobs(body: dict[str, Any]) -> int | None:
    count = fields.integer(body, "top_logprobs")
    return count or 0 if count or _LOGPROBS in fields.optional_list(body, "include") else None
