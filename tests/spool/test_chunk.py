"""Frames: what was written is read, and nothing else is."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from hoptrio.spool.chunk import FRAME_HEAD_BYTES, About, Chunk, End, Frame, decode, head_of, scan

ABOUT = About("req_1", "acct_1", "chat", "sse", "hoptrio", 7)
ends = st.none() | st.builds(
    End,
    clean=st.booleans(),
    status=st.integers(0, 599),
    headers=st.lists(st.tuples(st.binary(), st.binary())).map(tuple),
    body=st.binary(max_size=300),
    event=st.binary(max_size=50),
)
chunks = st.builds(
    Chunk,
    about=st.just(ABOUT),
    offset=st.integers(0, 2**40),
    data=st.binary(max_size=300),
    end=ends,
    name=st.text(max_size=20),
    ended_at_ms=st.integers(0, 2**41),
)


def framed(chunk):
    return b"".join(Frame(chunk).parts())


@settings(max_examples=40)
@given(chunks)
def test_a_frame_is_read_as_it_was_written(chunk):
    frame = framed(chunk)
    assert decode(frame) == chunk
    assert Frame(chunk).size == len(frame)
    assert head_of(frame[:FRAME_HEAD_BYTES]) == len(frame) - FRAME_HEAD_BYTES


@settings(max_examples=40)
@given(chunks, st.data())
def test_a_frame_that_does_not_say_right_what_it_is_is_none(chunk, data):
    frame = framed(chunk)
    told = len(chunk.data) + (len(chunk.end.body) if chunk.end is not None else 0)
    at = data.draw(st.integers(0, len(frame) - told - 1))
    changed = bytearray(frame)
    changed[at] ^= data.draw(st.integers(1, 255))
    assert decode(bytes(changed)) is None
    assert decode(frame[: data.draw(st.integers(0, len(frame) - 1))]) is None


@settings(max_examples=40)
@given(st.lists(chunks, max_size=5), st.data())
def test_a_file_is_scanned_up_to_where_it_was_cut_off(written, data):
    file = b"".join(map(framed, written))
    cut = data.draw(st.integers(0, len(file)))
    cut_off = file[:cut]
    found = list(scan(lambda position, size: cut_off[position : position + size]))
    whole = [each for each in found if each.position + each.size <= cut]
    ends_at = 0
    for each, chunk in zip(whole, written, strict=False):
        assert (each.position, each.about, each.offset, each.name) == (ends_at, ABOUT, chunk.offset, chunk.name)
        assert each.data_bytes == len(chunk.data)
        assert decode(file[each.position : each.position + each.size]) == chunk
        ends_at += each.size
    assert sum(len(framed(chunk)) for chunk in written[: len(whole)]) == ends_at
