"""Transcripts in memory and in segments: what is told is read, and every cap holds."""

from __future__ import annotations

import os
import stat

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from hoptrio import limits
from hoptrio.limits import KIB, MIB
from hoptrio.spool.chunk import GOES_ON, About, End
from hoptrio.spool.scribe import InlineScribe, ThreadScribe
from hoptrio.spool.segments import Segments
from hoptrio.spool.spool import Caps, Spool
from tests.support.files import bytes_on_disk

CLEAN = End(True)


class Rig:
    """A spool over a directory, with a clock that is turned by hand."""

    def __init__(self, directory, *, bytes_max=64 * MIB, scribe=None, **caps):
        self.at_ms = 1_000_000
        self.directory = directory
        scribe = scribe or InlineScribe()
        self.segments = Segments(directory, scribe, bytes_max=bytes_max)
        made = Caps(**{"kept_s": 600, "stream_bytes_max": 16 * MIB} | caps)
        self.spool = Spool(made, self.segments, scribe, lambda: self.at_ms)
        self.opened = 0

    def open(self, name_of=None):
        self.opened += 1
        return self.spool.open(About(f"req_{self.opened}", "acct", "chat", "sse", "hoptrio", self.at_ms), name_of)

    def ended(self, *pieces, end=CLEAN):
        transcript = self.open()
        for piece in pieces:
            transcript.take(piece)
        transcript.finish(end)
        return transcript

    @property
    def on_disk(self):
        self.segments.flush()
        return bytes_on_disk(self.directory)


async def read(spool, name, account="acct"):
    """All that is told, and the end; or None."""
    playback = spool.find(account, name, follow=False)
    if playback is None:
        return None
    told = b""
    while isinstance(said := await playback.read(), bytes):
        told += said
    return told, said


async def test_what_was_taken_is_read_before_and_behind_the_disk(tmp_path):
    rig = Rig(tmp_path)
    transcript = rig.open()
    assert await read(rig.spool, "req_1") == (b"", GOES_ON)
    transcript.take(b"a")
    assert await read(rig.spool, "req_1") == (b"a", GOES_ON)
    transcript.take(b"b" * 100 * KIB)
    assert rig.on_disk > 100 * KIB
    transcript.take(b"c")
    assert await read(rig.spool, "req_1") == (b"a" + b"b" * 100 * KIB + b"c", GOES_ON)
    transcript.finish(End(False, 502, ((b"x", b"y"),), b"body", b"event"))
    expected = (b"a" + b"b" * 100 * KIB + b"c", End(False, 502, ((b"x", b"y"),), b"body", b"event"))
    assert await read(rig.spool, "req_1") == expected
    rig.spool.write_out()
    assert rig.spool.memory_bytes == 0
    assert await read(rig.spool, "req_1") == expected


@settings(max_examples=30)
@given(st.data())
def test_any_pieces_are_read_by_any_number_of_readers_that_follow(tmp_path_factory, data):
    pieces = data.draw(st.lists(st.integers(0, 80 * KIB).map(lambda size: os.urandom(8)[:1] * size), max_size=12))
    starts = data.draw(st.lists(st.integers(0, len(pieces)), max_size=3))

    async def main():
        rig = Rig(tmp_path_factory.mktemp("spool"), memory_bytes_max=data.draw(st.sampled_from([0, 50 * KIB, MIB])))
        transcript = rig.open()
        seen = []

        async def follow():
            playback = rig.spool.find("acct", "req_1", follow=True)
            told = b""
            while isinstance(said := await playback.read(), bytes):
                told += said
            seen.append((told, said))

        async with trio.open_nursery() as nursery:
            for at, piece in enumerate([*pieces, b""]):
                for _ in range(starts.count(at)):
                    nursery.start_soon(follow)
                await trio.testing.wait_all_tasks_blocked()
                if at < len(pieces):
                    transcript.take(piece)
            transcript.finish(CLEAN)
        assert seen == [(b"".join(pieces), CLEAN)] * len(starts)

    trio.run(main)


async def test_names_are_an_accounts_own_and_the_newer_of_two_is_meant(tmp_path):
    rig = Rig(tmp_path)
    for told in (b"first", b"second"):
        transcript = rig.open(lambda _: "resp_1")
        transcript.take(told)
        transcript.finish(CLEAN)
    assert await read(rig.spool, "resp_1") == (b"second", CLEAN)
    assert await read(rig.spool, "req_1") == (b"first", CLEAN)
    assert await read(rig.spool, "resp_1", "other") is None
    assert await read(rig.spool, "req_1", "other") is None


@pytest.mark.parametrize("size", [10, limits.SPOOL_DIRECT_BYTES])
async def test_a_name_is_read_from_the_first_write_however_large(tmp_path, size):
    rig = Rig(tmp_path)
    seen = []
    transcript = rig.open(lambda told: seen.append(told) or "resp_1")
    for piece in (b"a" * size, b"b", b"c" * limits.SPOOL_DIRECT_BYTES, b"d"):
        transcript.take(piece)
    transcript.finish(CLEAN)
    rig.spool.write_out()
    assert seen == [b"a" * size]
    whole = b"a" * size + b"b" + b"c" * limits.SPOOL_DIRECT_BYTES + b"d"
    assert await read(rig.spool, "resp_1") == (whole, CLEAN)


async def test_large_and_small_writes_beyond_the_cap_are_lost_alike(tmp_path):
    rig = Rig(tmp_path, stream_bytes_max=40 * KIB)
    transcript = rig.open()
    for _ in range(3):
        transcript.take(b"a" * limits.SPOOL_DIRECT_BYTES)
        transcript.take(b"b")
    transcript.finish(CLEAN)
    assert await read(rig.spool, "req_1") == (b"", None)
    assert rig.spool.memory_bytes == 0


async def test_a_stream_that_is_dropped_was_never_there_and_wakes_its_readers(tmp_path):
    rig = Rig(tmp_path)
    transcript = rig.open()
    transcript.take(b"a" * 100 * KIB)
    playback = rig.spool.find("acct", "req_1", follow=True)
    await playback.read()
    async with trio.open_nursery() as nursery:
        seen = []

        async def follow():
            seen.append(await playback.read())

        nursery.start_soon(follow)
        await trio.testing.wait_all_tasks_blocked()
        rig.spool.drop(transcript)
    assert seen == [None]
    assert await read(rig.spool, "req_1") is None
    assert (len(rig.spool), rig.spool.memory_bytes) == (0, 0)


# -- caps --------------------------------------------------------------------------------------------------------------


async def test_a_stream_beyond_its_cap_is_lost_and_takes_no_more_room(tmp_path):
    rig = Rig(tmp_path, stream_bytes_max=300 * KIB)
    transcript = rig.open()
    for _ in range(1000):
        transcript.take(b"x" * KIB)
    assert rig.on_disk <= 400 * KIB
    assert (rig.spool.memory_bytes, await read(rig.spool, "req_1")) == (0, (b"", None))
    transcript.finish(CLEAN)
    assert await read(rig.spool, "req_1") == (b"", None)
    rig.at_ms += 600_000
    rig.spool.expire()
    assert await read(rig.spool, "req_1") is None


async def test_a_body_beyond_the_cap_is_lost(tmp_path):
    rig = Rig(tmp_path, stream_bytes_max=KIB)
    rig.ended(end=End(True, 200, (), b"x" * (KIB + 1)))
    rig.ended(end=End(True, 200, (), b"x" * KIB))
    assert await read(rig.spool, "req_1") == (b"", None)
    assert (await read(rig.spool, "req_2"))[1].body == b"x" * KIB


async def test_memory_stays_within_its_cap_and_a_step_for_each_live_stream(tmp_path):
    rig = Rig(tmp_path, memory_bytes_max=256 * KIB)
    live = [rig.open() for _ in range(50)]
    for _ in range(40):
        for transcript in live:
            transcript.take(b"x" * 500)
            held = sum(len(each.buffer) for each in live)
            assert held <= 256 * KIB + len(live) * (limits.SPOOL_STEP_BYTES + 500)
    for transcript in live:
        assert await read(rig.spool, transcript.about.request_id) == (b"x" * 20_000, GOES_ON)


async def test_the_disk_stays_within_its_cap_and_the_oldest_streams_go_first(tmp_path):
    rig = Rig(tmp_path, bytes_max=4 * MIB)
    for _ in range(100):
        rig.ended(b"x" * 100 * KIB)
        rig.spool.write_out()
        assert rig.on_disk == rig.segments.bytes <= 4 * MIB
    kept = [await read(rig.spool, f"req_{n}") for n in range(1, 101)]
    lost = kept.index((b"x" * 100 * KIB, CLEAN))
    assert 60 <= lost <= 64
    assert kept[:lost] == [(b"", None)] * lost
    assert kept[lost:] == [(b"x" * 100 * KIB, CLEAN)] * (100 - lost)


async def test_a_smaller_share_holds_at_once(tmp_path):
    rig = Rig(tmp_path, bytes_max=16 * MIB)
    for _ in range(60):
        rig.ended(b"x" * 200 * KIB)
        rig.spool.write_out()
    assert rig.on_disk > 8 * MIB
    rig.spool.share(4 * MIB)
    assert rig.on_disk <= 4 * MIB


async def test_what_is_larger_than_the_whole_disk_cap_is_lost(tmp_path):
    rig = Rig(tmp_path, bytes_max=MIB)
    rig.ended(b"x" * 2 * MIB)
    rig.spool.write_out()
    assert await read(rig.spool, "req_1") == (b"", None)
    assert rig.spool.memory_bytes == 0


async def test_segments_go_when_the_last_stream_in_them_has_expired(tmp_path):
    rig = Rig(tmp_path, bytes_max=16 * MIB)
    long = rig.open()
    long.take(b"l" * 100 * KIB)
    for _ in range(30):
        rig.ended(b"x" * 100 * KIB)
        rig.spool.write_out()
        rig.at_ms += 1000
    before = len(list(tmp_path.glob("*.seg")))
    rig.at_ms += 600_000
    rig.spool.expire()
    left = sorted(tmp_path.glob("*.seg"))
    assert (len(left), before) == (1, 4), "it has a part of a stream that runs"
    assert await read(rig.spool, "req_1") == (b"l" * 100 * KIB, GOES_ON)
    long.finish(CLEAN)
    rig.spool.write_out()
    rig.at_ms += 599_999
    rig.spool.expire()
    assert await read(rig.spool, "req_1") == (b"l" * 100 * KIB, CLEAN)
    rig.at_ms += 1
    rig.spool.expire()
    assert not list(tmp_path.glob("*.seg"))


async def test_no_stream_lies_on_the_disk_for_as_long_as_its_file_takes_to_fill(tmp_path):
    rig = Rig(tmp_path)
    for minute in range(30):
        rig.ended(b"%06d" % minute)
        rig.spool.write_out()
        rig.spool.expire()
        rig.at_ms += 60_000
    rig.spool.expire()
    told = b"".join(file.read_bytes() for file in tmp_path.glob("*.seg"))
    assert b"%06d" % 29 in told
    assert b"%06d" % 15 not in told
    assert 5 <= len(list(tmp_path.glob("*.seg"))) <= 12


async def test_files_are_for_their_owner_alone(tmp_path):
    rig = Rig(tmp_path)
    rig.ended(b"secret")
    rig.spool.write_out()
    [file] = tmp_path.glob("*.seg")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


# -- disks -------------------------------------------------------------------------------------------------------------


async def test_a_disk_that_fails_loses_what_was_on_it_and_stops_nothing(tmp_path, capsys):
    (tmp_path / "away").touch()
    rig = Rig(tmp_path / "away")
    for _ in range(3):
        rig.ended(b"x")
        rig.spool.write_out()
    assert await read(rig.spool, "req_1") == (b"", None)
    (tmp_path / "away").unlink()
    rig.ended(b"x")
    rig.spool.write_out()
    assert await read(rig.spool, "req_4") == (b"x", CLEAN)
    assert capsys.readouterr().out.count("the spool cannot be written: streams of now are lost") == 1


async def test_a_file_that_was_damaged_is_told_as_lost(tmp_path):
    rig = Rig(tmp_path)
    rig.ended(b"x" * 1000)
    rig.spool.write_out()
    [file] = tmp_path.glob("*.seg")
    file.write_bytes(file.read_bytes()[:-1])
    assert await read(rig.spool, "req_1") == (b"", None)


async def test_a_thread_writes_the_same(tmp_path):
    rig = Rig(tmp_path, scribe=ThreadScribe())
    transcript = rig.open()
    for _ in range(300):
        transcript.take(b"x" * KIB)
        assert (await read(rig.spool, "req_1"))[1] is GOES_ON
    transcript.finish(CLEAN)
    assert await read(rig.spool, "req_1") == (b"x" * 300 * KIB, CLEAN)
    await rig.spool.close()
    assert await read(rig.spool, "req_1") == (b"x" * 300 * KIB, CLEAN)


async def test_a_disk_that_hangs_costs_streams_their_keeping_and_no_memory_beyond_its_bound(tmp_path, monkeypatch):
    scribe = InlineScribe()
    rig = Rig(tmp_path, scribe=scribe, memory_bytes_max=KIB)
    monkeypatch.setattr(scribe, "queued_bytes", limits.SPOOL_QUEUE_BYTES_MAX + 1)
    rig.ended(b"x" * 2 * KIB)
    assert (rig.spool.memory_bytes, await read(rig.spool, "req_1")) == (0, (b"", None))


@pytest.mark.parametrize("finished", [True, False])
async def test_after_a_close_only_what_has_ended_is_on_disk(tmp_path, finished):
    rig = Rig(tmp_path)
    transcript = rig.open()
    transcript.take(b"x" * 10)
    if finished:
        transcript.finish(CLEAN)
    await rig.spool.close()
    assert (rig.on_disk > 0) is finished
