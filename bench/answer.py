"""Answer: what comes back to one request, bytes in, counts out: head, framing, stamped events, usage, terminal. No I/O.

An event of the harness's provider carries the moment it was sent; an event of anybody else's is counted where its
``data:`` stands.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from bench.unchunk import Unchunk
from bench.unframe import Unframe

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.dialogs import Dialog

__all__ = ["Answer"]

#: An event's member and its stamp may be in two reads, and so may a usage object.
_CARRY_BYTES = 48
_USAGE_BYTES = 512
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})")
_REQUEST_ID = re.compile(rb"\r\nx-request-id: *([^\r]*)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked", re.IGNORECASE)
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_EVENT = b"\ndata:"
_SWITCHED = 101


class Answer:
    """One answer. `on_event` is called for each event with its delay in ns (None: there is none yet) and the clock."""

    __slots__ = (
        "_carry",
        "_dialog",
        "_head",
        "_last_ns",
        "_left",
        "_on_event",
        "_recent",
        "_stamped",
        "_unchunk",
        "_unframe",
        "events",
        "input",
        "output",
        "request_id",
        "status",
        "terminal",
    )

    def __init__(self, dialog: Dialog, on_event: Callable[[int | None, int], None], *, stamped: bool = True) -> None:
        self._dialog = dialog
        self._on_event = on_event
        self._stamped = stamped
        self._carry = self._recent = b""
        self._head: bytes | None = b""
        self._unchunk: Unchunk | None = None
        #: After a 101: the body is messages of a WebSocket.
        self._unframe: Unframe | None = None
        #: Bytes to come of a body whose length was told.
        self._left: int | None = None
        self._last_ns = 0
        self.status = self.events = 0
        self.request_id = ""
        self.input: int | None = None
        self.output: int | None = None
        #: The protocol's own end was seen.
        self.terminal = False

    @property
    def finished(self) -> bool:
        """The body is over by its framing; False as long as only the connection's end can tell. A turn on a WebSocket
        is over with its terminal."""
        if self._unframe is not None:
            return self.terminal or self._unframe.finished
        return self._left == 0 if self._unchunk is None else self._unchunk.finished

    @property
    def chunked(self) -> bool:
        """Its end can be told from a cut."""
        return self._unchunk is not None or self._unframe is not None

    @property
    def switched(self) -> bool:
        """The connection is a WebSocket now, and waits for a message."""
        return self._unframe is not None

    def feed(self, data: bytes, now_ns: int) -> bytes:
        """What was received; the bytes of the body in it. Raises ValueError for broken framing."""
        if self._head is not None:
            data = self._take_head(data)
        if self._unchunk is not None:
            data = self._unchunk.feed(data)
        elif self._unframe is not None:
            data = self._unframe.feed(data)
        elif self._left is not None:
            self._left = max(0, self._left - len(data))
        if data:
            self.body(data, now_ns)
        return data

    def body(self, data: bytes, now_ns: int) -> None:
        """Bytes of the body that came without head and framing."""
        dialog = self._dialog
        recent = self._recent + data
        data = self._carry + data
        end = self._stamps(data, now_ns) if self._stamped else self._counted(data, now_ns)
        if dialog.usage_hint in recent:
            for usage in dialog.usage.finditer(recent):
                # The last one counts.
                self.input, self.output = int(usage[1]), int(usage[2])
        self._recent = recent[-_USAGE_BYTES:]
        if not self.terminal and dialog.terminal in data:
            self.terminal = True
        self._carry = data[max(end, len(data) - _CARRY_BYTES) :]

    def _take_head(self, data: bytes) -> bytes:
        head = (self._head or b"") + data
        head, found, rest = head.partition(b"\r\n\r\n")
        if not found:
            self._head = head
            return b""
        self._head = None
        status, request_id, length = _STATUS.match(head), _REQUEST_ID.search(head), _LENGTH.search(head)
        self.status = int(status[1]) if status else 0
        self.request_id = request_id[1].decode("latin-1") if request_id else ""
        if self.status == _SWITCHED:
            self._unframe = Unframe()
            # The first turn's.
            self.request_id += "-1"
        elif _CHUNKED.search(head):
            self._unchunk = Unchunk()
        elif length:
            self._left = int(length[1])
        self._carry = b"\n"
        return rest

    def _stamps(self, data: bytes, now_ns: int) -> int:
        """Events of the harness's provider; the end of the last one's stamp."""
        end = 0
        for match in self._dialog.stamp.finditer(data):
            end = match.end()
            self.events += 1
            self._on_event(now_ns - int(match[1]), now_ns)
        return end

    def _counted(self, data: bytes, now_ns: int) -> int:
        """Events of anybody; the delay is the time since the one before."""
        end = data.rfind(_EVENT) + 1
        for _ in range(data.count(_EVENT)):
            self.events += 1
            self._on_event(now_ns - self._last_ns if self._last_ns else None, now_ns)
            self._last_ns = now_ns
        return end
