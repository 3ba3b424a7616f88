"""Request bodies, in four protocols, natively and converted to the other three."""

from __future__ import annotations

import json

from hoptrio.errors import BadRequest, HoptrioError
from hoptrio.protocols.convert import request as convert
from hoptrio.protocols.events import Protocol
from hoptrio.protocols.registry import RULES
from tests.support.conversing import GEMINI_STREAM, PATHS

INVARIANT = (
    "A body is a call or a refusal with a 4xx status, and a call becomes a valid body of a channel or a 400 that names"
    " the parameter."
)
PROTOCOLS = list(Protocol)
_TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
SEEDS = [
    bytes([0]) + json.dumps({"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": _TOOLS}).encode(),
    bytes([1])
    + json.dumps({"model": "m", "input": [{"role": "user", "content": "x"}], "reasoning": {"effort": "low"}}).encode(),
    bytes([2])
    + json.dumps(
        {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "x"}], "stop_sequences": ["a"]}
    ).encode(),
    bytes([3])
    + json.dumps({"contents": [{"role": "user", "parts": [{"text": "x"}]}], "generationConfig": {}}).encode(),
]


def one(data: bytes) -> None:
    """The first byte chooses the client's protocol, the rest is the body."""
    client = PROTOCOLS[(data[0] if data else 0) % len(PROTOCOLS)]
    path = GEMINI_STREAM if client == Protocol.GEMINI and data[:1] > b"\x7f" else PATHS[client]
    try:
        call = RULES[client].parse(path, {"alt": "sse"}, {}, data[1:])
    except HoptrioError as refusal:
        if not 400 <= refusal.status < 500:
            raise
        return
    for channel in PROTOCOLS:
        if channel != client and convert.possible(client, channel, stream=call.stream):
            _converted(call, channel)


def _converted(call, channel) -> None:
    try:
        made = convert.prepare(call, channel).call
    except BadRequest as refusal:
        if not refusal.param:
            raise
        return
    rules = RULES[channel]
    body = rules.encode(made, model="m", output_limit=None, ask_usage=True, drop_unknown=False, drop_tools=frozenset())
    rules.parse(PATHS[channel], {}, {}, body)
