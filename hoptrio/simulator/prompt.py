"""Prompt: what the simulated provider reads of a request, whatever protocol it speaks. Pure.

It is lenient where a real provider is strict: the gateway's own checks are tested against the gateway. Only what
cannot be answered at all is refused.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Any

import msgspec

from hoptrio.protocols.events import Framing, Operation, Protocol
from hoptrio.simulator.script import find_directive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["Prompt", "Tool", "read_prompt"]


class Tool(msgspec.Struct, frozen=True):
    """A tool the model may call: a function, or one of free-form input (`custom`)."""

    name: str
    schema: dict[str, Any]
    namespace: str = ""
    custom: bool = False

    @property
    def full_name(self) -> str:
        """As scripts name it, and as it is called where a protocol has no namespaces."""
        return f"{self.namespace}__{self.name}" if self.namespace else self.name


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """One request. `text` is the last user text, `text_bytes` the UTF-8 size of all text in the messages."""

    protocol: Protocol
    model: str
    framing: Framing
    text: str
    text_bytes: int
    tools: tuple[Tool, ...] = ()
    #: The text of the tool results that the request ends with, so that the model now speaks; None = there are none.
    result: str | None = None
    output_limit: int | None = None
    choices: int = 1
    #: Chat: ``stream_options.include_usage`` is true.
    usage_asked: bool = False
    operation: Operation = Operation.GENERATE
    #: Embeddings: each text to embed, how long a vector is (0 = ours to say), and in which form it is asked for.
    texts: tuple[str, ...] = ()
    dimensions: int = 0
    base64: bool = False

    @property
    def input_tokens(self) -> int:
        """The documented rule: a token is four bytes of text, rounded up, at least one."""
        return max(1, -(-self.text_bytes // 4))

    @property
    def subject(self) -> str:
        """What the answer is about, on one line: the tools' results, or the user's text without its ``sim:`` line."""
        if self.result is not None:
            return " ".join(self.result.split())
        lines = self.text.splitlines()
        if find_directive(self.text) is not None:
            lines = [line for line in lines if not line.lstrip().startswith("sim:")]
        return " ".join(" ".join(lines).split())


def read_prompt(protocol: Protocol, path: str, query: Mapping[str, str], body: bytes) -> Prompt:
    """Read a request; `path` names Gemini's model and verb. Raises ValueError if it is not a JSON object."""
    try:
        value = msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise ValueError("the request body is not a JSON object") from None
    return _READERS[protocol](value, path, query)


def _chat(body: dict[str, Any], path: str, query: Mapping[str, str]) -> Prompt:
    if path.endswith("/embeddings"):
        return _embeddings(body)
    return _images(body) if path.endswith("/images/generations") else _completion(body)


def _embeddings(body: dict[str, Any]) -> Prompt:
    given = body.get("input")
    texts = tuple(map(str, given)) if isinstance(given, list) else (str(given),)
    return Prompt(
        protocol=Protocol.CHAT,
        operation=Operation.EMBEDDINGS,
        model=str(body.get("model", "")),
        framing=Framing.JSON,
        text="\n".join(texts),
        text_bytes=sum(map(_size, texts)),
        texts=texts,
        dimensions=_limit(body.get("dimensions")) or 0,
        base64=body.get("encoding_format") == "base64",
    )


def _images(body: dict[str, Any]) -> Prompt:
    text = str(body.get("prompt", ""))
    return Prompt(
        protocol=Protocol.CHAT,
        operation=Operation.IMAGES,
        model=str(body.get("model", "")),
        framing=Framing.JSON,
        text=text,
        text_bytes=_size(text),
        choices=_count(body.get("n")),
    )


def _completion(body: dict[str, Any]) -> Prompt:
    messages = _dicts(body.get("messages"))
    return Prompt(
        protocol=Protocol.CHAT,
        model=str(body.get("model", "")),
        framing=Framing.SSE if body.get("stream") is True else Framing.JSON,
        text=_last_user_text(messages, "content"),
        text_bytes=sum(map(_size, _texts(messages))),
        tools=tuple(_tool(_dict(tool.get("function"))) for tool in _dicts(body.get("tools"))),
        result=_result([each.get("content") for each in _ending(messages, lambda each: each.get("role") == "tool")]),
        output_limit=_limit(body.get("max_completion_tokens"), body.get("max_tokens")),
        choices=_count(body.get("n")),
        usage_asked=_dict(body.get("stream_options")).get("include_usage") is True,
    )


def _responses(body: dict[str, Any], path: str, query: Mapping[str, str]) -> Prompt:
    given = body.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else _dicts(given)
    return Prompt(
        protocol=Protocol.RESPONSES,
        model=str(body.get("model", "")),
        framing=Framing.SSE if body.get("stream") is True else Framing.JSON,
        text=_last_user_text(items, "content"),
        text_bytes=sum(map(_size, _texts([body.get("instructions"), items]))),
        tools=tuple(_responses_tools(body, items)),
        result=_result([each.get("output") for each in _ending(items, _is_output)]),
        output_limit=_limit(body.get("max_output_tokens")),
    )


def _messages(body: dict[str, Any], path: str, query: Mapping[str, str]) -> Prompt:
    messages = _dicts(body.get("messages"))
    blocks = [block for each in _ending(messages, _is_user) for block in _dicts(each.get("content"))]
    return Prompt(
        protocol=Protocol.MESSAGES,
        model=str(body.get("model", "")),
        framing=Framing.SSE if body.get("stream") is True else Framing.JSON,
        text=_last_user_text(messages, "content"),
        text_bytes=sum(map(_size, _texts([body.get("system"), messages]))),
        tools=tuple(_tool(tool) for tool in _dicts(body.get("tools"))),
        result=_result([block.get("content") for block in blocks if block.get("type") == "tool_result"]),
        output_limit=_limit(body.get("max_tokens")),
    )


def _gemini(body: dict[str, Any], path: str, query: Mapping[str, str]) -> Prompt:
    # countTokens may have the whole request inside.
    body = _dict(body.get("generateContentRequest")) or body
    given = body.get("contents")
    contents = [{"parts": [{"text": given}]}] if isinstance(given, str) else _dicts(given)
    config = _dict(body.get("generationConfig") or body.get("generation_config"))
    system = body.get("systemInstruction") or body.get("system_instruction")
    parts = [part for each in _ending(contents, _is_user) for part in _dicts(each.get("parts"))]
    responses = [_dict(part.get("functionResponse") or part.get("function_response")) for part in parts]
    model, _, verb = path.rpartition("/models/")[2].rpartition(":")
    return Prompt(
        protocol=Protocol.GEMINI,
        model=model,
        framing=_gemini_framing(verb, query),
        text=_last_user_text(contents, "parts"),
        text_bytes=sum(map(_size, _texts([system, contents]))),
        tools=tuple(_tool(tool) for tool in _gemini_tools(body)),
        result=_result([response.get("response") for response in responses if response]),
        output_limit=_limit(config.get("maxOutputTokens"), config.get("max_output_tokens")),
        choices=_count(config.get("candidateCount") or config.get("candidate_count")),
    )


_READERS = {
    Protocol.CHAT: _chat,
    Protocol.RESPONSES: _responses,
    Protocol.MESSAGES: _messages,
    Protocol.GEMINI: _gemini,
}


def _gemini_framing(verb: str, query: Mapping[str, str]) -> Framing:
    if verb != "streamGenerateContent":
        return Framing.JSON
    return Framing.SSE if query.get("alt") == "sse" else Framing.JSON_ARRAY


def _responses_tools(body: dict[str, Any], items: list[dict[str, Any]]) -> Iterator[Tool]:
    """Those of the request and of its items, out of their namespaces."""
    brought = [tool for item in items if item.get("type") == "additional_tools" for tool in _dicts(item.get("tools"))]
    for tool in _dicts(body.get("tools")) + brought:
        if tool.get("type") == "namespace":
            for each in _dicts(tool.get("tools")):
                yield _tool(each, str(tool.get("name", "")))
        elif tool.get("type") in ("function", "custom"):
            yield _tool(tool)


def _gemini_tools(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for tool in _dicts(body.get("tools")):
        yield from _dicts(tool.get("functionDeclarations") or tool.get("function_declarations"))


def _tool(function: dict[str, Any], namespace: str = "") -> Tool:
    """Each protocol has its own name for the schema."""
    schema = function.get("parameters") or function.get("input_schema") or function.get("parametersJsonSchema")
    return Tool(str(function.get("name", "")), _dict(schema), namespace, function.get("type") == "custom")


def _ending(turns: list[dict[str, Any]], wanted: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
    """The turns of one kind that the request ends with; reminders of the system behind them (Claude Code sends one
    with every result) change nothing."""
    spoken = [each for each in turns if each.get("role") not in ("system", "developer")]
    return list(takewhile(wanted, reversed(spoken)))[::-1]


def _is_user(turn: dict[str, Any]) -> bool:
    return turn.get("role", "user") in ("user", "function")


def _is_output(item: dict[str, Any]) -> bool:
    return str(item.get("type")).endswith("_call_output")


def _result(outputs: list[Any]) -> str | None:
    """The text of tool results; None if there are none."""
    return "\n".join(_texts(outputs)) if outputs else None


def _last_user_text(messages: list[dict[str, Any]], key: str) -> str:
    """The text of the last user message that has any: a tool result in between does not hide the script."""
    for message in reversed(messages):
        if message.get("role", "user") == "user":
            content = message.get(key)
            parts = [content] if isinstance(content, str) else [part.get("text") for part in _dicts(content)]
            text = "\n".join(part for part in parts if isinstance(part, str))
            if text:
                return text
    return ""


#: Members of a message that are names or codes and not text.
_NOT_TEXT = frozenset({"role", "type", "id", "name", "tool_call_id", "tool_use_id", "call_id", "status", "signature"})


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, dict):
        for key, each in value.items():
            if key not in _NOT_TEXT:
                yield from _texts(each)


def _size(text: str) -> int:
    return len(text.encode())


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _limit(*values: Any) -> int | None:
    limits = [value for value in values if isinstance(value, int) and value > 0]
    return max(limits, default=None)


def _count(value: Any) -> int:
    return value if isinstance(value, int) and 1 <= value <= 128 else 1
