"""An answer is read to the same counts however its bytes arrive."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.answer import Answer
from bench.dialogs import DIALOGS
from bench.templates import Frames, template
from hoptrio.protocols.events import Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

HEAD = b"HTTP/1.1 200 OK\r\nX-Request-Id: req_1\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


def frames(protocol: str) -> Frames:
    return template(Protocol(protocol), 5, 40, 17, 42, True)


def streamed(protocol: str) -> bytes:
    found = frames(protocol)
    events = b"".join(each.at(1_000_000_000_000_000_000) for each in found.events)
    return CHUNKED + found.opening + events + b"".join(found.closing)


def fed(protocol: str, data: bytes, size: int) -> Answer:
    answer = Answer(DIALOGS[protocol], lambda delay_ns, now_ns: None)
    for piece in _cut(data, size):
        answer.feed(piece, 2_000_000_000_000_000_000)
    return answer


def _cut(data: bytes, size: int) -> Iterator[bytes]:
    for at in range(0, len(data), size):
        yield data[at : at + size]


@pytest.mark.parametrize("protocol", DIALOGS)
@given(size=st.integers(1, 2_000))
def test_a_stream_is_read_alike_however_it_is_cut(protocol: str, size: int) -> None:
    answer = fed(protocol, streamed(protocol), size)
    assert (answer.status, answer.request_id) == (200, "req_1")
    assert (answer.events, answer.input, answer.output) == (5, 17, 42)
    assert answer.terminal
    assert answer.finished


@pytest.mark.parametrize("protocol", DIALOGS)
def test_a_stream_that_is_cut_short_is_not_finished(protocol: str) -> None:
    answer = fed(protocol, streamed(protocol)[:-5], 100)
    assert answer.chunked
    assert not answer.finished


@pytest.mark.parametrize("protocol", DIALOGS)
@pytest.mark.parametrize("size", [1, 100, 10_000])
def test_an_answer_in_one_piece_ends_by_its_length(protocol: str, size: int) -> None:
    body = frames(protocol).body
    whole = HEAD + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    answer = fed(protocol, whole, size)
    assert answer.finished
    assert (answer.input, answer.output) == (17, 42)
    assert not fed(protocol, whole[:-1], size).finished


def test_every_event_is_told_with_its_delay() -> None:
    delays: list[int | None] = []
    answer = Answer(DIALOGS["chat"], lambda delay_ns, now_ns: delays.append(delay_ns))
    answer.feed(streamed("chat"), 1_000_000_000_000_000_007)
    assert delays == [7] * 5


def test_events_of_anybody_are_counted_and_their_gaps_are_told() -> None:
    delays: list[int | None] = []
    answer = Answer(DIALOGS["chat"], lambda delay_ns, now_ns: delays.append(delay_ns), stamped=False)
    answer.feed(CHUNKED + b'b\r\ndata: {"a"}\r\n', 100)
    answer.feed(b'd\r\n\n\ndata: {"b"}\r\n', 130)
    assert answer.events == 2
    assert delays == [None, 30]
