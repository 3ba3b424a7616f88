"""The words in a JSON value of any protocol: what a model was asked, and what it said. Pure.

Used only where usage is missing and has to be measured. The four protocols spell the same few things under names that
do not collide, so one walk knows them all: text, reasoning, names and arguments of tools. Names it does not know are
passed over: an image, a signature or an id must never be counted as if a model had read or written its characters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from hoptrio.protocols.members import ABSENT, is_filled, split_members

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["Said", "asked", "attachments", "is_answer", "texts", "token_ids", "turns"]

#: Members that are text, or hold further values with text.
_READ = frozenset(
    (
        *("content", "text", "refusal", "thinking", "partial_json", "name", "arguments", "transcript", "code"),
        *("output", "summary", "parts", "message", "tool_calls", "function", "custom", "function_call", "audio"),
        *("functionCall", "functionResponse", "executableCode", "source"),
    )
)
#: Members that a model reads or writes as JSON, unless they are text.
_VALUES = frozenset(("input", "args", "response"))
#: Spellings of the same reasoning: providers send one, or several at once (protocols page 3.5).
_REASONING = ("reasoning_content", "reasoning", "reasoning_text", "reasoning_details")
#: Members of a request that a model reads: as text, and as JSON.
_ASKED = (
    "instructions",
    "system",
    "systemInstruction",
    "system_instruction",
    "messages",
    "contents",
    "input",
    "prompt",
)
_DECLARED = ("tools", "functions", "response_format")
#: Members of a whole body in which its answer stands.
_ANSWERS = ("choices", "output", "content", "candidates", "data")
#: Members of a request that hold its turns, and of a turn or a part that hold parts with something to see or hear.
_TURNS = ("messages", "contents", "input")
_HOLDERS = ("content", "parts", "output", "source")
#: Types of parts that are no words; Gemini has members instead.
_MEDIA = frozenset(
    (
        *("image", "image_url", "input_image", "video_url", "input_audio", "document", "file", "input_file"),
        *("computer_screenshot", "container_upload"),
    )
)
_MEDIA_MEMBERS = frozenset(("inlineData", "inline_data", "fileData", "file_data"))
#: Real answers nest five deep; a stranger's JSON may not exhaust the stack.
_DEPTH_MAX = 16


class Said(NamedTuple):
    """What one event adds to an answer: pieces of text by the part of it that they continue."""

    #: The choice, output item, block or candidate.
    group: int
    pieces: list[tuple[str, str]]
    #: The pieces are all of the group, sent once more or for the first time.
    whole: bool = False


def texts(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """(path, text) of every text in `value`; pieces of one text in several events have the same path."""
    if isinstance(value, str):
        if value:
            yield path, value
    elif depth > _DEPTH_MAX:
        return
    elif isinstance(value, list):
        for position, each in enumerate(value):
            index = each.get("index", position) if isinstance(each, dict) else position
            yield from texts(each, f"{path}[{index}]", depth + 1)
    elif isinstance(value, dict):
        yield from _members(value, path, depth)


def _members(value: dict[str, Any], path: str, depth: int) -> Iterator[tuple[str, str]]:
    for name, member in value.items():
        if name in _READ:
            yield from texts(member, f"{path}.{name}", depth + 1)
        elif name in _VALUES:
            yield from texts(_json(member), f"{path}.{name}", depth + 1)
    reasoning = next((value[name] for name in _REASONING if value.get(name)), None)
    if reasoning is not None:
        yield from texts(reasoning, f"{path}.reasoning", depth + 1)
    if value.get("media_type") == "text/plain":
        yield from texts(value.get("data"), f"{path}.data", depth + 1)


def asked(body: Mapping[str, Any]) -> Iterator[str]:
    """Every text of a request that its model reads, the declarations of tools and formats included."""
    for name in _ASKED:
        for _, text in texts(body.get(name)):
            yield text
    for name in _DECLARED:
        if declared := body.get(name):
            yield _json(declared)


def turns(body: Mapping[str, Any]) -> int:
    """Messages, contents or items of a request; a text alone is one."""
    return sum(len(value) if isinstance(value, list) else 1 for name in _TURNS if (value := body.get(name)))


def attachments(body: Mapping[str, Any]) -> int:
    """Images, documents and other parts of a request that are no words; a document in plain text is words."""
    return sum(_attached(body.get(name)) for name in (*_TURNS, "system"))


def _attached(value: Any, depth: int = 0) -> int:
    if depth > _DEPTH_MAX:
        return 0
    if isinstance(value, list):
        return sum(_attached(each, depth + 1) for each in value)
    if not isinstance(value, dict):
        return 0
    if _is_media(value):
        return 1
    return sum(_attached(value.get(name), depth + 1) for name in _HOLDERS)


def _is_media(part: dict[str, Any]) -> bool:
    source = part.get("source")
    worded = isinstance(source, dict) and source.get("type") in ("text", "content")
    kind = part.get("type")
    return (isinstance(kind, str) and kind in _MEDIA and not worded) or not _MEDIA_MEMBERS.isdisjoint(part)


def token_ids(body: Mapping[str, Any]) -> int:
    """Tokens of an ``input`` that was given as their numbers, in one list or in several."""
    given = body.get("input")
    lists = given if isinstance(given, list) else []
    return sum(len(each) if isinstance(each, list) else isinstance(each, int) for each in lists)


def is_answer(body: bytes) -> bool:
    """Whether a whole body holds any part of an answer, in words or not."""
    members = split_members(body)
    return any(is_filled(members.get(name, ABSENT)) for name in _ANSWERS)


def _json(value: Any) -> str:
    """A value as the model has it; an empty one is nothing, a text is itself."""
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode() if value else ""
