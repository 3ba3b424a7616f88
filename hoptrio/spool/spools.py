"""The spools of a machine: this process's own, those of its living neighbours, and what dead ones have left."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
import trio

from hoptrio import limits
from hoptrio.spool.home import Home, is_dead, others, share, socket_of
from hoptrio.spool.left import Left
from hoptrio.spool.peers import Silence, ask, serve
from hoptrio.spool.scribe import ThreadScribe
from hoptrio.spool.segments import Segments
from hoptrio.spool.spool import Spool

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from hoptrio.spool.playback import Playback
    from hoptrio.spool.spool import Caps

__all__ = ["Spools", "open_spools"]

log = structlog.get_logger("hoptrio.spool")


@asynccontextmanager
async def open_spools(
    directory: Path | str, caps: Caps, *, bytes_max: int, sharers: int, now_ms: Callable[[], int]
) -> AsyncIterator[Spools]:
    """The spools in `directory`, which is made if there is none; if that cannot be, a line in the log says so, and what
    should go to the disk is lost.

    `bytes_max` is for all processes together, of which there are `sharers`. On leaving, what has ended is on disk, and
    this process is one of the dead.
    """
    home: Home | None = None
    granted = 0
    reckon = partial(share, bytes_max=bytes_max, sharers=sharers)
    try:
        home = await trio.to_thread.run_sync(Home, Path(directory))
        since_s = now_ms() / 1000 - caps.kept_s
        granted = await trio.to_thread.run_sync(partial(reckon, home, older_than_s=since_s, in_use=None))
    except OSError as error:
        log.error("streams cannot be kept on disk: clients can come back to few", error=error.strerror)
    scribe = ThreadScribe()
    segments = Segments(home.path if home else Path(directory), scribe, bytes_max=granted)
    spools = Spools(Spool(caps, segments, scribe, now_ms), home, reckon=reckon, now_ms=now_ms)
    try:
        yield spools
    finally:
        with trio.move_on_after(limits.LEDGER_CLOSE_S, shield=True):
            await spools.own.close()
        if home is not None:
            home.close()


class Spools:
    """`own` keeps the streams of this process, `find` finds those of all. Without a `home` there are no others."""

    def __init__(
        self,
        own: Spool,
        home: Home | None = None,
        *,
        reckon: Callable[..., int] = share,
        now_ms: Callable[[], int] | None = None,
    ) -> None:
        self.own = own
        self._home = home
        self._reckon = reckon
        self._now_ms = now_ms
        #: The indexes of dead homes that were searched; they do not change any more.
        self._left: dict[Path, Left] = {}
        #: Cancelled when the socket is to be made again.
        self._serving = trio.CancelScope()

    async def run(self) -> None:
        """Write out, expire, answer neighbours and clear up behind the dead, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.own.run)
            if self._home is not None:
                nursery.start_soon(self._serve, self._home)
                nursery.start_soon(self._sweep, self._home)

    async def _serve(self, home: Home) -> None:
        while True:
            with trio.CancelScope() as self._serving:
                try:
                    await serve(self.own, home.socket)
                except OSError as error:
                    log.error("other processes cannot be told of the streams of this one", error=error.strerror)
                    await trio.sleep_forever()

    async def _sweep(self, home: Home) -> None:
        pause_s = limits.SPOOL_SWEEP_S
        while True:
            await trio.sleep(pause_s)
            before, pause_s = self.own.disk_bytes_max, limits.SPOOL_SWEEP_S
            work = partial(self._reckon, home, older_than_s=self._since_ms() / 1000, in_use=before)
            try:
                if await trio.to_thread.run_sync(home.restore):
                    log.warning("the spool of this process was taken away and is made again")
                    self.own.clear_disk()
                    self._serving.cancel()
                mine = await trio.to_thread.run_sync(work)
            except OSError as error:
                log.error("what the spool may have on disk cannot be reckoned", error=error.strerror)
                continue
            self.own.share(mine)
            if mine < before:
                # The others are told of the room once it is there.
                pause_s = limits.SPOOL_TICK_S
            self._left = {path: left for path, left in self._left.items() if path.exists()}

    def _since_ms(self) -> int:
        assert self._now_ms is not None
        return self._now_ms() - int(self.own.caps.kept_s * 1000)

    async def find(self, account_id: str, name: str, *, follow: bool = True) -> Playback | None:
        """The stream of a request id, or of a name that its client knows it by, if this account has such a one;
        `follow` it to its end, or as far as it has come."""
        found = self.own.find(account_id, name, follow=follow)
        if found is not None or self._home is None:
            return found
        return await self._find_elsewhere(self._home, account_id, name, follow=follow)

    async def _find_elsewhere(self, home: Home, account_id: str, name: str, *, follow: bool) -> Playback | None:
        """Neighbours are asked one after the other: one that lives answers in a millisecond."""
        for path in await trio.to_thread.run_sync(others, home):
            found = await self._find_in(path, account_id, name, follow=follow)
            if found is not None:
                return found
        return None

    async def _find_in(self, path: Path, account_id: str, name: str, *, follow: bool) -> Playback | None:
        for _ in range(limits.SPOOL_ASKS_MAX):
            if path in self._left or await trio.to_thread.run_sync(is_dead, path):
                return await self._find_left(path, account_id, name)
            answer = await ask(socket_of(path), account_id, name, follow=follow)
            if not isinstance(answer, Silence):
                return answer
            if answer is Silence.NO_STREAM:
                return None
            await trio.sleep(limits.SPOOL_ASK_PAUSE_S)
        return None

    async def _find_left(self, path: Path, account_id: str, name: str) -> Playback | None:
        if path not in self._left:
            self._left[path] = await trio.to_thread.run_sync(Left, path)
        return self._left[path].find(account_id, name, self._since_ms())
