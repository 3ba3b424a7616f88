"""A Gemini body as a `Conversation` (protocols page 7.2, 9.4 and 9.5).

Names may be camelCase or snake_case. Calls may lack ids: they get some that depend on their place alone, and a result
without one belongs to the oldest open call of its name.
"""

from __future__ import annotations

from collections import deque
from itertools import groupby
from typing import TYPE_CHECKING, Any

import msgspec

from hoptrio.errors import BadRequest
from hoptrio.protocols import fields
from hoptrio.protocols.convert.carrier import unpack
from hoptrio.protocols.convert.naming import ToolName
from hoptrio.protocols.convert.request import media
from hoptrio.protocols.convert.request.conversation import (
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
from hoptrio.protocols.convert.request.readings import nonzero, several, stop_of, tier_of
from hoptrio.protocols.convert.request.schemas import from_openapi
from hoptrio.protocols.convert.request.tables import check_client, unconvertible
from hoptrio.protocols.events import Protocol
from hoptrio.protocols.gemini.request import camel, hosted_name, snake

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hoptrio.protocols.convert.request.conversation import Part
    from hoptrio.protocols.events import Call

__all__ = ["decode"]

_ROLES = {"": Role.USER, "user": Role.USER, "function": Role.USER, "model": Role.ASSISTANT}
_MODES = {
    "AUTO": Mode.AUTO,
    "MODE_UNSPECIFIED": Mode.AUTO,
    "VALIDATED": Mode.AUTO,
    "ANY": Mode.REQUIRED,
    "NONE": Mode.NONE,
}
#: The one hosted tool that is left out where no call is forced; agents offer it beside their own.
_DROPPED_TOOLS = frozenset({"google_search"})
_JSON = "application/json"
#: What may stand in a part beside its content.
_ASIDE = frozenset({"thought", "thoughtSignature", "partMetadata", "videoMetadata", "mediaResolution"})


def decode(call: Call, drop_tools: frozenset[str]) -> Conversation:
    """Raises BadRequest, naming the parameter, for what is refused or malformed."""
    body = call.body
    check_client(Protocol.GEMINI, body)
    config = _object(body, "generationConfig", "generationConfig")
    schema = _schema(config)
    mime = _string(config, "responseMimeType", "generationConfig")
    if mime not in ("", "text/plain", _JSON):
        raise unconvertible("generationConfig.responseMimeType", "only text and JSON are converted")
    tools = tuple(_tools(body, drop_tools | _DROPPED_TOOLS if call.tools_optional else drop_tools))
    return Conversation(
        client=Protocol.GEMINI,
        model=call.model,
        stream=call.stream,
        turns=tuple(_Turns().read(body)),
        tools=tools,
        choice=_choice(body),
        limit_tokens=fields.whole(*_at(config, "maxOutputTokens")),
        temperature=fields.number(*_at(config, "temperature")),
        top_p=fields.number(*_at(config, "topP")),
        top_k=fields.number(*_at(config, "topK")),
        seed=fields.integer(*_at(config, "seed")),
        presence_penalty=nonzero(*_at(config, "presencePenalty")),
        frequency_penalty=nonzero(*_at(config, "frequencyPenalty")),
        stop=stop_of(*_at(config, "stopSequences")),
        schema=schema,
        json=mime == _JSON and schema is None,
        thinking=_thinking(config),
        tier=_tier(body),
        choices=several(*_at(config, "candidateCount")),
    )


class _Turns:
    """Reads ``contents`` in order, since a call and its result are matched by it."""

    def __init__(self) -> None:
        self.made = 0
        #: Ids of calls by their name, oldest first; those in `answered` wait for nothing any more.
        self.called: dict[str, deque[str]] = {}
        self.answered: set[str] = set()

    def read(self, body: dict[str, Any]) -> Iterator[Turn]:
        system = tuple(self._system(body))
        if system:
            yield Turn(Role.SYSTEM, system)
        contents = fields.objects(fields.optional_list(body, "contents"), "contents")
        for role, group in groupby(contents, key=_voice):
            said = list(group)
            # Google's helpers keep each chunk of an answer as a content of its own: together they are the model's turn.
            for turn in [said] if role is Role.ASSISTANT else [[each] for each in said]:
                yield from self._turns(role, [part for param, content in turn for part in _parts(content, param)])

    def _system(self, body: dict[str, Any]) -> Iterator[Text]:
        value = _member(body, "systemInstruction")
        if type(value) is str:
            yield Text(value)
            return
        for path, part in _parts(_object(body, "systemInstruction", "systemInstruction"), "systemInstruction"):
            yield Text(_string(part, "text", path))

    def _turns(self, role: Role, parts: list[tuple[str, dict[str, Any]]]) -> Iterator[Turn]:
        rest: list[Part] = []
        results: list[Part] = []
        thought = ""
        for path, part in parts:
            if part.get("thought") is True and _member(part, "thoughtSignature") is None:
                thought += _string(part, "text", path)
                continue
            rest.extend(_reasoning(part, path, thought))
            thought = ""
            for each in self._part(part, path):
                _append(results if type(each) is ToolResult else rest, each)
        if results:
            yield Turn(Role.TOOL, tuple(results))
        if rest or not results:
            yield Turn(role, tuple(rest))

    def _part(self, part: dict[str, Any], param: str) -> Iterator[Part]:
        if part.get("thought") is True:
            return
        call = _object(part, "functionCall", f"{param}.functionCall")
        response = _object(part, "functionResponse", f"{param}.functionResponse")
        if call:
            yield self._use(call, f"{param}.functionCall")
        elif response:
            yield self._result(response, f"{param}.functionResponse")
        elif part.get("text") is not None:
            yield from [Text(_string(part, "text", param))] if part["text"] != "" else []
        else:
            yield from _media(part, param)

    def _use(self, call: dict[str, Any], param: str) -> ToolUse:
        if any(_member(call, name) is not None for name in ("partialArgs", "willContinue")):
            raise unconvertible(param, "partial arguments are not converted")
        name = fields.required_string(call, "name", f"{param}.name")
        self.made += 1
        id_ = _string(call, "id", param) or f"call_{self.made}"
        self.called.setdefault(name, deque()).append(id_)
        arguments = fields.optional_object(call, "args", f"{param}.args") or {}
        return ToolUse(
            id=id_, tool=ToolName(name), arguments=msgspec.json.encode(arguments).decode(), param=f"{param}.args"
        )

    def _result(self, response: dict[str, Any], param: str) -> ToolResult:
        name = fields.required_string(response, "name", f"{param}.name")
        id_ = _string(response, "id", param) or self._oldest(name)
        if not id_:
            raise BadRequest(f"Invalid '{param}': it answers no function call.", param=param)
        self.answered.add(id_)
        value = fields.optional_object(response, "response", f"{param}.response") or {}
        error = set(value) == {"error"}
        inner = value[next(iter(value))] if set(value) in ({"output"}, {"result"}, {"error"}) else value
        text = inner if type(inner) is str else msgspec.json.encode(inner).decode()
        parts: list[Text | Image | Any] = [Text(text)] if text else []
        for path, each in _parts(response, param):
            parts += _media(each, path)
        return ToolResult(id=id_, parts=tuple(parts), error=error, param=param)

    def _oldest(self, name: str) -> str:
        waiting = self.called.get(name, deque())
        while waiting and waiting[0] in self.answered:
            waiting.popleft()
        return waiting[0] if waiting else ""


def _voice(content: tuple[str, dict[str, Any]]) -> Role:
    """Whose words a content holds."""
    param, value = content
    role = _ROLES.get(_string(value, "role", param))
    if role is None:
        raise unconvertible(f"{param}.role", "contents of this role are not converted")
    return role


def _append(parts: list[Part], part: Part) -> None:
    """Texts one after another are one text: to Google, a part is no paragraph."""
    last = parts[-1] if parts else None
    if type(part) is Text and type(last) is Text:
        parts[-1] = Text(last.text + part.text)
    else:
        parts.append(part)


def _parts(content: dict[str, Any], param: str) -> Iterator[tuple[str, dict[str, Any]]]:
    parts = content.get("parts")
    # A lone part is read as a list of one.
    several = [parts] if type(parts) is dict else fields.optional_list(content, "parts", f"{param}.parts")
    return fields.objects(several, f"{param}.parts")


def _reasoning(part: dict[str, Any], param: str, thought: str) -> Iterator[Reasoning]:
    carried = unpack(_member(part, "thoughtSignature"))
    if carried is not None:
        own = _string(part, "text", param) if part.get("thought") is True else ""
        yield Reasoning(carried=carried, text=thought + own)


def _media(part: dict[str, Any], param: str) -> Iterator[Any]:
    for name in ("inlineData", "fileData"):
        value = _object(part, name, f"{param}.{name}")
        if not value:
            continue
        mime = _string(value, "mimeType", f"{param}.{name}").lower()
        title = _string(value, "displayName", f"{param}.{name}")
        if name == "inlineData":
            data = fields.required_string(value, "data", f"{param}.{name}.data")
            yield media.media_of_data(mime, data, title=title, param=f"{param}.{name}")
        else:
            uri = _string(value, "fileUri", f"{param}.{name}")
            if "googleapis.com" in uri:
                raise unconvertible(f"{param}.fileData.fileUri", "it names what is kept at the provider")
            yield media.media_of_url(uri, mime, title=title, param=f"{param}.{name}")
        return
    if any(value is not None and camel(name) not in _ASIDE for name, value in part.items()):
        raise unconvertible(param, "parts of this kind are not converted")


def _tools(body: dict[str, Any], droppable: frozenset[str]) -> Iterator[Tool]:
    for param, tool in fields.objects(fields.optional_list(body, "tools"), "tools"):
        for key, value in tool.items():
            if camel(key) == "functionDeclarations":
                declared = fields.optional_list(tool, key, f"{param}.functionDeclarations")
                for path, each in fields.objects(declared, f"{param}.functionDeclarations"):
                    yield _declaration(each, path)
            elif value is not None and hosted_name(key, value, param) not in droppable:
                raise unconvertible(param, "tools that the provider runs are not converted")


def _declaration(each: dict[str, Any], param: str) -> Tool:
    schema = fields.optional_object(*_at(each, "parametersJsonSchema", param))
    own = fields.optional_object(*_at(each, "parameters", param))
    return Tool(
        tool=ToolName(fields.required_string(each, "name", f"{param}.name")),
        description=_string(each, "description", param),
        schema=schema if schema is not None or own is None else from_openapi(own),
    )


def _choice(body: dict[str, Any]) -> Choice | None:
    config = _object(_object(body, "toolConfig", "toolConfig"), "functionCallingConfig", "toolConfig")
    if not config:
        return None
    mode = _string(config, "mode", "toolConfig.functionCallingConfig").upper() or "AUTO"
    if mode not in _MODES:
        raise BadRequest("Invalid 'toolConfig.functionCallingConfig.mode'.", param="toolConfig")
    names = stop_of(*_at(config, "allowedFunctionNames", "toolConfig.functionCallingConfig"))
    return Choice(_MODES[mode], tuple(ToolName(name) for name in names))


def _schema(config: dict[str, Any]) -> Schema | None:
    schema = fields.optional_object(*_at(config, "responseJsonSchema"))
    own = fields.optional_object(*_at(config, "responseSchema"))
    if schema is None and own is None:
        return None
    return Schema(schema=schema if schema is not None else from_openapi(own or {}))


def _thinking(config: dict[str, Any]) -> Thinking | None:
    thinking = _object(config, "thinkingConfig", "generationConfig.thinkingConfig")
    if not thinking:
        return None
    place = "generationConfig.thinkingConfig"
    budget = fields.integer(*_at(thinking, "thinkingBudget", place))
    level = _string(thinking, "thinkingLevel", place).lower()
    summary = fields.flag(*_at(thinking, "includeThoughts", place))
    if budget == 0:
        return Thinking(effort="none")
    effort = level if level != "thinking_level_unspecified" else ""
    if budget is not None and budget < 0:
        return Thinking(effort=effort, budget_tokens=-1, summary=summary)
    return Thinking(effort=effort, budget_tokens=budget, summary=summary) if effort or budget or summary else None


def _tier(body: dict[str, Any]) -> str:
    tier = tier_of(body, _at(body, "serviceTier")[1])
    return "" if tier in ("unspecified", "service_tier_unspecified") else "default" if tier == "standard" else tier


def _spelling(body: dict[str, Any], name: str) -> str:
    """The name under which `body` has a field: camelCase, unless only snake_case is there."""
    return name if body.get(name) is not None else snake(name)


def _member(body: dict[str, Any], name: str) -> Any:
    return body.get(_spelling(body, name))


def _at(body: dict[str, Any], name: str, place: str = "generationConfig") -> tuple[dict[str, Any], str, str]:
    """The arguments by which `fields` reads a field in either spelling."""
    return body, _spelling(body, name), f"{place}.{name}"


def _object(body: dict[str, Any], name: str, param: str) -> dict[str, Any]:
    return fields.optional_object(body, _spelling(body, name), param) or {}


def _string(body: dict[str, Any], name: str, place: str) -> str:
    return fields.string(*_at(body, name, place))
