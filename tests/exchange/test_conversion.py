"""Clients on channels of other protocols, through a whole gateway: what they get, what is charged, who is asked."""

from __future__ import annotations

import pytest

from tests.support.converting import DIRECTIONS, GOLDEN
from tests.support.harness import BODIES, channels, gateway
from tests.support.provider import sse

TOOL = {"type": "object", "properties": {"x": {"type": "integer"}}}
CHAT_TOOL = {"type": "function", "function": {"name": "f", "parameters": TOOL}}
#: What each client sends: a request with a tool, that shows all there is of the answer.
ASKED = {
    "chat": {**BODIES["chat"], "tools": [CHAT_TOOL]},
    "responses": {**BODIES["responses"], "tools": [{"type": "function", "name": "f", "parameters": TOOL}]},
    "messages": {**BODIES["messages"], "tools": [{"name": "f", "input_schema": TOOL}]},
    "gemini": {**BODIES["gemini"], "tools": [{"functionDeclarations": [{"name": "f", "parameters": TOOL}]}]},
}
each_direction = pytest.mark.parametrize(("channel", "client"), DIRECTIONS)


def events(protocol):
    """The golden stream of a provider, an event a piece."""
    return [block + b"\n\n" for block in GOLDEN[protocol].split(b"\n\n")[:-1]]


def on(*protocols, **changes):
    """A config whose one channel speaks these."""
    return channels("a", protocols=list(protocols), **changes)


def text_of(client, events):
    if client == "chat":
        return "".join(choice["delta"].get("content") or "" for event in events for choice in event["choices"])
    if client == "responses":
        return "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")
    if client == "messages":
        return "".join(event["delta"].get("text", "") for event in events if event["type"] == "content_block_delta")
    parts = [part for event in events for part in event["candidates"][0]["content"]["parts"]]
    return "".join(part.get("text", "") for part in parts if not part.get("thought"))


@each_direction
async def test_a_converted_stream_is_whole_and_costs_what_it_costs_natively(channel, client, autojump_clock):
    script = sse(*events(channel))
    async with gateway(config=on(channel), hosts={"a": [script]}) as world:
        native = await world.record(await world.call(channel, ASKED[channel]))
        response = await world.call(client, ASKED[client])
        record = await world.record(response)
        assert (await world.ledger.audit()).ok
    assert (response.status, response.clean) == (200, True)
    assert (record.state, record.reason, record.evidence) == ("captured", None, "sse_terminal")
    assert (record.protocol, record.channel) == (client, "a")
    assert native.charge_nanos
    assert (record.charge_nanos, record.usage, record.raw_usage) == (
        native.charge_nanos,
        native.usage,
        native.raw_usage,
    )
