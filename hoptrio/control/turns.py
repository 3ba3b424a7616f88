"""Long lists without a long turn: streams share the event loop with whoever makes an answer, and must not notice."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import trio

from hoptrio import limits

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["in_turns"]

Row = TypeVar("Row")
Item = TypeVar("Item")


async def in_turns(rows: Sequence[Row], make: Callable[[Row], Item]) -> list[Item]:
    """What `make` makes of each row, `limits.CONTROL_TURN_ROWS` of them between two checkpoints."""
    made: list[Item] = []
    for start in range(0, len(rows), limits.CONTROL_TURN_ROWS):
        made += map(make, rows[start : start + limits.CONTROL_TURN_ROWS])
        await trio.lowlevel.checkpoint()
    return made
