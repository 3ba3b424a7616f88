"""Events that the strict decoder refuses, read all the same; and texts mended that a provider cut in two. Pure.

Providers cut ``\\ud83d\\ude00`` between its halves, each then a lone surrogate, which has no UTF-8 form: the strict
decoder refuses the event. Python's own decoder takes it, and `Mending` joins the halves again, over events.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

if TYPE_CHECKING:
    from collections.abc import Hashable

    from hoptrio.protocols.convert.answer.ends import End
    from hoptrio.protocols.convert.answer.vocabulary import Citation, Track
    from hoptrio.protocols.convert.carrier import Carried

__all__ = ["Mending", "read_leniently", "to_json"]

T = TypeVar("T")

_HIGH = range(0xD800, 0xDC00)


def read_leniently(data: bytes, kind: type[T]) -> T | None:
    """One object with whatever it holds; None if it is none, or of a make that says nothing here."""
    try:
        value = json.loads(data.decode("utf-8", "replace"))
        return msgspec.convert(value, kind)
    except (ValueError, RecursionError):
        return None


def to_json(value: Any) -> str:
    """A value of the provider's as JSON."""
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        return msgspec.json.encode(_clean(value)).decode()


class Mending:
    """A track (see `vocabulary.Track`) that gives clean texts to another one."""

    def __init__(self, track: Track) -> None:
        self._track = track
        #: What a text goes to -> the first half of a pair, whose second is awaited.
        self._halves: dict[Hashable, str] = {}

    def text(self, text: str, logprobs: list[Any] | None = None) -> bytes:
        """See `vocabulary.Track`."""
        return self._track.text(mended, _clean(logprobs)) if (mended := self._mend("text", text)) else b""

    def refusal(self, text: str) -> bytes:
        """See `vocabulary.Track`."""
        return self._track.refusal(mended) if (mended := self._mend("refusal", text)) else b""

    def reasoning(self, text: str) -> bytes:
        """See `vocabulary.Track`."""
        return self._track.reasoning(mended) if (mended := self._mend("reasoning", text)) else b""

    def tool_args(self, key: Hashable, text: str) -> bytes:
        """See `vocabulary.Track`."""
        return self._track.tool_args(key, mended) if (mended := self._mend(("tool", key), text)) else b""

    def tool_open(self, key: Hashable, call_id: str, name: str, *, custom: bool = False) -> bytes:
        """See `vocabulary.Track`."""
        return self._track.tool_open(key, _whole(call_id), _whole(name), custom=custom)

    def state(self, carried: Carried) -> bytes:
        """See `vocabulary.Track`."""
        return self._track.state(msgspec.structs.replace(carried, token=_whole(carried.token)))

    def citation(self, citation: Citation) -> bytes:
        """See `vocabulary.Track`."""
        return self._track.citation(citation._replace(url=_whole(citation.url), title=_whole(citation.title)))

    def image(self, media_type: str, data: str) -> bytes:
        """See `vocabulary.Track`."""
        return self._track.image(_whole(media_type), _whole(data))

    def close(self) -> bytes:
        """See `vocabulary.Track`: a half that stands alone is lost."""
        self._halves = {key: half for key, half in self._halves.items() if type(key) is tuple}
        return self._track.close()

    def tool_close(self, key: Hashable) -> bytes:
        """See `vocabulary.Track`."""
        return self._track.tool_close(key)

    def finish(self, end: End, stop_sequence: str | None = None) -> None:
        """See `vocabulary.Track`."""
        self._track.finish(end, None if stop_sequence is None else _whole(stop_sequence))

    def _mend(self, key: Hashable, text: str) -> str:
        text = self._halves.pop(key, "") + text
        if text and ord(text[-1]) in _HIGH:
            self._halves[key] = text[-1]
            text = text[:-1]
        return _whole(text)


def _whole(text: str) -> str:
    """Pairs joined, what stands alone replaced."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return _whole(value)
    if isinstance(value, list):
        return [_clean(each) for each in value]
    if isinstance(value, dict):
        return {_clean(key): _clean(each) for key, each in value.items()}
    return value
