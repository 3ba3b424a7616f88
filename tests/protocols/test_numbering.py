"""What was written is cut into the events it was written as, however it comes."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from hoptrio.protocols.events import Framing
from hoptrio.protocols.gemini.array import ArrayFraming
from hoptrio.protocols.numbering import Replay, by_number, by_sequence, sequence_of
from hoptrio.protocols.sse import data_event, named_event

texts = st.text('ab\\"{}[],\n \u00e9', max_size=12)
payloads = st.lists(texts.map(lambda text: b'{"x": "%b"}' % _escaped(text)), max_size=8)


def _escaped(text):
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").encode()


def pieces(whole, cuts):
    return [whole[a:b] for a, b in pairwise([0, *sorted(each % (len(whole) + 1) for each in cuts), len(whole)])]


def replayed(framing, whole, cuts, after=0):
    replay = Replay(framing, by_number(after))
    out = b"".join(map(replay.feed, pieces(whole, cuts))) + replay.finish()
    return out, replay.events


@given(payloads, st.lists(st.integers(0, 500), max_size=6), st.integers(0, 9))
def test_an_sse_stream(datas, cuts, after):
    events = [named_event(b"n", data) if at % 2 else data_event(data) for at, data in enumerate(datas)]
    expected = [b"id: %d\n%b" % pair for pair in enumerate(events, 1)][after:]
    assert replayed(Framing.SSE, b"".join(events), cuts, after) == (b"".join(expected), len(events))


@given(payloads, st.lists(st.integers(0, 500), max_size=6), st.integers(0, 9), st.booleans())
def test_a_json_array_whole_or_not_closed(datas, cuts, after, closed):
    framing = ArrayFraming()
    whole = b"".join(map(framing.element, datas)) + (framing.close() if closed else b"")
    expected = [b"id: %d\n%b" % (number, data_event(data)) for number, data in enumerate(datas, 1)][after:]
    assert replayed(Framing.JSON_ARRAY, whole, cuts, after) == (b"".join(expected), len(datas))


def test_an_element_is_told_when_it_is_whole_and_not_with_the_next():
    replay = Replay(Framing.JSON_ARRAY, by_number(0))
    assert replay.feed(b'[{"a": {}') == b""
    assert replay.feed(b"}") == b'id: 1\ndata: {"a": {}}\n\n'
    assert replay.feed(b",\r\n{}") == b"id: 2\ndata: {}\n\n"
    assert (replay.feed(b"]"), replay.finish()) == (b"", b"")


def test_a_large_event_in_many_pieces_is_joined_once():
    replay = Replay(Framing.SSE, by_number(0))
    event = data_event(b"x" * 4_000_000)
    out = b"".join(replay.feed(event[at : at + 1000]) for at in range(0, len(event), 1000))
    assert out == b"id: 1\n" + event


def test_the_sequence_number_of_an_event_or_else_its_place():
    assert sequence_of(b'event: x\ndata: {"type": "x", "sequence_number": 7}', 3) == 7
    for block in (b'data: {"type": "x"}', b"data: [DONE]", b'data: {"sequence_number": null}', b"event: x"):
        assert sequence_of(block, 3) == 3
    tell = by_sequence(2)
    assert tell(3, b"data: {}") == b""
    assert tell(4, b"data: {}") == b"data: {}\n\n"
    assert by_sequence(None)(1, b"data: {}") == b"data: {}\n\n"
