"""Events as bytes, well formed and oddly formed."""

from __future__ import annotations

import pytest

from hoptrio.protocols.events import Framing, Protocol
from hoptrio.simulator.frames import Frame
from hoptrio.simulator.script import parse_directive
from hoptrio.simulator.steps import Send
from hoptrio.simulator.wire import Encoder
from tests.support.performing import body_of, pauses_of, perform


def encoded(directive, frame, framing=Framing.SSE):
    return Encoder(parse_directive(directive), framing).event(frame)


@pytest.mark.parametrize(
    ("wire", "event"),
    [
        ("", b"event: ping\ndata: {}\n\n"),
        ("crlf", b"event: ping\r\ndata: {}\r\n\r\n"),
        ("cr", b"event: ping\rdata: {}\r\r"),
        ("unnamed", b"data: {}\n\n"),
        ("ids", b"id: 1\nevent: ping\ndata: {}\n\n"),
        ("nospace", b"event:ping\ndata:{}\n\n"),
        ("crlf,nospace,unnamed", b"data:{}\r\n\r\n"),
    ],
)
def test_forms_of_an_event(wire, event):
    assert encoded(f"wire={wire}", Frame(b"ping", b"{}")) == event


def test_an_array_has_elements_and_no_events():
    encoder = Encoder(parse_directive(""), Framing.JSON_ARRAY)
    assert encoder.event(Frame(b"", b"1")) + encoder.comment() + encoder.event(
        Frame(b"", b"2")
    ) + encoder.closing() == (b"[1\n\n,\r\n2\n]")
    assert Encoder(parse_directive(""), Framing.JSON_ARRAY).closing() == b"[]"


def chat(directive):
    """The steps of a short chat stream."""
    return perform(Protocol.CHAT, f"sim: text=a✓b events=3 pace=1 input=9 {directive}")


PLAIN = body_of(chat(""))


def writes(directive):
    return [step.data for step in chat(directive) if isinstance(step, Send)]


def test_bom_comes_first_and_once():
    assert body_of(chat("wire=bom")) == b"\xef\xbb\xbf" + PLAIN


def test_the_last_blank_line_can_be_missing():
    assert body_of(chat("wire=unterminated")) == PLAIN[:-1]
    assert body_of(chat("wire=unterminated,crlf")).endswith(b"[DONE]\r\n")


def test_done_can_stand_in_every_protocol():
    assert body_of(perform(Protocol.GEMINI, "sim: events=1 wire=done")).endswith(b"data: [DONE]\n\n")


def test_split_cuts_inside_a_character():
    halves = writes("wire=split")
    assert b"".join(halves) == PLAIN
    assert len(halves) == 2 * len(writes(""))
    assert any(half.endswith("✓".encode()[:1]) for half in halves)


def test_batch_joins_events_and_keeps_the_pace():
    joined = writes("batch=4")
    assert b"".join(joined) == PLAIN
    assert len(joined) == -(-len(writes("")) // 4)
    assert sum(pauses_of(chat("batch=4"))) == sum(pauses_of(chat("")))


def test_a_trickle_is_paced():
    drops = writes("trickle=10")
    assert b"".join(drops) == PLAIN
    assert max(map(len, drops)) == 10
    assert len(pauses_of(chat("trickle=10"))) > len(PLAIN) // 10 - len(writes(""))


def test_close_gives_the_framing_up():
    assert chat("wire=close")[0].chunked is False
    assert chat("")[0].chunked is True
