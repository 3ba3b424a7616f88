"""Wire: events as bytes, well formed or oddly formed as the script's `wire` asks. Pure.

`Encoder` writes one event (WHATWG HTML 9.2.6, or an element of Gemini's JSON array); `written` changes how the bytes
of a whole stream are cut into writes, compressed or begun. Neither ever changes an event's data.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from hoptrio.protocols.events import Framing
from hoptrio.simulator.steps import End, Send, Sleep

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hoptrio.simulator.frames import Frame
    from hoptrio.simulator.script import Script
    from hoptrio.simulator.steps import Steps

__all__ = ["Encoder", "written"]

_GZIP_WBITS = 31
_ODDITIES = frozenset({"crlf", "cr", "unnamed", "ids", "nospace"})
_BOM = b"\xef\xbb\xbf"


class Encoder:
    """Writes the events of one stream."""

    __slots__ = ("_array", "_eol", "_ids", "_named", "_odd", "_sent", "_space")

    def __init__(self, script: Script, framing: Framing) -> None:
        wire = script.wire
        self._array = framing is Framing.JSON_ARRAY
        self._odd = bool(wire & _ODDITIES)
        self._eol = b"\r\n" if "crlf" in wire else b"\r" if "cr" in wire else b"\n"
        self._space = b"" if "nospace" in wire else b" "
        self._named = "unnamed" not in wire
        self._ids = "ids" in wire
        self._sent = 0

    def event(self, frame: Frame) -> bytes:
        """One whole event."""
        self._sent += 1
        if self._array:
            return (b"[" if self._sent == 1 else b"\n,\r\n") + frame.data
        if self._odd:
            return self._odd_event(frame)
        if frame.name:
            return b"event: %s\ndata: %s\n\n" % (frame.name, frame.data)
        return b"data: %s\n\n" % frame.data

    def comment(self) -> bytes:
        """A comment and a blank line; a newline between the elements of an array."""
        return b"\n" if self._array else b": simulated" + self._eol * 2

    def blank(self) -> bytes:
        """A blank line."""
        return self._eol

    def closing(self) -> bytes:
        """What the end of the body adds: the array's bracket."""
        if not self._array:
            return b""
        return b"\n]" if self._sent else b"[]"

    def _odd_event(self, frame: Frame) -> bytes:
        eol, space = self._eol, self._space
        lines = [b"id:%s%d%s" % (space, self._sent, eol)] if self._ids else []
        if frame.name and self._named:
            lines.append(b"event:%s%s%s" % (space, frame.name, eol))
        lines.append(b"data:%s%s%s" % (space, frame.data, eol))
        return b"".join(lines) + eol


def written(steps: Steps, script: Script) -> Steps:
    """The same stream in the writes, and with the compression, that the script asks for."""
    if "unterminated" in script.wire:
        steps = _unterminated(steps)
    if "bom" in script.wire:
        steps = _begun(steps, _BOM)
    if script.batch > 1:
        steps = _batched(steps, script.batch)
    if script.wire & {"gzip", "gzip-unlabelled"}:
        steps = _compressed(steps)
    if "split" in script.wire:
        steps = _split(steps)
    if script.trickle:
        steps = _trickled(steps, script.trickle, script.pace_s)
    return steps


def _unterminated(steps: Steps) -> Steps:
    """The last event of a clean end lacks its blank line."""
    last: Send | None = None
    for step in steps:
        if last is not None:
            yield Send(last.data[:-1].rstrip(b"\r")) if isinstance(step, End) else last
        last = step if isinstance(step, Send) else None
        if last is None:
            yield step


def _begun(steps: Steps, prefix: bytes) -> Steps:
    for step in steps:
        if isinstance(step, Send) and prefix:
            yield Send(prefix + step.data)
            prefix = b""
        else:
            yield step


def _batched(steps: Steps, count: int) -> Steps:
    """`count` events a write; pauses add up in front of it."""
    waiting: list[bytes] = []
    for step in steps:
        if isinstance(step, Send):
            waiting.append(step.data)
        elif waiting and not isinstance(step, Sleep):
            yield Send(b"".join(waiting))
            waiting.clear()
        if len(waiting) == count:
            yield Send(b"".join(waiting))
            waiting.clear()
        if not isinstance(step, Send):
            yield step


def _compressed(steps: Steps) -> Steps:
    """Every event is flushed, as a server that streams compressed has to."""
    squeeze = zlib.compressobj(wbits=_GZIP_WBITS)
    for step in steps:
        if isinstance(step, Send):
            yield Send(squeeze.compress(step.data) + squeeze.flush(zlib.Z_SYNC_FLUSH))
        elif isinstance(step, End):
            yield Send(squeeze.flush())
            yield step
        else:
            yield step


def _split(steps: Steps) -> Steps:
    """Every write in two, cut inside its first multi-byte character if it has one."""
    for step in steps:
        if isinstance(step, Send) and len(step.data) > 1:
            at = _inside(step.data)
            yield Send(step.data[:at])
            yield Send(step.data[at:])
        else:
            yield step


def _inside(data: bytes) -> int:
    for at, byte in enumerate(data[:-1]):
        if byte >= 0xC0:
            return at + 1
    return len(data) // 2


def _trickled(steps: Steps, size: int, pause_s: float) -> Steps:
    for step in steps:
        if isinstance(step, Send):
            yield from _drops(step.data, size, pause_s)
        else:
            yield step


def _drops(data: bytes, size: int, pause_s: float) -> Iterator[Send | Sleep]:
    for at in range(0, len(data), size):
        if at and pause_s:
            yield Sleep(pause_s)
        yield Send(data[at : at + size])
