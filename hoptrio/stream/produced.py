"""What an answer has said so far, kept to be measured should the provider never say how much it was.

Made only for streams whose contract charges what was produced; the readers of all others are fed directly. Pieces of
one text are joined as bytes, in blocks that grow: a list of short strings would take ten times their size. A usage
report of the provider covers all that was said before it, which is forgotten: only what no report covers is measured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoptrio import limits
from hoptrio.protocols.events import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hoptrio.protocols.events import SseEvent, Step
    from hoptrio.protocols.rules import Reader, Rules
    from hoptrio.protocols.texts import Said

__all__ = ["Produced"]

#: Where parts beyond the bound are joined.
_REST = (-1, "rest")


class Produced:
    """The words of one answer, bounded in bytes and in parts."""

    def __init__(self, rules: Rules) -> None:
        self._said = rules.said
        self._blocks: dict[tuple[int, str], bytearray] = {}
        self._bytes = 0

    def reading(self, reader: Reader) -> Callable[[SseEvent], Step]:
        """The reader's `feed`, which also gathers what each event says."""

        def feed(event: SseEvent) -> Step:
            step = reader.feed(event)
            if step.kind is Kind.ANSWER or step.kind is Kind.TERMINAL:
                self.take(event.data)
            if b'"usage' in event.data and (reported := reader.reported) is not None and reported.output:
                self._forget(list(self._blocks))
            return step

        return feed

    def take(self, data: bytes) -> None:
        """Gather what an event's data, or a whole body, says."""
        if len(data) <= limits.PRODUCED_EVENT_BYTES_MAX:
            self._gather(self._said(data))

    def texts(self) -> tuple[str, ...]:
        """All that was gathered, a text a part."""
        return tuple(block.decode("utf-8", "ignore") for block in self._blocks.values())

    def _gather(self, found: Iterable[Said]) -> None:
        for group, pieces, whole in found:
            if whole and not self._make_way(group, pieces):
                continue
            for part, text in pieces:
                self._add((group, part), text.encode())

    def _make_way(self, group: int, pieces: list[tuple[str, str]]) -> bool:
        """A whole that says no more than its pieces did adds nothing; one that does takes their place."""
        old = [key for key in self._blocks if key[0] == group]
        if sum(len(text.encode()) for _, text in pieces) <= sum(len(self._blocks[key]) for key in old):
            return False
        self._forget(old)
        return True

    def _forget(self, keys: list[tuple[int, str]]) -> None:
        for key in keys:
            self._bytes -= len(self._blocks.pop(key))

    def _add(self, key: tuple[int, str], text: bytes) -> None:
        if key not in self._blocks and len(self._blocks) >= limits.PRODUCED_PARTS_MAX:
            key = _REST
        room = limits.PRODUCED_BYTES_MAX - self._bytes
        block = self._blocks.setdefault(key, bytearray())
        block += text[:room]
        self._bytes += min(len(text), room)
