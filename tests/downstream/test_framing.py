"""Heads and chunks, and that h11 reads them as they are meant."""

from __future__ import annotations

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptrio.downstream import framing

NAMES = st.text("abcdefghijklmnopqrstuvwxyz-", min_size=1).map(lambda name: b"x-" + name.encode())
VALUES = st.binary().map(lambda value: bytes(each for each in value if 0x21 <= each <= 0x7E))


def read(data):
    """The events that a client's h11 finds."""
    client = h11.Connection(h11.CLIENT)
    client.send(h11.Request(method=b"GET", target=b"/", headers=[(b"host", b"x")]))
    client.send(h11.EndOfMessage())
    client.receive_data(data)
    return iter(client.next_event, h11.NEED_DATA)


@given(st.sampled_from([200, 204, 400, 402, 429, 503, 529]), st.lists(st.tuples(NAMES, VALUES), max_size=5))
def test_a_head_reads_as_it_was_meant(status, headers):
    response = next(read(framing.head(status, headers)))
    assert response.status_code == status
    assert list(response.headers) == headers


@given(st.lists(st.binary(min_size=1), max_size=5))
def test_chunks_read_as_one_body(pieces):
    data = framing.head(200, [(b"transfer-encoding", b"chunked")]) + b"".join(map(framing.chunk, pieces))
    events = []
    for event in read(data + framing.LAST_CHUNK):
        events.append(event)
        if isinstance(event, h11.EndOfMessage):
            break
    assert b"".join(each.data for each in events if isinstance(each, h11.Data)) == b"".join(pieces)
    assert isinstance(events[-1], h11.EndOfMessage)


@pytest.mark.parametrize("value", [b"a\r\nb: c", b"a\nb: c", b"a\rb", b"a\0b", b"a\r\n\r\n"])
def test_no_header_is_more_than_its_line(value):
    with pytest.raises(ValueError, match="line end"):
        framing.head(200, [(b"x", value)])
    with pytest.raises(ValueError, match="line end"):
        framing.head(200, [(value, b"x")])


@pytest.mark.parametrize(
    ("value", "closes"),
    [(b"close", True), (b"Keep-Alive, Close", True), (b"keep-alive", False), (b"closed", False), (b"x-close", False)],
)
def test_the_option_close_is_one_word_of_a_list(value, closes):
    assert framing.says_close([(b"host", b"x"), (b"connection", value)]) is closes
