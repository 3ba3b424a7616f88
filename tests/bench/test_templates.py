"""What the harness's provider says is a whole answer in each protocol, and its client counts all of it once."""

from __future__ import annotations

import pytest

from bench.asked import Asked, find, line
from bench.dialogs import DIALOGS, request
from bench.templates import template
from bench.unchunk import Unchunk
from hoptrio.protocols.events import Protocol
from hoptrio.protocols.registry import RULES

EVENTS = 7


def body(protocol: Protocol, *, size: int = 40) -> bytes:
    frames = template(protocol, EVENTS, size, 30, 51, True)
    wire = frames.opening + b"".join(event.at(at) for at, event in enumerate(frames.events, 1))
    unchunk = Unchunk()
    found = unchunk.feed(wire + b"".join(frames.closing))
    assert unchunk.finished
    return found


@pytest.mark.parametrize("protocol", list(Protocol))
def test_every_event_carries_its_time_once(protocol: Protocol) -> None:
    times = DIALOGS[protocol.value].stamp.findall(body(protocol))
    assert [int(each) for each in times] == list(range(1, EVENTS + 1))


@pytest.mark.parametrize("protocol", list(Protocol))
def test_the_client_finds_the_terminal_and_the_usage(protocol: Protocol) -> None:
    dialog, data = DIALOGS[protocol.value], body(protocol)
    assert dialog.terminal in data
    assert dialog.usage_hint in data
    inputs, outputs = list(dialog.usage.finditer(data))[-1].groups()
    # Messages repeats what it said at first; the output is in the last one alone.
    assert (int(inputs), int(outputs)) == (30, 51)


@pytest.mark.parametrize("protocol", list(Protocol))
def test_an_event_has_as_many_bytes_of_text_as_asked(protocol: Protocol) -> None:
    short, long = (template(protocol, EVENTS, size, 30, 51, True).events[1].at(1) for size in (40, 1040))
    # The chunk's size may need another digit.
    assert 1000 <= len(long) - len(short) <= 1002


@pytest.mark.parametrize("protocol", list(Protocol))
def test_what_is_asked_survives_the_request(protocol: Protocol) -> None:
    asked = Asked(run=3, number=17, events=EVENTS, pace_ns=5, silent=1, fail="cut", fail_after=2)
    sent = request(
        protocol.value, base="", host="x", key="k", model="m", prompt=line(asked), call="c", usage_asked=True
    )
    head, _, raw = sent.partition(b"\r\n\r\n")
    assert find(raw) == asked
    assert f"content-length: {len(raw)}".encode() in head
    assert RULES[protocol].protocol is protocol


def test_a_request_of_another_asks_for_a_small_answer() -> None:
    assert find(b'{"messages":[]}') == Asked()
