"""The figures of all processes of this machine, as any of them can read them; and which of its streams run now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from hoptrio import limits
from hoptrio.telemetry.snapshot import total

if TYPE_CHECKING:
    from hoptrio.telemetry.board import FiguresBoard
    from hoptrio.telemetry.snapshot import LiveStream, Snapshot

__all__ = ["Figures"]

#: How often it is looked whether every process has told of its streams by now.
_LOOK_S = 0.1


class Figures:
    """Reads `board`."""

    def __init__(self, board: FiguresBoard) -> None:
        self._board = board

    def total(self) -> Snapshot:
        """The sum of all processes."""
        told = self._board.read()
        return total([each.snapshot for each in told if each.alive], [each.snapshot for each in told if not each.alive])

    def workers(self) -> list[Snapshot]:
        """Each process that lives."""
        return [each.snapshot for each in self._board.read() if each.alive]

    async def live(self) -> list[LiveStream]:
        """The streams that run now, the newest first; of each process at most `limits.FIGURES_LIVE_MAX`.

        The first who asks for a while waits until every process has told, at most `limits.FIGURES_ASK_S`.
        """
        self._board.want_live()
        with trio.move_on_after(limits.FIGURES_ASK_S):
            while any(each.live is None for each in self.workers()):  # noqa: ASYNC110 - other processes tell
                await trio.sleep(_LOOK_S)
        found = [stream for each in self.workers() for stream in each.live or ()]
        return sorted(found, key=lambda stream: (stream.created_at_ms, stream.id), reverse=True)
