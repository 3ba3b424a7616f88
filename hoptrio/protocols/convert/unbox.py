"""Boxes in a request that is not converted: the provider of the client's own protocol could read none of them. Pure.

A client returns what a converted answer gave it (`carrier`), also when its next request goes to a channel of its own
protocol. A token that the provider did not make is refused there, so that each box is left out with the reasoning that
it stands for, as reasoning of another provider is on a converted channel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from hoptrio.protocols.convert.carrier import BOXED, unpack
from hoptrio.protocols.convert.request.encode.gemini import NO_SIGNATURE
from hoptrio.protocols.convert.request.encode.messages import lacks_thoughts
from hoptrio.protocols.events import Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hoptrio.protocols.events import Call

    Body = dict[str, Any]

__all__ = ["boxed", "unboxed"]

_BOXED = BOXED.encode()


def boxed(body: bytes) -> bool:
    """May an encoded request have boxes? As quick as looking through it once."""
    return _BOXED in body


def unboxed(call: Call) -> Call:
    """The call without them. Chat has no place for any."""
    change = _BY_PROTOCOL.get(call.protocol)
    return call if change is None else msgspec.structs.replace(call, body=change(call.body))


def _messages(body: Body) -> Body:
    turns = [_turn(turn) for turn in body["messages"]]
    changed = body | {"messages": [turn for turn in turns if turn.get("content") != []]}
    thinking = body.get("thinking")
    if isinstance(thinking, dict) and thinking.get("type") == "enabled" and lacks_thoughts(changed["messages"]):
        del changed["thinking"]
    return changed


def _turn(turn: Body) -> Body:
    content = turn.get("content")
    if not isinstance(content, list):
        return turn
    return turn | {"content": [block for block in content if not _has(block, "signature", "data")]}


def _responses(body: Body) -> Body:
    items = body.get("input")
    if not isinstance(items, list):
        return body
    return body | {"input": [item for item in items if not _has(item, "encrypted_content")]}


def _gemini(body: Body) -> Body:
    contents = body.get("contents")
    if not isinstance(contents, list):
        return body
    changed = [_content(content) for content in contents]
    return body | {"contents": [content for content in changed if content.get("parts") != []]}


def _content(content: Body) -> Body:
    parts = content.get("parts")
    if not isinstance(parts, list):
        return content
    return content | {"parts": [part for each in parts if (part := _part(each)) is not None]}


def _part(part: Any) -> Any:
    """A thought goes with its box; a text stays, and so does a call, with the signature documented for such calls."""
    names = ("thoughtSignature", "thought_signature")
    if not _has(part, *names):
        return part
    rest = {name: value for name, value in part.items() if name not in names}
    if "functionCall" in rest or "function_call" in rest:
        return rest | {"thoughtSignature": NO_SIGNATURE}
    return None if rest.get("thought") is True or rest == {"text": ""} else rest


def _has(value: Any, *names: str) -> bool:
    return isinstance(value, dict) and any(unpack(value.get(name)) is not None for name in names)


_BY_PROTOCOL: Mapping[Protocol, Callable[[Body], Body]] = {
    Protocol.MESSAGES: _messages,
    Protocol.RESPONSES: _responses,
    Protocol.GEMINI: _gemini,
}
