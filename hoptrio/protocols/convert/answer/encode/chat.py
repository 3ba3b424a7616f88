"""Writes Chat Completions chunks. Pure.

Chat interleaves as it likes, so nothing waits: a call's place among the calls is its ``index``. Deltas repeat neither
role nor id nor name, since the SDKs' helpers join them (protocols page 0, 15). A usage chunk of its own, and
``usage: null`` on every other, if and only if the client asked for it (contract, "Events are not touched").
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import proxy

import msgspec

from hoptrio.limits import CHOICES_MAX
from hoptrio.protocols.chat.errors import error_event
from hoptrio.protocols.convert.answer.amounts import chat_usage
from hoptrio.protocols.convert.answer.ends import CHAT, End, refined
from hoptrio.protocols.convert.naming import ToolName
from hoptrio.protocols.sse import data_event

if TYPE_CHECKING:
    from collections.abc import Hashable

    from hoptrio.contract import Reason
    from hoptrio.errors import HoptrioError
    from hoptrio.protocols.convert.answer.vocabulary import Citation, Origin, Weighed
    from hoptrio.protocols.convert.carrier import Carried

__all__ = ["ChatEncoder"]

_encode = msgspec.json.Encoder().encode


class ChatEncoder:
    """See `vocabulary.Encoder`. `include_usage`: the client asked for it."""

    def __init__(self, origin: Origin, *, include_usage: bool) -> None:
        self.origin = origin
        self.unconvertible = ""
        self._tracks: dict[int, _ChatTrack] = {}
        head = {
            "id": f"chatcmpl-{origin.token}",
            "object": "chat.completion.chunk",
            "created": origin.created_s,
            "model": origin.model,
        }
        self.head = b"data: " + _encode(head)[:-1] + b',"choices":['
        self.tail = b'],"usage":null}\n\n' if include_usage else b"]}\n\n"
        self._include_usage = include_usage

    def start(self) -> bytes:
        """The chunk with the role."""
        return self.track(0).role()

    def track(self, choice: int) -> _ChatTrack:
        """A choice; one that was not expected gets its role with its first bytes."""
        if choice >= CHOICES_MAX:
            self.refuse("too many choices")
            return self.track(0)
        return self._tracks.get(choice) or self._new_track(choice)

    def refuse(self, why: str) -> None:
        """See `vocabulary.Encoder`."""
        self.unconvertible = self.unconvertible or why

    def end(self, usage: Weighed | None) -> bytes:
        """A finish chunk for each choice, usage, ``[DONE]``."""
        wire = b"".join(track.close_all() for track in self._tracks.values())
        if self._include_usage and usage is not None:
            wire += self.head + b'],"usage":' + _encode(chat_usage(usage)) + b"}\n\n"
        return wire + data_event(b"[DONE]")

    def mark(self) -> None:
        """Chat's error event fits behind anything."""

    def failure(self, reason: Reason, error: HoptrioError) -> bytes:
        """``data: {"error": ...}``."""
        return error_event(error)

    def _new_track(self, choice: int) -> _ChatTrack:
        track = self._tracks[choice] = _ChatTrack(self, choice)
        return track


class _ChatTrack:
    """See `vocabulary.Track`."""

    def __init__(self, owner: ChatEncoder, choice: int) -> None:
        # Not owned: a cycle would wait for the collector.
        self._owner: ChatEncoder = proxy(owner)
        self._choice = choice
        self._calls: dict[Hashable, _Call] = {}
        self._end = End.STOP
        self._refused = False
        self._entries = 0
        self._begun = choice == 0
        self._delta = owner.head + b'{"index":%d,"delta":' % choice
        self._rest = b',"finish_reason":null}' + owner.tail
        self._text = self._delta + b'{"content":'
        self._text_rest = b"}" + self._rest

    def role(self) -> bytes:
        """The first delta."""
        self._begun = True
        return self._delta + b'{"role":"assistant","content":null}' + self._rest

    def text(self, text: str, logprobs: list[Any] | None = None) -> bytes:
        """``content``."""
        if logprobs:
            measured = {"content": [_measured(each) for each in logprobs], "refusal": None}
            return self._write({"content": text}, b',"logprobs":' + _encode(measured))
        if self._begun:
            return self._text + _encode(text) + self._text_rest
        return self._write({"content": text})

    def refusal(self, text: str) -> bytes:
        """``refusal``."""
        self._refused = True
        return self._write({"refusal": text})

    def reasoning(self, text: str) -> bytes:
        """``reasoning_content``, what most tools read first (protocols page 3.5)."""
        return self._write({"reasoning_content": text})

    def state(self, carried: Carried) -> bytes:
        """Chat has no slot for it."""
        return b""

    def close(self) -> bytes:
        """Chat has no blocks."""
        return b""

    def tool_open(self, key: Hashable, call_id: str, name: str, *, custom: bool = False) -> bytes:
        """The first delta of a call: id, type and name."""
        index = len(self._calls)
        call_id = call_id or f"call_{self._owner.origin.token}_{self._choice}_{index}"
        tool = self._owner.origin.names.get(name) or ToolName(name, custom=custom)
        self._calls[key] = _Call(index, custom)
        kind, body = ("custom", {"name": tool.name, "input": ""}) if custom else ("function", {"name": tool.name})
        if not custom:
            body["arguments"] = ""
        return self._write({"tool_calls": [{"index": index, "id": call_id, "type": kind, kind: body}]})

    def tool_args(self, key: Hashable, text: str) -> bytes:
        """A further delta of a call."""
        call = self._calls[key]
        call.began = call.began or bool(text)
        body = {"custom": {"input": text}} if call.custom else {"function": {"arguments": text}}
        return self._write({"tool_calls": [{"index": call.index, **body}]})

    def tool_close(self, key: Hashable) -> bytes:
        """Without arguments a call has the empty object, since clients parse them."""
        call = self._calls[key]
        return b"" if call.began or call.custom else self.tool_args(key, "{}")

    def citation(self, citation: Citation) -> bytes:
        """``annotations``."""
        url = {
            "url": citation.url,
            "title": citation.title,
            "start_index": citation.start,
            "end_index": citation.end,
        }
        return self._write({"annotations": [self._listed({"type": "url_citation", "url_citation": url})]})

    def image(self, media_type: str, data: str) -> bytes:
        """OpenRouter's ``images``."""
        url = {"type": "image_url", "image_url": {"url": f"data:{media_type};base64,{data}"}}
        return self._write({"images": [self._listed(url)]})

    def finish(self, end: End, stop_sequence: str | None = None) -> None:
        """Written with the terminal."""
        self._end = end

    def close_all(self) -> bytes:
        """The chunk with the ``finish_reason``."""
        end = refined(self._end, called=bool(self._calls), refused=self._refused)
        reason = b'{},"finish_reason":"' + CHAT[end].encode() + b'"}'
        return self._opening() + self._delta + reason + self._owner.tail

    def _write(self, delta: dict[str, Any], more: bytes = b"") -> bytes:
        return self._opening() + self._delta + _encode(delta) + more + self._rest

    def _listed(self, entry: dict[str, Any]) -> dict[str, Any]:
        """An entry of a list in a delta; OpenAI's helper raises on one without an ``index`` of its own."""
        self._entries += 1
        return {"index": self._entries - 1, **entry}

    def _opening(self) -> bytes:
        return b"" if self._begun else self.role()


class _Call:
    """A tool call under way."""

    __slots__ = ("began", "custom", "index")

    def __init__(self, index: int, custom: bool) -> None:
        self.index = index
        self.custom = custom
        #: Arguments were written.
        self.began = False


def _measured(token: Any) -> Any:
    """Chat requires ``bytes`` and ``top_logprobs``, which Responses may leave out."""
    return {"bytes": None, "top_logprobs": [], **token} if isinstance(token, dict) else token
