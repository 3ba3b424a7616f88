"""What conversion costs: at most twice the native path's CPU for a text event (issue 5)."""

from __future__ import annotations

import time

import pytest

from hoptrio.protocols.sse import Splitter
from tests.support.converting import DIRECTIONS, chat_chunk, converting, named, native, sse

ROUNDS, EVENTS = 40, 500
DELTA = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": " hello there"}}
ITEM = {"item_id": "msg_68acbdefabcdefabcdefabcdefabcdefabcdef", "output_index": 0, "content_index": 0}
COUNTS = {"promptTokenCount": 5, "candidatesTokenCount": 7, "totalTokenCount": 12}
EVENT = {
    "chat": sse([chat_chunk({"content": " hello there"}, usage=None, service_tier="default")]),
    "responses": named([{"type": "response.output_text.delta", "sequence_number": 9, **ITEM, "delta": " hello there"}]),
    "messages": named([DELTA]),
    "gemini": sse(
        [{"candidates": [{"content": {"parts": [{"text": " hello there"}]}, "index": 0}], "usageMetadata": COUNTS}]
    ),
}
OPENING = {
    "chat": b"",
    "responses": named([{"type": "response.created", "response": {"id": "r"}}]),
    "messages": named([{"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}]),
    "gemini": b"",
}


def cpu_s(reader, channel):
    """CPU of one event, from its bytes to the client's, the least of many rounds."""
    splitter = Splitter()
    for event in splitter.feed(OPENING[channel] + EVENT[channel]):
        reader.feed(event)
    raw, best = EVENT[channel], float("inf")
    for _ in range(ROUNDS):
        began = time.process_time()
        for _ in range(EVENTS):
            for event in splitter.feed(raw):
                reader.feed(event)
        best = min(best, time.process_time() - began)
    return best / EVENTS


@pytest.mark.parametrize(("channel", "client"), DIRECTIONS)
def test_a_converted_event_costs_at_most_twice_a_native_one(channel, client):
    ratio = cpu_s(converting(channel, client), channel) / cpu_s(native(channel), channel)
    assert ratio < 2
