"""Disturber: does to the gateway what the plan says, and waits until all is well again."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import trio

from bench.soak.sampled import Mark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from bench.soak.database import Database
    from bench.soak.gateway import Gateway
    from bench.soak.schedule import Turn

__all__ = ["Disturber"]

#: What is not well by then is not well.
WELL_S = 90.0
_POLL_S = 0.2


class Disturber:
    """Keeps its marks."""

    def __init__(self, gateway: Gateway, database: Database, told: Callable[[str], None]) -> None:
        self.marks: list[Mark] = []
        self._gateway = gateway
        self._database = database
        self._told = told
        self._kills = count()

    async def run(self, turns: Iterable[Turn], began_s: float) -> None:
        """Every turn at its time, or as soon as the one before is over."""
        for turn in turns:
            await trio.sleep_until(began_s + turn.at_s)
            self._told(turn.name)
            at_s = trio.current_time()
            what = wrong = ""
            try:
                with trio.fail_after(WELL_S):
                    what = await self._do(turn.name)
                    await self._well()
            except trio.TooSlowError:
                wrong = f"not well after {WELL_S:g} s"
            took_s = trio.current_time() - at_s
            mark = Mark(at_s=round(at_s - began_s, 1), name=turn.name, what=what, took_s=round(took_s, 1), wrong=wrong)
            self.marks.append(mark)
            self._told("")

    async def _do(self, name: str) -> str:
        match name:
            case "reload":
                return await self._gateway.reload()
            case "certificate":
                return await self._gateway.renew()
            case "kill":
                return await self._gateway.kill(next(self._kills))
            case _:
                # A thread that is not abandoned: a database that is down must not be left so.
                return await trio.to_thread.run_sync(self._database.fail)

    async def _well(self) -> None:
        while not await self._gateway.ready():  # noqa: ASYNC110 - another process is asked
            await trio.sleep(_POLL_S)
