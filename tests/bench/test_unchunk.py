"""The harness's client takes chunked framing off, however the bytes arrive."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.unchunk import Unchunk

BODIES = st.lists(st.binary(min_size=1, max_size=40), max_size=8)


def framed(chunks: list[bytes]) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(each), each) for each in chunks) + b"0\r\n\r\n"


@settings(max_examples=30)
@given(BODIES, st.data())
def test_the_body_is_the_chunks_joined_whatever_the_cuts(chunks: list[bytes], data: st.DataObject) -> None:
    wire = framed(chunks)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(wire)), max_size=12)))
    unchunk = Unchunk()
    pieces = [wire[a:b] for a, b in zip([0, *cuts], [*cuts, len(wire)], strict=True)]
    assert b"".join(map(unchunk.feed, pieces)) == b"".join(chunks)
    assert unchunk.finished


@settings(max_examples=30)
@given(BODIES)
def test_a_body_that_is_cut_is_not_finished(chunks: list[bytes]) -> None:
    unchunk = Unchunk()
    unchunk.feed(framed(chunks)[: -len(b"0\r\n\r\n")])
    assert not unchunk.finished


def test_a_chunk_without_a_size_is_an_error() -> None:
    with pytest.raises(ValueError):
        Unchunk().feed(b"HTTP/1.1 200 OK\r\n")
