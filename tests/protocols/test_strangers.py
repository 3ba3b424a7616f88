"""Whatever a provider sends, no reader raises, and what it forwards is whole events."""

from __future__ import annotations

import json
import random

import pytest

from hoptrio.contract import Reason
from hoptrio.errors import Internal
from hoptrio.protocols.chat.reader import ChatReader
from hoptrio.protocols.events import SseEvent
from hoptrio.protocols.openai_errors import read_error
from hoptrio.protocols.responses.reader import ResponsesReader

NAMES = [
    "choices",
    "usage",
    "error",
    "service_tier",
    "index",
    "delta",
    "message",
    "finish_reason",
    "content",
    "tool_calls",
    "audio",
    "object",
    "code",
    "type",
    "detail",
    "id",
    "sequence_number",
    "response",
    "item",
    "item_id",
    "output",
    "tool_usage",
    "web_search",
    "conversation",
    "prompt_tokens",
    "completion_tokens",
    "total_tokens",
    "prompt_tokens_details",
    "cached_tokens",
    "input_tokens",
    "output_tokens",
    "status",
    "data",
]
SCALARS = [None, True, False, 0, 1, -1, 2**63, 10**30, 1.5, 1e300, "", "stop", "error", "\r\nx", "é", "\ud83d", "429"]
TYPES = ["response.created", "response.completed", "response.failed", "error", "response.x.delta", "response.y.failed"]


def anything(dice, depth=0):
    shape = dice.randrange(6 if depth < 4 else 4)
    if shape == 4:
        return [anything(dice, depth + 1) for _ in range(dice.randrange(3))]
    if shape == 5:
        return {dice.choice(NAMES): anything(dice, depth + 1) for _ in range(dice.randrange(6))}
    return dice.choice(SCALARS)


def event(dice):
    value = {dice.choice(NAMES): anything(dice) for _ in range(dice.randrange(8))}
    value |= {"type": dice.choice(TYPES)} if dice.random() < 0.6 else {}
    value |= {"choices": [{"index": 0, "delta": anything(dice, 2)}]} if dice.random() < 0.5 else {}
    data = json.dumps(value, ensure_ascii=dice.random() < 0.5).encode("utf-8", "surrogatepass")
    return SseEvent(dice.choice([b"", b"error", b"\xff"]), data, dice.random() < 0.1)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("make", [lambda: ChatReader(hide_usage=True), lambda: ResponsesReader(model="m")])
def test_no_reader_raises_for_anything(make, seed):
    dice = random.Random(seed)
    for _ in range(100):
        reader = make()
        events = [event(dice) for _ in range(3)]
        wires = [reader.feed(each).wire for each in events]
        wires += [reader.finish(clean=True).wire, reader.failure(Reason.INTERNAL, Internal("m"))]
        assert all(wire.endswith(b"\n\n") for wire in wires if wire)
        assert all(read_error(400, {}, each.data).status == 400 for each in events)
