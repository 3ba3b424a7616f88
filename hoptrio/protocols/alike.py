"""What repeats is compared, not parsed: a run of events that differ in their text alone. Sans-IO.

Most events of an answer are the one before them with another word in it. Once a reader has read one of them in full, an
event with the same bytes around a plain text says the same of the stream: it moves the answer, and nothing else. A read
of such events is one `split` and a look at the texts: 0.2 us an event, where reading each takes 2.

That is exact, since the bytes around the text are those of an event that was understood, they hold no escape, and a
text without a quote, an escape or a line end cannot end early. (A control character in a text, which JSON forbids, goes
on to the client as it would otherwise, but counts as progress.) A reader takes for an example only what would teach it
nothing if it came again, and forgets it with the next event that it has to read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Alike", "Text"]

#: So often in a row is a likeness looked for that no event has: some providers pad every event at random.
_TRIES_MAX = 16
#: An open stream keeps its example: no more than is usual around a word.
_EVENT_BYTES_MAX = 2048


class Text(NamedTuple):
    """Where an event's text stands: its member's name with quotes and colon, and the value with its quotes."""

    field: bytes
    value: bytes


class _Around(NamedTuple):
    """What stands before, between and behind the texts of a run."""

    head: bytes
    between: bytes
    tail: bytes


class Alike:
    """What the events of one answer have around their texts, as read and as told."""

    __slots__ = ("_example", "_read", "_told", "_tries")

    def __init__(self) -> None:
        self._tries = 0
        self._example: tuple[bytes, bytes, Callable[[Any], Text | None], Any] | None = None
        #: As read, and as told if that is not the same; made of the example when it is needed.
        self._read: _Around | None = None
        self._told: _Around | None = None

    def follow(self, told: bytes, read: bytes, find: Callable[[Any], Text | None], decoded: Any) -> None:
        """Take an event for an example: `told` to the client, `read` from the provider (the same if nothing is
        withheld), both whole and written as `sse` writes events. `find` is called with `decoded` if it is needed."""
        if self._tries < _TRIES_MAX and len(read) <= _EVENT_BYTES_MAX:
            self._example = (told, read, find, decoded)

    def forget(self) -> None:
        """An event may have meant something else."""
        self._example = self._read = None

    def run(self, data: bytes) -> tuple[int, bytes] | None:
        """How many events `data` is, and what the client is told of them; None if it is not a run of whole events that
        are alike and move the answer."""
        if self._read is None:
            self._read_example()
        around = self._read
        if around is None:
            return None
        head, between, tail = around
        if not data.startswith(head) or not data.endswith(tail) or len(data) < len(head) + len(tail):
            return None
        texts = data[len(head) : -len(tail)].split(between)
        said = b"".join(texts)
        if not said or b'"' in said or b"\\" in said or b"\n" in said or b"\r" in said:
            return None
        self._tries = 0
        if self._told is None:
            return len(texts), data
        head, between, tail = self._told
        return len(texts), head + between.join(texts) + tail

    def _read_example(self) -> None:
        if self._example is None:
            return
        told, read, find, decoded = self._example
        self._example = None
        self._tries += 1
        text = find(decoded)
        if text is None or b"\\" in read or (around := _around(read, text)) is None:
            return
        self._told = _around(told, text) if told != read else None
        if told == read or self._told is not None:
            self._read = around


def _around(event: bytes, text: Text) -> _Around | None:
    """None unless the member with the text stands there once, so that nothing else is taken for it."""
    for name in (text.field, text.field + b" "):
        head, found, tail = event.partition(name + text.value)
        if found and text.value[:1] == b'"' and name + text.value not in tail:
            head, tail = head + name + b'"', b'"' + tail
            return _Around(head, tail + head, tail)
    return None
