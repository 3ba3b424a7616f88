"""Providers' streams, read natively and for clients of the other protocols."""

from __future__ import annotations

import json

from hoptrio.protocols.convert import request as convert
from hoptrio.protocols.events import Protocol
from tests.support.converting import GOLDEN, converting, cut_at, native
from tests.support.standard_sse import standard

INVARIANT = (
    "Whatever a provider streams, no reader raises, every event for the client is whole JSON or [DONE], and nothing"
    " follows [DONE]."
)
PROTOCOLS = list(Protocol)
PAIRS = [
    (channel, client)
    for channel in PROTOCOLS
    for client in PROTOCOLS
    if channel == client or convert.possible(client, channel, stream=True)
]
SEEDS = [bytes([PAIRS.index(pair)]) + GOLDEN[pair[0]] for pair in PAIRS]


def one(data: bytes) -> None:
    """The first byte chooses channel and client, the rest is the provider's body."""
    channel, client = PAIRS[(data[0] if data else 0) % len(PAIRS)]
    reader = native(channel) if channel == client else converting(channel, client)
    wire = []
    for event in cut_at(data[1:]):
        wire.append(reader.feed(event).wire)
        if reader.patience_s == 0:
            break
    finish = reader.finish(clean=True)
    wire.append(finish.wire)
    if channel != client:
        _check(b"".join(wire), client)


def _check(wire: bytes, client: Protocol) -> None:
    events = standard(wire)
    for event in events:
        if event.data != b"[DONE]":
            json.loads(event.data)
    done = [index for index, event in enumerate(events) if event.data == b"[DONE]"]
    if client == Protocol.CHAT:
        assert done in ([], [len(events) - 1]), "something follows [DONE]"
    else:
        assert not done, "[DONE] belongs to Chat alone"
