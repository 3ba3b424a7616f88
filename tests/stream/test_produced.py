"""What is kept of an answer: bounded in bytes and in parts, whatever the provider sends."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from hoptrio import limits
from hoptrio.protocols.events import Protocol
from hoptrio.protocols.registry import RULES
from hoptrio.stream.produced import Produced


def chunk(index, text, key="delta"):
    return json.dumps({"choices": [{"index": index, key: {"content": text}}]}).encode()


def test_what_is_beyond_the_bound_is_not_kept():
    produced = Produced(RULES[Protocol.CHAT])
    piece = "é" * 100_000
    for _ in range(30):
        produced.take(chunk(0, piece))
    (text,) = produced.texts()
    assert len(text.encode()) == limits.PRODUCED_BYTES_MAX
    assert text == "é" * (limits.PRODUCED_BYTES_MAX // 2)


def test_parts_beyond_the_bound_are_kept_together():
    produced = Produced(RULES[Protocol.CHAT])
    for index in range(1_000):
        produced.take(chunk(index, f"{index} "))
    kept = produced.texts()
    assert len(kept) == limits.PRODUCED_PARTS_MAX + 1
    assert "".join(kept) == "".join(f"{index} " for index in range(1_000))


def test_an_event_that_can_only_be_an_image_is_not_read():
    produced = Produced(RULES[Protocol.CHAT])
    produced.take(chunk(0, "x" * limits.PRODUCED_EVENT_BYTES_MAX))
    assert produced.texts() == ()


pieces = st.lists(st.tuples(st.integers(0, 2), st.text(max_size=8), st.booleans()), max_size=30)


@given(pieces)
def test_each_choice_has_its_pieces_in_order_or_the_longer_whole(drawn):
    produced, expected = Produced(RULES[Protocol.CHAT]), {}
    for index, text, whole in drawn:
        produced.take(chunk(index, text, "message" if whole else "delta"))
        old = expected.get(index, "")
        expected[index] = max(old, text, key=lambda each: len(each.encode())) if whole else old + text
    assert sorted("".join(produced.texts())) == sorted("".join(expected.values()))
