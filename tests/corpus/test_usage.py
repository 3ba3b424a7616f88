"""Usage as recorded from OpenAI and from those who speak its protocols: it adds up, whatever is inside of what."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hoptrio.metering.evidence import usage
from hoptrio.protocols.chat.reader import ChatReader
from hoptrio.protocols.events import Protocol
from hoptrio.protocols.responses.reader import ResponsesReader
from hoptrio.protocols.sse import Splitter

CORPUS = Path(os.environ.get("HOPTRIO_CORPUS", Path(__file__).parents[3] / "shared" / "corpus"))
RECORDINGS = sorted(path.parent for name in ("chat", "responses") for path in CORPUS.glob(f"{name}/*/response.sse"))

pytestmark = pytest.mark.skipif(not RECORDINGS, reason="no recordings here")


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_recorded_usage_adds_up_to_its_total(recording):
    protocol = Protocol(recording.parent.name)
    reader = ChatReader(hide_usage=False) if protocol is Protocol.CHAT else ResponsesReader(model="m")
    for event in Splitter().feed((recording / "response.sse").read_bytes()):
        reader.feed(event)
    if reader.counts is None:
        return
    found = usage(reader.counts, protocol, answered=reader.answered)
    assert found is not None
    assert found.flags == ()
    assert found.all_input + found.output == reader.counts.total
