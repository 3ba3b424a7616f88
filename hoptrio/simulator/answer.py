"""Answer: what the simulated model says to a prompt: pieces of text, tool calls, and the token counts of both. Pure.

The same prompt and script always give the same answer; only `serial`, which makes ids unique, differs.
"""

from __future__ import annotations

from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

import msgspec

from hoptrio.simulator.prompt import Tool

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hoptrio.simulator.prompt import Prompt
    from hoptrio.simulator.script import Script

__all__ = ["Answer", "ToolCall", "answer_to", "distort"]

_EXCERPT_CHARS = 80
#: Tools put words of their own around what they found.
_RESULT_CHARS = 400
_WORDS = (
    "This answer ",
    "is simulated: ",
    "it comes ",
    "in pieces, ",
    "each is ",
    "one token, ",
    "and all are counted ✓. ",
    "Nothing was ",
    "sent to a model, ",
    "nothing was spent ",
    "but simulated money. ",
)
_THOUGHTS = ("Let me see: ", "what is asked, ", "what is known, ", "and what follows. ")
#: What is called where the request offers nothing.
_OWN_TOOL = Tool("simulated_tool", {})
#: Both halves of a tool call's arguments are one piece each.
TOOL_PIECES = 2


class ToolCall(msgspec.Struct, frozen=True):
    """One call; `fragments` joined are its arguments, a JSON object, or the free-form input of a custom tool."""

    id: str
    tool: Tool
    fragments: tuple[str, str]

    @property
    def name(self) -> str:
        return self.tool.name

    @property
    def arguments(self) -> str:
        return "".join(self.fragments)


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of one choice, and the counts of all choices."""

    serial: int
    model: str
    script: Script
    choices: int
    #: Who said what the answer is about: "You", or "The tool".
    speaker: str
    subject: str
    reasoning_count: int
    text_count: int
    calls: tuple[ToolCall, ...]
    #: "stop", "length", "filter", "block" or "tools".
    finish: str
    input_tokens: int
    output_tokens: int
    total_tokens: int
    reasoning_tokens: int

    def reasoning(self) -> Iterator[str]:
        """The pieces of reasoning."""
        return islice(cycle(_THOUGHTS), self.reasoning_count)

    def text(self) -> Iterator[str]:
        """The pieces of text, padded to the script's `size`."""
        pieces = _cut(self.script.text, self.script.events) if self.script.text else _talk(self.speaker, self.subject)
        size = self.script.size
        for piece in islice(pieces, self.text_count):
            missing = size - len(piece.encode()) if size else 0
            yield piece + "." * missing if missing > 0 else piece


def answer_to(prompt: Prompt, script: Script, serial: int) -> Answer:
    """What is said to `prompt`: `script` within the prompt's output limit."""
    limit = prompt.output_limit
    events = min(script.events, len(script.text)) if script.text else script.events
    calls = () if prompt.result is not None else tuple(_calls(prompt, script, serial))
    wanted = script.reasoning + events + TOOL_PIECES * len(calls)
    room = wanted if limit is None else limit
    reasoning = min(script.reasoning, room)
    text = min(events, room - reasoning)
    if wanted > room:
        calls = ()
    return _counted(prompt, script, serial, reasoning, text, calls, cut=wanted > room)


def _counted(
    prompt: Prompt, script: Script, serial: int, reasoning: int, text: int, calls: tuple[ToolCall, ...], *, cut: bool
) -> Answer:
    pieces = (reasoning + text + TOOL_PIECES * len(calls)) * prompt.choices
    input_tokens = prompt.input_tokens if script.input is None else script.input
    output_tokens = pieces if script.output is None else script.output
    return Answer(
        serial=serial,
        model=prompt.model,
        script=script,
        choices=prompt.choices,
        speaker="You" if prompt.result is None else "The tool",
        subject=prompt.subject[: _EXCERPT_CHARS if prompt.result is None else _RESULT_CHARS],
        reasoning_count=reasoning,
        text_count=text,
        calls=calls,
        finish=_finish(script, calls, cut=cut),
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        total_tokens=input_tokens + output_tokens if script.total is None else script.total,
        reasoning_tokens=reasoning * prompt.choices,
    )


def _finish(script: Script, calls: tuple[ToolCall, ...], *, cut: bool) -> str:
    if script.finish != "stop":
        return script.finish
    if cut:
        return "length"
    return "tools" if calls else "stop"


def _calls(prompt: Prompt, script: Script, serial: int) -> Iterator[ToolCall]:
    """The tools in turn that the request offers, or one of our own if it offers none; of those that the script names
    the first that is offered, or no call."""
    if script.tool:
        offered = {tool.full_name: tool for tool in reversed(prompt.tools)}
        tools = [offered[name] for name in script.tool if name in offered][:1]
        count = max(1, script.tools) if tools else 0
    else:
        tools, count = list(prompt.tools) or [_OWN_TOOL], script.tools
    for index, tool in enumerate(islice(cycle(tools), count)):
        arguments = _input(script.args) if tool.custom else script.args or _encode(_arguments(tool))
        half = len(arguments) // 2
        yield ToolCall(f"call_sim_{serial}_{index}", tool, (arguments[:half], arguments[half:]))


def _input(args: str) -> str:
    """A custom tool's input: the member ``input`` of the arguments, which is what such a tool is where it has to be a
    function."""
    return str(msgspec.json.decode(args or "{}").get("input", "simulated"))


def _encode(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _arguments(tool: Tool) -> dict[str, Any]:
    """Arguments that satisfy a JSON schema's required properties, one level deep."""
    properties = tool.schema.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    required = tool.schema.get("required")
    names = required if isinstance(required, list) else list(properties)
    return {str(name): _value(properties.get(name)) for name in names}


_VALUES: dict[str, Any] = {"integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}, "null": None}


def _value(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return "simulated"
    if isinstance(schema.get("enum"), list) and schema["enum"]:
        return schema["enum"][0]
    return _VALUES.get(str(schema.get("type", "string")).lower(), "simulated")


def _talk(speaker: str, subject: str) -> Iterator[str]:
    if subject:
        yield from (f"{speaker} ", "said: ", f"“{subject}”. ")
    yield from cycle(_WORDS)


def _cut(text: str, count: int) -> Iterator[str]:
    """`text` in `count` pieces of nearly equal length, none empty."""
    count = min(count, len(text))
    for i in range(count):
        yield text[i * len(text) // count : (i + 1) * len(text) // count]


_DISTORTIONS: dict[str, Any] = {
    "zero": lambda count: 0,
    "negative": lambda count: -count - 1,
    "huge": lambda count: 2**63,
    "string": str,
    "float": lambda count: count + 0.5,
}


def distort(usage: dict[str, Any], kind: str) -> dict[str, Any] | None:
    """The usage object as `kind` has it: every count wrong in the way named, {} for "empty", None for "null"."""
    if kind == "null":
        return None
    if kind == "empty":
        return {}
    change = _DISTORTIONS.get(kind)
    if change is None:
        return usage
    return {key: distort(value, kind) if isinstance(value, dict) else change(value) for key, value in usage.items()}
