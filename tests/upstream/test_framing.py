"""Where bodies end. The chunked framing is held against h11, which may never be the stricter of the two."""

from __future__ import annotations

from itertools import pairwise

import h11
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoptrio import limits
from hoptrio.upstream.answer import BodyEnd
from hoptrio.upstream.framing import ChunkedBody, ClosedBody, SizedBody, framing_of

CHUNKED_HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


def chunked(*parts: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def feed_all(body, pieces):
    """Feed pieces until the body ends; returns its bytes."""
    out = b""
    for piece in pieces:
        if body.end is not None:
            break
        out += body.feed(piece)
    return out


def cut(data: bytes, at: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(n % (len(data) + 1) for n in at)})
    return [data[a:b] for a, b in pairwise(edges)]


def read_by_h11(data: bytes) -> bytes | None:
    """The body as h11 reads it, None if it is malformed or not finished."""
    http = h11.Connection(h11.CLIENT)
    http.send(h11.Request(method="GET", target="/", headers=[("host", "x")]))
    http.receive_data(CHUNKED_HEAD + data)
    out = b""
    while True:
        try:
            event = http.next_event()
        except h11.RemoteProtocolError:
            return None
        if isinstance(event, h11.Data):
            out += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage):
            return out
        elif event is h11.NEED_DATA:
            return None


def test_one_read_gives_all_its_chunks_joined():
    body = ChunkedBody()
    assert body.feed(chunked(b"data: 1\n\n", b"data: 2\n\n")) == b"data: 1\n\ndata: 2\n\n"
    assert body.end is BodyEnd.CLEAN
    assert not body.excess


def test_a_large_chunk_is_passed_on_as_it_comes():
    body = ChunkedBody()
    assert body.feed(b"fffffffffffffff\r\nabc") == b"abc"
    assert body.feed(b"def") == b"def"
    assert body.end is None


@settings(deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=40)), st.lists(st.integers(min_value=0, max_value=2000)))
def test_chunks_survive_every_cut(parts, cuts):
    body = ChunkedBody()
    assert feed_all(body, cut(chunked(*parts), cuts)) == b"".join(parts)
    assert body.end is BodyEnd.CLEAN


def test_chunks_survive_being_sent_byte_by_byte():
    wire = b"5;name=value\r\nhello\r\n3  \r\nyou\r\n0\r\nServer-Timing: x\r\n\r\n"
    body = ChunkedBody()
    assert feed_all(body, [wire[n : n + 1] for n in range(len(wire))]) == b"helloyou"
    assert body.end is BodyEnd.CLEAN
    assert not body.excess


_PIECES = st.sampled_from(
    [
        *(
            b"0",
            b"1",
            b"5",
            b"a",
            b"A",
            b"g",
            b"_",
            b"+",
            b"-",
            b" ",
            b"\t",
            b";",
            b"x=y",
            b"\r\n",
            b"\r",
            b"\n",
            b"\x00",
        ),
        *(b"0\r\n\r\n", b"1\r\na\r\n", b"5\r\nhello\r\n", b"a: b\r\n", b"\xff", b": "),
    ]
)


@settings(deadline=None)
@given(st.lists(_PIECES, max_size=12), st.lists(st.integers(min_value=0, max_value=200), max_size=6))
def test_nothing_is_accepted_that_h11_refuses(pieces, cuts):
    data = b"".join(pieces)
    body = ChunkedBody()
    out = feed_all(body, cut(data, cuts))
    if body.end is BodyEnd.CLEAN:
        assert read_by_h11(data) == out


@settings(deadline=None)
@given(st.lists(_PIECES, max_size=12), st.lists(st.integers(min_value=0, max_value=200), max_size=6))
def test_cuts_never_change_the_outcome(pieces, cuts):
    data = b"".join(pieces)
    whole, pieced = ChunkedBody(), ChunkedBody()
    assert feed_all(whole, [data] if data else []) == feed_all(pieced, cut(data, cuts))
    assert whole.end is pieced.end


@pytest.mark.parametrize(
    "wire",
    [
        b"0x5\r\nhello\r\n",
        b"+5\r\nhello\r\n",
        b"5_0\r\nhello\r\n",
        b"-5\r\nhello\r\n",
        b" 5\r\nhello\r\n",
        b"\r\n5\r\nhello\r\n",
        b"5\nhello\r\n",
        b"5\r\nhello5\r\nhello\r\n",
        b"5\r\nhello\n",
        b"5;\x00\r\nhello\r\n",
        b"11111111111111111\r\nhello\r\n",
        b"0\r\nno field line\r\n\r\n",
        b"0\r\n folded: x\r\n\r\n",
        b"<html>\r\n",
    ],
)
def test_bytes_that_break_the_framing_end_the_body(wire):
    body = ChunkedBody()
    body.feed(wire)
    assert body.end is BodyEnd.RESET


def test_data_before_the_break_is_given():
    body = ChunkedBody()
    assert body.feed(b"5\r\nhello\r\nnonsense\r\n") == b"hello"
    assert body.end is BodyEnd.RESET


def test_an_endless_size_line_ends_the_body():
    body = ChunkedBody()
    body.feed(b"5;" + b"x" * limits.CHUNK_LINE_BYTES_MAX)
    assert body.end is BodyEnd.RESET


def test_an_endless_trailer_ends_the_body():
    body = ChunkedBody()
    body.feed(b"0\r\n")
    for _ in range(limits.TRAILER_BYTES_MAX // 8 + 1):
        if body.end is None:
            body.feed(b"name: x\r\n")
    assert body.end is BodyEnd.RESET


@pytest.mark.parametrize("sent", [b"", b"5", b"5\r\nhel", b"5\r\nhello", b"5\r\nhello\r\n", b"0\r\n", b"0\r\n\r"])
def test_a_chunked_body_without_its_end_is_truncated(sent):
    body = ChunkedBody()
    if sent:
        body.feed(sent)
    assert body.end is None
    assert body.eof() is BodyEnd.TRUNCATED


def test_bytes_behind_the_end_are_told():
    body = ChunkedBody()
    assert body.feed(chunked(b"a") + b"HTTP/1.1 200 OK\r\n") == b"a"
    assert body.excess


def test_a_sized_body_ends_at_its_length():
    body = SizedBody(5)
    assert body.feed(b"he") == b"he"
    assert body.end is None
    assert body.feed(b"llo") == b"llo"
    assert body.end is BodyEnd.CLEAN
    assert not body.excess


def test_a_sized_body_leaves_what_is_not_its_own():
    body = SizedBody(5)
    assert body.feed(b"hello you") == b"hello"
    assert body.excess


def test_a_sized_body_cut_short_is_truncated():
    body = SizedBody(5)
    body.feed(b"hell")
    assert body.eof() is BodyEnd.TRUNCATED


def test_case_25_a_close_delimited_body_never_ends_clean():
    body = ClosedBody()
    assert body.feed(b"anything") == b"anything"
    assert body.eof() is BodyEnd.CLOSED


@pytest.mark.parametrize(
    ("status", "headers", "kind"),
    [
        (200, [(b"transfer-encoding", b"chunked")], ChunkedBody),
        (200, [(b"transfer-encoding", b"chunked"), (b"content-length", b"5")], ChunkedBody),
        (200, [(b"content-length", b"5")], SizedBody),
        (204, [(b"transfer-encoding", b"chunked")], SizedBody),
        (304, [(b"content-length", b"5")], SizedBody),
        (200, [], ClosedBody),
    ],
)
def test_the_head_decides_the_framing(status, headers, kind):
    assert type(framing_of(status, headers)) is kind
