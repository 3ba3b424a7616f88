"""The streams that run in this process: counted, found by request id, and stopped at shutdown."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hoptrio.contract import Reason
    from hoptrio.stream.stream import Stream

__all__ = ["Registry"]


class Registry:
    """Live streams by request id, drains included."""

    def __init__(self) -> None:
        self._streams: dict[str, Stream] = {}

    def __len__(self) -> int:
        return len(self._streams)

    @contextmanager
    def running(self, request_id: str, stream: Stream) -> Iterator[None]:
        """Registered while the block runs."""
        self._streams[request_id] = stream
        try:
            yield
        finally:
            del self._streams[request_id]

    def get(self, request_id: str) -> Stream | None:
        """The live stream of a request, if it runs here."""
        return self._streams.get(request_id)

    def stop_all(self, reason: Reason) -> None:
        """End the provider's side of every stream; each is then settled and told by its contract."""
        for stream in self._streams.values():
            stream.stop(reason)
