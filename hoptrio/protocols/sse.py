"""Server-sent events as bytes: `Splitter` cuts a provider's body into events, two functions write events.

The splitter follows WHATWG HTML 9.2.6 for every line end and every way a body can be cut into reads, in linear time.
It never decodes text, never changes a byte of an event's data, and never holds more than one unfinished event.

How it stays fast and right at once: line ends are made LF as they arrive (data holds neither CR nor LF, so no payload
is touched; a CR ends its line at once and an LF directly behind it, even in the next read, is swallowed), so an event
always ends at ``LF LF`` and one `bytes.split` finds them all. Blank and comment lines of an unfinished event are
dropped on arrival, so that nothing but an event can make `partial_bytes` grow.

Beyond the standard: an event whose blank line is missing at the end of a body is dispatched if it is whole, and a JSON
object printed outside ``data:`` (how some servers report an error) becomes a `stray` event.
"""

from __future__ import annotations

from hoptrio.limits import EVENT_BYTES_MAX, EVENT_LARGE_BYTES
from hoptrio.protocols.events import SseEvent
from hoptrio.protocols.members import is_object

__all__ = ["KEEPALIVE", "Splitter", "data_event", "named_event"]

#: A comment and a blank line, so that it swallows no event in any parser (contract, "Keep-alive bytes").
KEEPALIVE = b": hopbase-keepalive\n\n"

_BOM = b"\xef\xbb\xbf"
# Integers, since `in` with a byte is one memchr and `in` with bytes is three times as slow.
_LF = 0x0A
_CR = 0x0D
_COLON = 0x3A
#: Makes a named tuple in half the time of its own constructor; for the one place every event passes.
_new = tuple.__new__


class Splitter:
    """Cuts one body into events: `feed` every read, then `finish` at a clean end of the body only."""

    __slots__ = ("_after_cr", "_at_start", "_bytes_max", "_line_at", "_pending", "too_large")

    def __init__(self, *, event_bytes_max: int = EVENT_BYTES_MAX) -> None:
        self._bytes_max = event_bytes_max
        #: The unfinished event: whole lines that matter, then the unfinished line, which starts at `_line_at`.
        self._pending = bytearray()
        self._line_at = 0
        #: The last byte read was a CR, which has already ended its line.
        self._after_cr = False
        #: No byte is known yet not to be part of a byte order mark.
        self._at_start = True
        #: An event exceeded the limit. It was dropped and nothing more will be dispatched.
        self.too_large = False

    @property
    def partial_bytes(self) -> int:
        """Size of the unfinished event once it is large (`EVENT_LARGE_BYTES`), else 0: growth of it is progress."""
        if not self._pending:
            return 0
        in_comment = self._pending[self._line_at : self._line_at + 1] == b":"
        size = self._line_at if in_comment else len(self._pending)
        return size if size >= EVENT_LARGE_BYTES else 0

    @property
    def between(self) -> bool:
        """Whether an event may begin with the next byte."""
        return not (self._pending or self._after_cr or self._at_start)

    def feed(self, data: bytes) -> list[SseEvent]:
        """Take one read and return the events it completes, in order."""
        if self.too_large:
            return []
        if self._at_start:
            data = self._strip_bom(data)
        if self._after_cr or _CR in data:
            data = self._to_lf(data)
        pending = self._pending
        if pending:
            if data.find(b"\n\n") < 0 and not (pending[-1] == _LF and data[:1] == b"\n"):
                self._hold(data)
                return []
            pending += data
            data = bytes(pending)
            pending.clear()
            self._line_at = 0
        blocks = data.split(b"\n\n")
        rest = blocks.pop()
        events: list[SseEvent] = []
        may_exceed = len(data) > self._bytes_max
        for block in blocks:
            if may_exceed and len(block) > self._bytes_max:
                self.too_large = True
                return events
            if block.startswith(b"data: ") and _LF not in block:
                events.append(_new(SseEvent, (b"", block[6:], False)))
            elif block:
                _read_block(block, events)
        if rest:
            self._hold(rest)
        return events

    def finish(self) -> list[SseEvent]:
        """The event left without its blank line at the clean end of a body, if it is whole: a JSON object or
        ``[DONE]``. One that was cut off is dropped, since only whole events are ever written."""
        events: list[SseEvent] = []
        _read_block(bytes(self._pending), events)
        self._pending.clear()
        self._line_at = 0
        return [event for event in events if event.data.strip() == b"[DONE]" or is_object(event.data)]

    def _strip_bom(self, data: bytes) -> bytes:
        data = bytes(self._pending) + data
        if len(data) < len(_BOM) and _BOM.startswith(data):
            self._pending[:] = data
            return b""
        self._pending.clear()
        self._at_start = False
        return data.removeprefix(_BOM)

    def _to_lf(self, data: bytes) -> bytes:
        """Replace every line end by LF. A CR at the end of a read counts at once; an LF that follows it does not."""
        if not data:
            return data
        if self._after_cr and data[0] == _LF:
            data = data[1:]
            self._after_cr = False
        if data:
            self._after_cr = data.endswith(b"\r")
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _hold(self, data: bytes) -> None:
        """Keep a part of an event that no blank line has ended yet, without its blank and comment lines."""
        pending = self._pending
        if _LF in data:
            lines = (bytes(pending[self._line_at :]) + data).split(b"\n")
            data = lines.pop()
            del pending[self._line_at :]
            for line in lines:
                if line and line[0] != _COLON:
                    pending += line
                    pending.append(_LF)
            self._line_at = len(pending)
        pending += data
        if len(pending) > self._bytes_max:
            self.too_large = True
            pending.clear()
            self._line_at = 0


def data_event(data: bytes) -> bytes:
    """An event without a name. An LF inside `data` becomes a further ``data:`` line, as it was read."""
    if _LF in data:
        data = data.replace(b"\n", b"\ndata: ")
    return b"data: " + data + b"\n\n"


def named_event(name: bytes, data: bytes) -> bytes:
    """An event with an ``event:`` line. `name` must hold neither CR nor LF."""
    return b"event: " + name + b"\n" + data_event(data)


def _read_block(block: bytes, events: list[SseEvent]) -> None:
    """Append what one block of lines dispatches: nothing, an event, and a stray object if there is one."""
    first, _, rest = block.partition(b"\n")
    if first.startswith(b"event: ") and rest.startswith(b"data: ") and _LF not in rest:
        events.append(_new(SseEvent, (first[7:], rest[6:], False)))
        return
    name = b""
    data: list[bytes] = []
    others: list[bytes] = []
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ")
        elif field not in (b"", b"id", b"retry"):
            others.append(line)
    if data:
        events.append(SseEvent(name, b"\n".join(data)))
    if others:
        _read_stray(others, events)


def _read_stray(lines: list[bytes], events: list[SseEvent]) -> None:
    """A JSON object printed raw, on one line or on several, or behind ``error:`` (llama.cpp)."""
    for at, line in enumerate(lines):
        text = line.removeprefix(b"error:").lstrip()
        if text.startswith(b"{"):
            data = b"\n".join([text, *lines[at + 1 :]]).rstrip()
            if is_object(data):
                events.append(SseEvent(b"", data, stray=True))
            return
