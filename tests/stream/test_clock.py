"""The clocks in virtual time, against a writer that is only attributes."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import pytest
import trio

from hoptrio.stream.clock import Clock


@dataclass
class Attributes:
    """What the clock reads of a writer."""

    last_write_at: float = 0.0
    blocked_since: float | None = None
    gone: bool = False
    left: list[float] = field(default_factory=list)

    def leave(self):
        self.gone = True
        self.blocked_since = None
        self.left.append(trio.current_time())


class Rig:
    """A clock, its writer, and when it called what."""

    def __init__(self, *, mode="idle", stall_s=None):
        self.start = trio.current_time()
        self.writer = Attributes(last_write_at=self.start)
        self.alive: list[float] = []
        self.stalls: list[float] = []
        self.clock = Clock(
            self.writer,
            mode=mode,
            keepalive_s=10,
            stall_s=stall_s,
            keepalive=self.keepalive,
            stalled=lambda: self.stalls.append(self.now),
        )

    @property
    def now(self):
        return round(trio.current_time() - self.start, 3)

    def keepalive(self):
        self.alive.append(self.now)
        self.writer.last_write_at = trio.current_time()

    async def run(self, script):
        self.clock.start()
        try:
            await script()
        finally:
            self.clock.stop()


async def test_idle_keepalive_comes_ten_seconds_after_the_last_byte(autojump_clock):
    rig = Rig(mode="idle")

    async def script():
        await trio.sleep(7)
        rig.writer.last_write_at = trio.current_time()
        await trio.sleep(24)

    await rig.run(script)
    assert rig.alive == [17, 27]


async def test_interval_keepalive_does_not_care_for_data(autojump_clock):
    rig = Rig(mode="interval")

    async def script():
        for _ in range(35):
            await trio.sleep(1)
            rig.writer.last_write_at = trio.current_time()

    await rig.run(script)
    assert rig.alive == [10, 20, 30]


async def test_off_means_off(autojump_clock):
    rig = Rig(mode="off")
    await rig.run(partial(trio.sleep, 100))
    assert rig.alive == []


async def test_a_stall_is_called_once_at_the_limit_after_the_last_progress(autojump_clock):
    rig = Rig(stall_s=90)

    async def script():
        rig.clock.progress_at = trio.current_time()
        await trio.sleep(50)
        rig.clock.progress_at = trio.current_time()
        await trio.sleep(200)

    await rig.run(script)
    assert rig.stalls == [140]


async def test_keepalives_of_ours_are_not_progress(autojump_clock):
    rig = Rig(stall_s=30)

    async def script():
        rig.clock.progress_at = trio.current_time()
        await trio.sleep(60)

    await rig.run(script)
    assert rig.stalls == [30]


@pytest.mark.parametrize("mode", ["idle", "off"])
async def test_a_client_that_takes_nothing_for_thirty_seconds_has_left(mode, autojump_clock):
    rig = Rig(mode=mode)

    async def script():
        await trio.sleep(3)
        rig.writer.blocked_since = trio.current_time()
        await trio.sleep(100)

    await rig.run(script)
    assert [round(at - rig.start, 3) for at in rig.writer.left] == [33]


async def test_a_client_that_takes_something_now_and_then_stays(autojump_clock):
    rig = Rig(mode="off")

    async def script():
        for _ in range(20):
            rig.writer.blocked_since = trio.current_time()
            await trio.sleep(29)

    await rig.run(script)
    assert rig.writer.left == []


async def test_while_delivering_only_the_write_stall_is_watched(autojump_clock):
    rig = Rig(mode="interval", stall_s=10)

    async def script():
        rig.clock.progress_at = trio.current_time()
        rig.clock.delivering = True
        rig.writer.blocked_since = trio.current_time()
        await trio.sleep(100)

    await rig.run(script)
    assert (rig.alive, rig.stalls, len(rig.writer.left)) == ([], [], 1)
