"""Several processes of one machine: each tells the others' streams, living or dead."""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import trio

from hoptrio import limits
from hoptrio.limits import KIB, MIB
from hoptrio.spool import home
from hoptrio.spool.chunk import GOES_ON, About, End
from hoptrio.spool.spool import Caps
from hoptrio.spool.spools import open_spools
from tests.support.files import bytes_on_disk

CLEAN = End(True)
NOW_MS = 1_796_000_000_000


class Machine:
    """What the processes of a machine share: a directory and a clock."""

    def __init__(self, directory):
        self.directory = directory
        self.at_ms = NOW_MS

    @asynccontextmanager
    async def process(self, *, bytes_max=64 * MIB, kept_s=600, sharers=1):
        """One, for as long as the block runs."""
        caps = Caps(kept_s=kept_s, stream_bytes_max=16 * MIB)
        async with (
            open_spools(self.directory, caps, bytes_max=bytes_max, sharers=sharers, now_ms=lambda: self.at_ms) as made,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(made.run)
            while not made._home.socket.exists():  # noqa: ASYNC110 - another task makes it
                await trio.sleep(0.001)
            yield made
            nursery.cancel_scope.cancel()


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path / "spool")


def begin(process, request_id="req_1", name="resp_1"):
    return process.own.open(About(request_id, "acct", "responses", "sse", "hoptrio", NOW_MS), lambda _: name)


async def read(process, name="req_1", account="acct", *, follow=False):
    playback = await process.find(account, name, follow=follow)
    if playback is None:
        return None
    told = b""
    while isinstance(said := await playback.read(), bytes):
        told += said
    await playback.close()
    return told, said


async def test_a_neighbours_stream_is_told_as_far_as_it_has_come_and_live(machine):
    async with machine.process() as one, machine.process() as other:
        transcript = begin(one)
        transcript.take(b"a" * 100 * KIB)
        assert await read(other) == (b"a" * 100 * KIB, GOES_ON)
        assert await read(other, "resp_1") == (b"a" * 100 * KIB, GOES_ON)
        seen = []

        async def follow():
            seen.append(await read(other, follow=True))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(follow)
            while transcript._changed is None:  # noqa: ASYNC110 - the other process waits now
                await trio.sleep(0.001)
            transcript.take(b"b")
            transcript.finish(End(False, 502, (), b"body", b"event"))
        assert seen == [(b"a" * 100 * KIB + b"b", End(False, 502, (), b"body", b"event"))]


async def test_another_account_gets_nothing_from_a_neighbour(machine):
    async with machine.process() as one, machine.process() as other:
        begin(one).take(b"secret")
        assert await read(other, account="else") is None
        assert await read(other, "resp_1", account="else") is None
        assert await read(other, "req_2") is None


async def test_whoever_follows_and_hangs_up_leaves_nothing_behind(machine):
    async with machine.process() as one, machine.process() as other:
        transcript = begin(one)
        transcript.take(b"a")
        assert await read(other) == (b"a", GOES_ON)
        await trio.testing.wait_all_tasks_blocked()
        before = trio.lowlevel.current_statistics().tasks_living
        playback = await other.find("acct", "req_1")
        assert await playback.read() == b"a"
        assert trio.lowlevel.current_statistics().tasks_living > before
        await playback.close()
        with trio.fail_after(5):
            while trio.lowlevel.current_statistics().tasks_living > before:  # noqa: ASYNC110
                await trio.sleep(0.001)


async def test_a_stream_that_breaks_off_is_told_as_broken_off(machine):
    async with machine.process() as one, machine.process() as other:
        transcript = begin(one)
        transcript.take(b"a")
        playback = await other.find("acct", "req_1")
        assert await playback.read() == b"a"
        one.own.drop(transcript)
        assert await playback.read() is None
        await playback.close()


async def test_what_a_process_has_ended_outlives_it_for_as_long_as_it_is_kept(machine):
    async with machine.process() as other:
        async with machine.process() as one:
            for number, size in ((1, 10), (2, 300 * KIB)):
                transcript = begin(one, f"req_{number}", f"resp_{number}")
                transcript.take(b"x" * size)
                transcript.finish(CLEAN)
            begin(one, "req_3", "resp_3").take(b"y" * 200 * KIB)
        assert await read(other) == (b"x" * 10, CLEAN)
        assert await read(other, "resp_2") == (b"x" * 300 * KIB, CLEAN)
        assert await read(other, "req_3") is None, "it had no end"
        assert await read(other, account="else") is None
        machine.at_ms += 599_999
        assert await read(other) == (b"x" * 10, CLEAN)
        machine.at_ms += 1
        assert await read(other) is None


async def test_a_dead_process_with_a_damaged_file_tells_what_is_whole(machine):
    async with machine.process() as other:
        async with machine.process() as one:
            for number in (1, 2, 3):
                transcript = begin(one, f"req_{number}", f"resp_{number}")
                transcript.take(b"x" * 1000)
                transcript.finish(CLEAN)
        [file] = machine.directory.glob("*/*.seg")
        file.write_bytes(file.read_bytes()[:-500])
        assert await read(other, "req_2") == (b"x" * 1000, CLEAN)
        assert await read(other, "req_3") is None


async def test_a_process_that_is_stopped_is_not_waited_for_long(machine, monkeypatch):
    monkeypatch.setattr(limits, "SPOOL_ASK_S", 0.05)
    async with machine.process() as one, machine.process() as other:
        begin(one).take(b"a")

        async def never(*_):
            await trio.sleep_forever()

        monkeypatch.setattr("hoptrio.spool.peers._question", never)
        with trio.fail_after(2):
            assert await read(other) is None


async def test_directories_and_sockets_are_for_their_owner_alone(machine):
    os.umask(0)
    async with machine.process() as one:
        transcript = begin(one)
        transcript.take(b"a")
        transcript.finish(CLEAN)
        one.own.write_out()
        while not list(machine.directory.glob("*/*.seg")):  # noqa: ASYNC110 - a thread writes it
            await trio.sleep(0.001)
        await trio.testing.wait_all_tasks_blocked()
        modes = {path.name.split(".")[-1]: stat.S_IMODE(path.stat().st_mode) for path in machine.directory.rglob("*")}
        assert stat.S_IMODE(machine.directory.stat().st_mode) == 0o700
        assert modes.pop(one._home.path.name) == 0o700
        assert set(modes.values()) == {0o600}


async def test_a_long_path_is_no_obstacle(tmp_path):
    machine = Machine(tmp_path / ("x" * 120) / "spool")
    async with machine.process() as one, machine.process() as other:
        begin(one).take(b"a")
        assert await read(other) == (b"a", GOES_ON)


async def test_without_a_directory_streams_are_kept_as_long_as_they_are_in_memory(tmp_path, capsys):
    (tmp_path / "file").touch()
    caps = Caps(kept_s=600, stream_bytes_max=MIB)
    async with open_spools(tmp_path / "file", caps, bytes_max=MIB, sharers=1, now_ms=lambda: NOW_MS) as made:
        transcript = begin(made)
        transcript.take(b"a")
        assert await read(made) == (b"a", GOES_ON)
        transcript.finish(CLEAN)
        assert await read(made) == (b"a", CLEAN)
        transcript = begin(made, "req_2")
        transcript.take(b"a" * 100 * KIB)
        made.own.write_out()
        while (await read(made, "req_2"))[1] is GOES_ON:  # noqa: ASYNC110 - a thread finds it out
            await trio.sleep(0.001)
        assert await read(made, "req_2") == (b"", None)
    assert "streams cannot be kept on disk" in capsys.readouterr().out


async def test_a_process_that_kept_nothing_leaves_nothing(machine):
    async with machine.process():
        pass
    assert not list(machine.directory.iterdir())


async def test_a_home_is_nobodys_prey_while_it_is_made(machine, monkeypatch):
    """Between the making of its lock's file and its lock it would look like a dead process's."""
    async with machine.process() as one:
        lock, seen = home.fcntl.flock, []

        def look_first(descriptor, how):
            if how == home.fcntl.LOCK_EX and not seen:
                seen.append([home.is_dead(path) for path in home.others(one._home)])
                share(one, older_than_s=NOW_MS / 1000 - 600)
            lock(descriptor, how)

        monkeypatch.setattr(home.fcntl, "flock", look_first)
        async with machine.process() as other:
            begin(other).take(b"a")
            assert await read(one) == (b"a", GOES_ON)
        assert seen == [[]]


# -- clearing up -------------------------------------------------------------------------------------------------------


async def leave(machine, sizes, changed_s):
    """A dead process's home with a stream of each size, last changed then."""
    async with machine.process() as one:
        for number, size in enumerate(sizes, 1):
            transcript = begin(one, f"req_{number}", "")
            transcript.take(b"x" * size)
            transcript.finish(CLEAN)
            one.own.write_out()
        path = one._home.path
    for file in path.glob("*.seg"):
        os.utime(file, (changed_s, changed_s))
    return path


async def test_homes_of_the_dead_go_when_all_in_them_is_too_old(machine):
    old = await leave(machine, [10], NOW_MS / 1000 - 601)
    young = await leave(machine, [10], NOW_MS / 1000 - 599)
    async with machine.process() as one:
        share(one, older_than_s=one._since_ms() / 1000)
        assert (old.exists(), young.exists(), one._home.path.exists()) == (False, True, True)


async def test_a_home_that_was_never_finished_goes_when_it_is_old(machine):
    async with machine.process() as one:
        new = machine.directory / "new-1"
        new.mkdir()
        share(one, older_than_s=new.stat().st_mtime - 1)
        assert new.exists()
        share(one, older_than_s=new.stat().st_mtime + 1)
        assert not new.exists()


async def test_homes_from_before_the_machine_was_started_are_never_read(machine):
    path = await leave(machine, [10], NOW_MS / 1000)
    before = path.rename(path.with_name("00000000-1-00000000"))
    async with machine.process() as one:
        assert await read(one) is None
        share(one)
        assert not before.exists()


async def test_beyond_the_cap_the_oldest_files_of_the_dead_go_and_never_those_of_the_living(machine):
    first = await leave(machine, [600 * KIB], NOW_MS / 1000 - 100)
    second = await leave(machine, [600 * KIB], NOW_MS / 1000 - 50)
    async with machine.process() as one:
        transcript = begin(one)
        transcript.take(b"x" * 300 * KIB)
        assert share(one, bytes_max=10 * MIB) == 10 * MIB * 7 // 8
        assert len(list(machine.directory.glob("*/*.seg"))) >= 2
        share(one, bytes_max=6 * MIB)
        assert (list(first.glob("*.seg")), len(list(second.glob("*.seg")))) == ([], 1)
        share(one, bytes_max=0)
        assert list(second.glob("*.seg")) == []
        assert (await read(one))[0] == b"x" * 300 * KIB


def share(process, *, older_than_s=0.0, bytes_max=MIB, sharers=1, in_use=0):
    return home.share(process._home, older_than_s=older_than_s, bytes_max=bytes_max, sharers=sharers, in_use=in_use)


async def test_processes_that_start_together_or_while_others_run_never_have_more_than_the_cap(machine):
    async with AsyncExitStack() as stack:
        running = []
        for _ in range(6):
            running.append(await stack.enter_async_context(machine.process(bytes_max=16 * MIB, sharers=2)))
            granted = [each.own.disk_bytes_max for each in running]
            assert sum(granted) <= 16 * MIB
            assert all(granted)
        for _ in range(3):
            for each in running:
                granted = share(each, bytes_max=16 * MIB, sharers=2, in_use=each.own.disk_bytes_max)
                each.own.share(granted)
                assert sum(each.own.disk_bytes_max for each in running) <= 16 * MIB
        assert {each.own.disk_bytes_max for each in running} == {14 * MIB // 6}


async def test_what_is_on_disk_stays_within_the_cap_from_the_first_moment_on(machine):
    """A dead process's files, two workers that start, and more than fits from both."""
    await leave(machine, [900 * KIB], NOW_MS / 1000 - 10)
    options = {"bytes_max": MIB, "sharers": 2}
    async with machine.process(**options) as one, machine.process(**options) as other:
        for number in range(40):
            for process in (one, other):
                transcript = begin(process, f"req_{number}", "")
                transcript.take(b"x" * 50 * KIB)
                transcript.finish(CLEAN)
                process.own.write_out()
            await trio.sleep(0.001)
            assert bytes_on_disk(machine.directory, "*/*.seg") <= MIB
        assert one.own.disk_bytes + other.own.disk_bytes > MIB // 2


async def test_a_share_that_shrinks_is_free_for_others_once_it_is_given_back(machine):
    async with machine.process(bytes_max=16 * MIB) as one, machine.process(bytes_max=16 * MIB) as other:
        one.own.share(share(one, bytes_max=16 * MIB, in_use=12 * MIB))
        assert one.own.disk_bytes_max == 7 * MIB
        assert share(other, bytes_max=16 * MIB) == 4 * MIB
        assert share(one, bytes_max=16 * MIB, in_use=one.own.disk_bytes_max) == 7 * MIB
        assert share(other, bytes_max=16 * MIB) == 7 * MIB


async def test_a_directory_that_is_taken_away_is_made_again(machine, monkeypatch, capsys):
    async with machine.process() as other:
        monkeypatch.setattr(limits, "SPOOL_SWEEP_S", 0.02)
        async with machine.process() as one:
            tell(one, "req_1", 100 * KIB)
            await on_disk(one)
            shutil.rmtree(one._home.path)
            with trio.fail_after(5):
                while not one._home.socket.exists():  # noqa: ASYNC110 - another task makes it
                    await trio.sleep(0.001)
            assert await read(one, "req_1") == (b"", None)
            tell(one, "req_2", 100 * KIB)
            await on_disk(one)
            assert not home.is_dead(one._home.path)
            assert await read(other, "req_2") == (b"x" * 100 * KIB, CLEAN)
        assert await read(other, "req_2") == (b"x" * 100 * KIB, CLEAN), "of a dead process now"
        assert "was taken away" in capsys.readouterr().out


async def test_what_is_written_before_that_is_noticed_is_kept_too(machine):
    async with machine.process() as one:
        shutil.rmtree(machine.directory)
        tell(one, "req_1", 100 * KIB)
        await on_disk(one)
        assert await read(one, "req_1") == (b"x" * 100 * KIB, CLEAN)
        assert stat.S_IMODE(one._home.path.stat().st_mode) == 0o700


def tell(process, request_id, size):
    transcript = begin(process, request_id, "")
    transcript.take(b"x" * size)
    transcript.finish(CLEAN)
    process.own.write_out()


async def on_disk(process):
    """A thread writes it."""
    with trio.fail_after(5):
        while not list(process._home.path.glob("*.seg")) or process.own._scribe.queued_bytes:  # noqa: ASYNC110
            await trio.sleep(0.001)
