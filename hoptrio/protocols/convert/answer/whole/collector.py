"""Keeps a whole answer, block by block, for a client that does not stream. Pure."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING
from weakref import proxy

from hoptrio.protocols.convert.answer.blocks import Block, Blocks, Sort

if TYPE_CHECKING:
    from typing import Any

    from hoptrio.contract import Reason
    from hoptrio.errors import HoptrioError
    from hoptrio.protocols.convert.answer.vocabulary import Citation, Origin, Weighed

__all__ = ["BodyEncoder", "Collected"]


class Collected(Blocks):
    """One choice: its blocks in order."""

    def __init__(self, owner: BodyEncoder, choice: int) -> None:
        super().__init__()
        # Not owned: with a cycle a whole answer would wait for the collector.
        self._owner: BodyEncoder = proxy(owner)
        self.choice = choice
        self.blocks: list[Block] = []

    def text_of(self, *sorts: Sort) -> str:
        """All text of some sorts."""
        return "".join(block.text for block in self.blocks if block.sort in sorts)

    def refuse(self, why: str) -> None:
        """See `Blocks`."""
        self._owner.refuse(why)

    def _begin(self, block: Block) -> bytes:
        self.blocks.append(block)
        return b""

    def _add(self, block: Block, text: str) -> bytes:
        if block.sort is not Sort.TOOL:
            block.pieces.append(text)
        return b""

    def _add_measured(self, block: Block, text: str, logprobs: list[Any]) -> bytes:
        block.logprobs += logprobs
        return self._add(block, text)

    def _cite(self, block: Block, citation: Citation) -> bytes:
        if citation not in block.citations:
            block.citations.append(citation)
        return b""

    def _shut(self, block: Block) -> bytes:
        return b""


class BodyEncoder:
    """See `vocabulary.Encoder`: everything is in `end`."""

    #: How many choices the client's protocol has room for.
    choices_max = 1

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.unconvertible = ""
        self.tracks: dict[int, Collected] = {}

    def start(self) -> bytes:
        """Nothing yet."""
        self.track(0)
        return b""

    def track(self, choice: int) -> Collected:
        """The blocks of a choice."""
        if choice >= self.choices_max:
            self.refuse("more choices than there is room for")
            return self.track(0)
        if choice not in self.tracks:
            self.tracks[choice] = Collected(self, choice)
        return self.tracks[choice]

    def refuse(self, why: str) -> None:
        """See `vocabulary.Encoder`."""
        self.unconvertible = self.unconvertible or why

    def end(self, usage: Weighed | None) -> bytes:
        """The body."""
        self.track(0)
        for track in self.tracks.values():
            track.wind_up()
        return self.body(usage)

    @abstractmethod
    def body(self, usage: Weighed | None) -> bytes:
        """The answer in the client's protocol."""

    def mark(self) -> None:
        """A body is not sent in parts."""

    def failure(self, reason: Reason, error: HoptrioError) -> bytes:
        """A body that fails is a status, not an event."""
        return b""
