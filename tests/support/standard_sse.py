"""How the standard reads a stream of events, written to be compared with and not to be fast."""

from __future__ import annotations

from hoptrio.protocols.events import SseEvent

__all__ = ["standard"]


def standard(body: bytes) -> list[SseEvent]:
    """WHATWG HTML 9.2.6, word for word; what no blank line ends is not dispatched."""
    *lines, _ = body.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    found: list[SseEvent] = []
    name, data = b"", list[bytes]()
    for line in lines:
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if not line:
            if data:
                found.append(SseEvent(name, b"\n".join(data)))
            name, data = b"", []
        elif field == b"data":
            data.append(value)
        elif field == b"event":
            name = value
    return found
