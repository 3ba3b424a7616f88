"""Answer: what the simulated model says to a prompt: pieces of text, tool calls, and the token counts of both. Pure.

The same prompt and script always give the same answer; only `serial`, which makes ids unique, differs.
"""

from __future__ import annotations

from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hoptrio.simulator.prompt import Prompt, Tool
    from hoptrio.simulator.script import Script

__all__ = ["Answer", "ToolCall", "answer_to", "distort"]

_EXCERPT_CHARS = 80
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
#: Both halves of a tool call's arguments are one piece each.
TOOL_PIECES = 2


class ToolCall(msgspec.Struct, frozen=True):
    """One call; `fragments` joined are its arguments, a JSON object."""

    id: str
    name: str
    fragments: tuple[str, str]

    @property
    def arguments(self) -> str:
        return "".join(self.fragments)


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of one choice, and the counts of all choices."""

    serial: int
    model: str
    script: Script
    choices: int
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
        pieces = _cut(self.script.text, self.script.events) if self.script.text else _talk(self.subject)
        size = self.script.size
        for piece in islice(pieces, self.text_count):
            missing = size - len(piece.encode()) if size else 0
            yield piece + "." * missing if missing > 0 else piece


def answer_to(prompt: Prompt, script: Script, serial: int) -> Answer:
    """What is said to `prompt`: `script` within the prompt's output limit."""
    limit = prompt.output_limit
    events = min(script.events, len(script.text)) if script.text else script.events
    calls = () if prompt.tool_answered else tuple(_call(prompt, script, serial, i) for i in range(script.tools))
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
        subject=prompt.subject[:_EXCERPT_CHARS],
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


def _call(prompt: Prompt, script: Script, serial: int, index: int) -> ToolCall:
    """The `index`-th call: the request's tools in turn, or one of our own if it has none."""
    tool = prompt.tools[index % len(prompt.tools)] if prompt.tools else None
    arguments = script.args or msgspec.json.encode(_arguments(tool)).decode()
    half = len(arguments) // 2
    name = tool.name if tool else "simulated_tool"
    return ToolCall(f"call_sim_{serial}_{index}", name, (arguments[:half], arguments[half:]))


def _arguments(tool: Tool | None) -> dict[str, Any]:
    """Arguments that satisfy a JSON schema's required properties, one level deep."""
    if tool is None:
        return {}
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


def _talk(subject: str) -> Iterator[str]:
    if subject:
        yield from ("You ", "said: ", f"“{subject}”. ")
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
