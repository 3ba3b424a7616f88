"""Providers' streams, read natively and for clients of the other protocols."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from hoptrio.protocols.convert import request as convert
from hoptrio.protocols.events import Protocol
from tests.support.converting import GOLDEN, bodies, convert_body, converting, cut_at, native
from tests.support.standard_sse import standard

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

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

#: What no provider documents, and any may send: every make of JSON, keys that cannot be hashed, halves of characters.
ODD: tuple[Any, ...] = (
    *(None, True, 0, -1, 1.5, 2**70, "", "x", "\ud800", "\n\nevent: x\n"),
    *([], {}, [None], [[]], [{}], [1, "x"], {"a": None}, {"type": {}}, {"a": 2**70, "b": "\ud83d"}),
)


def odd_stream(channel: Protocol, dice: random.Random) -> bytes:
    """A golden stream with one value of one event, however deep it stands, replaced by an odd one."""
    events = cut_at(GOLDEN[channel])
    at = dice.randrange(len(events) - (events[-1].data == b"[DONE]"))
    wire = b""
    for place, event in enumerate(events):
        data = json.dumps(_odd(json.loads(event.data), dice)).encode() if place == at else event.data
        wire += (b"event: " + event.name + b"\n" if event.name else b"") + b"data: " + data + b"\n\n"
    return wire


def odd_body(channel: Protocol, dice: random.Random) -> dict[str, Any]:
    """A whole answer, changed the same way."""
    changed = _odd(bodies()[channel], dice)
    return changed if isinstance(changed, dict) else {}


def whole(channel: Protocol, client: Protocol, body: dict[str, Any]) -> None:
    """A whole answer: whatever it is, what the client gets is JSON."""
    converted = convert_body(body, channel, client)
    if converted.body:
        json.loads(converted.body)


def _odd(value: Any, dice: random.Random) -> Any:
    changed = deepcopy(value)
    *way, last = dice.choice([path for path in _paths(value) if path])
    holder = changed
    for step in way:
        holder = holder[step]
    holder[last] = dice.choice(ODD)
    return changed


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, member in members:
        yield from _paths(member, (*path, step))


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
