"""One block after another: the order that Messages and Responses demand of an answer, whatever order it came in. Pure.

Chat may interleave the arguments of parallel tool calls, and text with them; the client's protocols close a block
before the next begins and never reopen one. So while a tool call is unfinished, whatever is not for it waits its turn
in a queue, in the order in which each block first appeared. A call is finished when the provider says so or when its
arguments are a whole JSON object, behind which nothing can follow; so the usual stream, one call after the other,
never waits. What comes for a block that was closed all the same cannot be expressed.

A subclass writes: `_begin` opens a block of a kind, `_add` continues it, `_shut` ends it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from hoptrio.protocols.convert.answer.ends import End
from hoptrio.protocols.convert.answer.json_end import JsonEnd

if TYPE_CHECKING:
    from collections.abc import Hashable

    from hoptrio.protocols.convert.answer.vocabulary import Citation
    from hoptrio.protocols.convert.carrier import Carried

__all__ = ["Block", "Blocks", "Sort"]


class Sort(Enum):
    """What a block holds."""

    TEXT = auto()
    REFUSAL = auto()
    REASONING = auto()
    TOOL = auto()
    IMAGE = auto()


_TEXT, _REFUSAL, _REASONING, _TOOL, _IMAGE = Sort


class Block:
    """A block that is open or waits. Of a tool call all arguments are kept, of the rest what waits."""

    __slots__ = ("carried", "citations", "closed", "custom", "end", "id", "key", "logprobs", "name", "pieces", "sort")

    def __init__(self, sort: Sort) -> None:
        self.sort = sort
        self.pieces: list[str] = []
        self.closed = False
        self.carried: Carried | None = None
        self.citations: list[Citation] = []
        self.logprobs: list[Any] = []
        # Of a tool call:
        self.key: Hashable = None
        self.id = ""
        self.name = ""
        self.custom = False
        self.end = JsonEnd()

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(self.pieces)

    @property
    def whole(self) -> bool:
        """Nothing more can come for a tool call."""
        return self.closed or self.end.reached(self.pieces)


class Blocks(ABC):
    """A track of blocks; see `vocabulary.Track`."""

    def __init__(self) -> None:
        #: The open block, None between blocks.
        self.block: Block | None = None
        self.finished = End.STOP
        self.stop_sequence: str | None = None
        #: There was a tool call; there was a refusal.
        self.called = False
        self.refused = False
        self._sort: Sort | None = None
        self._queue: list[Block] = []
        self._tools: dict[Hashable, Block] = {}

    @abstractmethod
    def refuse(self, why: str) -> None:
        """The answer cannot be expressed."""

    @abstractmethod
    def _begin(self, block: Block) -> bytes: ...

    @abstractmethod
    def _add(self, block: Block, text: str) -> bytes: ...

    @abstractmethod
    def _shut(self, block: Block) -> bytes: ...

    def _cite(self, block: Block, citation: Citation) -> bytes:
        """A source of the open text; dropped where the protocol has no such thing."""
        return b""

    def _add_measured(self, block: Block, text: str, logprobs: list[Any]) -> bytes:
        """Text with its log probabilities; dropped where the protocol has no such thing."""
        return self._add(block, text)

    def text(self, text: str, logprobs: list[Any] | None = None) -> bytes:
        """See `vocabulary.Track`."""
        block = self.block
        if self._sort is _TEXT and block is not None and not logprobs:
            return self._add(block, text)
        wire, block = self._turn(_TEXT)
        return wire + self._more(block, text, logprobs)

    def refusal(self, text: str) -> bytes:
        """See `vocabulary.Track`."""
        self.refused = True
        wire, block = self._turn(_REFUSAL)
        return wire + self._more(block, text)

    def reasoning(self, text: str) -> bytes:
        """See `vocabulary.Track`."""
        block = self.block
        if self._sort is _REASONING and block is not None:
            return self._add(block, text)
        wire, block = self._turn(_REASONING)
        return wire + self._more(block, text)

    def state(self, carried: Carried) -> bytes:
        """See `vocabulary.Track`: the block it belongs to ends with it."""
        wire, block = self._turn(_REASONING)
        block.carried = carried
        return wire + self.close()

    def close(self) -> bytes:
        """See `vocabulary.Track`."""
        if self._queue:
            last = self._queue[-1]
            last.closed = last.closed or last.sort is not _TOOL
            return b""
        return b"" if self.block is None or self._sort is _TOOL else self._end()

    def tool_open(self, key: Hashable, call_id: str, name: str, *, custom: bool = False) -> bytes:
        """See `vocabulary.Track`."""
        self.called = True
        tool = Block(_TOOL)
        tool.key, tool.id, tool.name, tool.custom = key, call_id, name, custom
        self._tools[key] = tool
        return self._enter(tool)

    def tool_args(self, key: Hashable, text: str) -> bytes:
        """See `vocabulary.Track`."""
        tool = self._tools.get(key)
        if tool is None:
            if text.strip():
                self.refuse("a tool call went on after it had ended")
            return b""
        tool.pieces.append(text)
        if tool is not self.block:
            return b""
        wire = self._add(tool, text)
        return wire + self._advance() if self._queue else wire

    def tool_close(self, key: Hashable) -> bytes:
        """See `vocabulary.Track`."""
        tool = self._tools.get(key)
        if tool is None:
            return b""
        tool.closed = True
        return self._end() + self._drain() if tool is self.block else b""

    def citation(self, citation: Citation) -> bytes:
        """See `vocabulary.Track`: it belongs to the newest text, or to nothing."""
        last = self._queue[-1] if self._queue else self.block
        if last is None or last.sort is not _TEXT:
            return b""
        if last is self.block:
            return self._cite(last, citation)
        last.citations.append(citation)
        return b""

    def image(self, media_type: str, data: str) -> bytes:
        """See `vocabulary.Track`."""
        image = Block(_IMAGE)
        image.name, image.pieces, image.closed = media_type, [data], True
        return self._enter(image)

    def finish(self, end: End, stop_sequence: str | None = None) -> None:
        """See `vocabulary.Track`."""
        self.finished, self.stop_sequence = end, stop_sequence

    def wind_up(self) -> bytes:
        """Nothing more will come: end every block that is open or waits."""
        wire = self._end() if self.block is not None else b""
        while self._queue:
            wire += self._drain()
            wire += self._end() if self.block is not None else b""
        return wire

    def _turn(self, sort: Sort) -> tuple[bytes, Block]:
        """The block that text of this sort goes to: the open one, the newest that waits, or a new one."""
        last = self._queue[-1] if self._queue else self.block
        if last is not None and last.sort is sort and not last.closed:
            return b"", last
        block = Block(sort)
        return self._enter(block), block

    def _more(self, block: Block, text: str, logprobs: list[Any] | None = None) -> bytes:
        if block is self.block:
            return self._add_measured(block, text, logprobs) if logprobs else self._add(block, text)
        block.pieces.append(text)
        block.logprobs += logprobs or ()
        return b""

    def _enter(self, block: Block) -> bytes:
        """Open a new block, at once if nothing is before it."""
        self._queue.append(block)
        return self._advance()

    def _advance(self) -> bytes:
        """Go on to what waits, if the open block may end."""
        block = self.block
        if block is not None and block.sort is _TOOL and not block.whole:
            return b""
        wire = self._end() if block is not None else b""
        return wire + self._drain()

    def _drain(self) -> bytes:
        """Open what waits, up to the first block that is not finished, or the last."""
        wire = b""
        while self._queue and self.block is None:
            wire += self._catch_up(self._queue.pop(0))
            block = self.block
            if block is not None and (block.closed or (self._queue and (block.sort is not _TOOL or block.whole))):
                wire += self._end()
        return wire

    def _catch_up(self, block: Block) -> bytes:
        """Open a block with all that it gathered while it waited."""
        text, logprobs = block.text, block.logprobs
        self.block, self._sort = block, block.sort
        wire = self._begin(block)
        if block.sort is _IMAGE:
            return wire
        if block.sort is not _TOOL:
            block.pieces, block.logprobs = [], []
        if text:
            wire += self._add_measured(block, text, logprobs) if logprobs else self._add(block, text)
        for citation in block.citations:
            wire += self._cite(block, citation)
        return wire

    def _end(self) -> bytes:
        block, self.block, self._sort = self.block, None, None
        if block is None:
            return b""
        if block.sort is _TOOL:
            self._tools.pop(block.key, None)
        return self._shut(block)
