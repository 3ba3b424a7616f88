"""How the answers of one request look: heads of streams and bodies, and errors in the shape of the protocol called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoptrio import limits
from hoptrio.protocols.events import Framing, Protocol
from hoptrio.stream.ports import Rendered
from hoptrio.upstream.relay import relayed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hoptrio.errors import HoptrioError
    from hoptrio.protocols.rules import Rules
    from hoptrio.upstream.answer import Answer

__all__ = ["Face"]

JSON = (b"content-type", b"application/json")
#: nginx and browsers' proxies must neither buffer nor transform a stream.
UNBUFFERED = (
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)
CONTENT_TYPES = {
    Framing.SSE: (b"content-type", b"text/event-stream; charset=utf-8"),
    Framing.JSON_ARRAY: JSON,
    Framing.JSON: JSON,
}


class Face:
    """`stream.ports.Face` for one request; every answer of it carries `extra` too (CORS, dropped tools)."""

    def __init__(self, rules: Rules, request_id: str, framing: Framing = Framing.JSON) -> None:
        self._rules = rules
        self.request_id = request_id
        self.framing = framing
        self.extra: list[tuple[bytes, bytes]] = []
        self._dropped_tools: frozenset[str] = frozenset()

    def stream_headers(self, answer: Answer | None) -> Sequence[tuple[bytes, bytes]]:
        """A stream's head; the provider's own headers only if they are there in time."""
        passed = () if answer is None else relayed(answer.headers)
        return [CONTENT_TYPES[self.framing], *UNBUFFERED, *self.ids(), *passed, *self._more()]

    def body_headers(self, answer: Answer) -> Sequence[tuple[bytes, bytes]]:
        """The head of a provider's whole JSON answer."""
        return [JSON, *self.ids(), *relayed(answer.headers), *self._more()]

    def json_headers(self) -> Sequence[tuple[bytes, bytes]]:
        """The head of a JSON answer of our own."""
        return [JSON, *self.ids(), *self._more()]

    def refusal(self, error: HoptrioError) -> Rendered:
        """An error's status, head and body; SDKs are told what a retry cannot mend."""
        headers = list(self.json_headers())
        headers += [(name.encode(), value.encode()) for name, value in error.headers]
        if not error.retryable:
            headers.append((b"x-should-retry", b"false"))
        if error.retry_after_s is not None:
            wait_s = min(error.retry_after_s, limits.RETRY_AFTER_MAX_S)
            headers.append((b"retry-after", b"%d" % wait_s))
        return Rendered(self._rules.error_status(error), headers, self._rules.error_body(error, self.request_id))

    def tools_dropped(self, names: frozenset[str]) -> None:
        """The channel that is asked now is not told of these hosted tools."""
        self._dropped_tools = names

    def _more(self) -> list[tuple[bytes, bytes]]:
        if not self._dropped_tools:
            return self.extra
        dropped = ", ".join(sorted(self._dropped_tools)).encode("ascii", "replace")
        return [*self.extra, (b"x-hoptrio-dropped-tools", dropped)]

    def ids(self) -> list[tuple[bytes, bytes]]:
        """The request id, under the names that clients read."""
        request_id = self.request_id.encode()
        ids = [(b"x-request-id", request_id)]
        if self._rules.protocol is Protocol.MESSAGES:
            ids.append((b"request-id", request_id))
        return ids
