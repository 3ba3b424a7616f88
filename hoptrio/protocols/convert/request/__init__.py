"""Requests between protocols: a client's body to the neutral `Conversation`, and that to a channel's body. Pure.

One decoder and one encoder a protocol, nothing pairwise. What becomes of each parameter is data (`tables`), shown in
docs/conversion.md. The input is never changed; parts of it (schemas, images) may be shared with the output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from hoptrio.limits import CONVERTED_OUTPUT_TOKENS
from hoptrio.protocols.convert.naming import ToolName, names_by_join
from hoptrio.protocols.convert.request.decode import chat as decode_chat
from hoptrio.protocols.convert.request.decode import gemini as decode_gemini
from hoptrio.protocols.convert.request.decode import messages as decode_messages
from hoptrio.protocols.convert.request.decode import responses as decode_responses
from hoptrio.protocols.convert.request.encode import chat as encode_chat
from hoptrio.protocols.convert.request.encode import gemini as encode_gemini
from hoptrio.protocols.convert.request.encode import messages as encode_messages
from hoptrio.protocols.convert.request.encode import responses as encode_responses
from hoptrio.protocols.convert.request.tables import check_channel, unconvertible
from hoptrio.protocols.events import Call, Framing, Protocol
from hoptrio.protocols.messages.request import VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hoptrio.protocols.convert.request.conversation import Conversation

__all__ = ["NEAREST", "Prepared", "decode", "encode", "possible", "prepare", "tool_names"]

_DECODERS: Mapping[Protocol, Callable[[Call, frozenset[str]], Conversation]] = {
    Protocol.CHAT: decode_chat.decode,
    Protocol.RESPONSES: decode_responses.decode,
    Protocol.MESSAGES: decode_messages.decode,
    Protocol.GEMINI: decode_gemini.decode,
}
_ENCODERS: Mapping[Protocol, Callable[[Conversation, Any], dict[str, Any]]] = {
    Protocol.CHAT: encode_chat.encode,
    Protocol.RESPONSES: encode_responses.encode,
    Protocol.MESSAGES: encode_messages.encode,
    Protocol.GEMINI: encode_gemini.encode,
}
#: The protocols of a channel that speaks several, the client's not among them, in the order they are tried: those that
#: carry reasoning from turn to turn come first.
NEAREST = (Protocol.RESPONSES, Protocol.MESSAGES, Protocol.GEMINI, Protocol.CHAT)
#: The version that still takes sampling parameters (protocols page 6.1).
_MESSAGES_HEADERS = (("anthropic-version", VERSION),)


class Prepared(NamedTuple):
    """What a channel is sent, and what its answer is read with."""

    #: A call of the channel's protocol, ready for that protocol's rules (`encode`, `path`).
    call: Call
    #: What the client calls each of its tools, by what the channel calls it.
    names: Mapping[str, ToolName]


def possible(client: Protocol, channel: Protocol, *, stream: bool) -> bool:
    """Can a client of the one protocol be served by a channel of the other? A Chat stream never by a Gemini channel
    (contract); a request may still be refused for what it holds."""
    return client is not channel and not (stream and client is Protocol.CHAT and channel is Protocol.GEMINI)


def decode(call: Call, drop_tools: frozenset[str] = frozenset()) -> Conversation:
    """The neutral form of a client's request, without the hosted tools in `drop_tools` (by their price-table names).

    Raises BadRequest, naming the parameter, for what no channel of another protocol can be told.
    """
    return _DECODERS[call.protocol](call, drop_tools)


def encode(conversation: Conversation, channel: Protocol, *, output_max: int | None = None) -> dict[str, Any]:
    """The body for a channel. `output_max` is the most that the model puts out: a limit in the request is lowered to
    it, and a request without one gets it where the protocol demands one.

    Raises BadRequest, naming the client's parameter, for what this channel cannot be told.
    """
    if not possible(conversation.client, channel, stream=conversation.stream):
        raise unconvertible("stream", f"a {conversation.client} stream cannot be served by a {channel} channel")
    check_channel(conversation, channel)
    limit = conversation.limit_tokens
    if limit is not None and output_max is not None:
        limit = min(limit, output_max)
    if limit is None and channel is Protocol.MESSAGES:
        limit = output_max or CONVERTED_OUTPUT_TOKENS
    return _ENCODERS[channel](conversation, limit)


def prepare(
    call: Call, channel: Protocol, *, drop_tools: frozenset[str] = frozenset(), output_max: int | None = None
) -> Prepared:
    """A client's call for a channel of another protocol. Raises BadRequest as `decode` and `encode` do."""
    conversation = decode(call, drop_tools)
    body = encode(conversation, channel, output_max=output_max)
    # A Gemini client's unsaid tier is standard; elsewhere the provider may serve, and price, it as its priority one.
    unsaid = call.tier_open or (call.protocol is Protocol.GEMINI and not conversation.tier)
    tier_open = unsaid and channel is not Protocol.GEMINI
    return Prepared(_channel_call(call, channel, body, tier_open=tier_open), tool_names(conversation))


def _channel_call(call: Call, channel: Protocol, body: dict[str, Any], *, tier_open: bool) -> Call:
    return msgspec.structs.replace(
        call,
        protocol=channel,
        framing=Framing.SSE if call.stream else Framing.JSON,
        body=body,
        usage_asked=call.stream and channel is Protocol.CHAT,
        output_limit=body.get("max_tokens", call.output_limit),
        tier_open=tier_open,
        # What the request converts to runs no tool at the provider.
        hosted_tools=(),
        hosted_calls_max={},
        headers=_MESSAGES_HEADERS if channel is Protocol.MESSAGES else (),
        query=(),
    )


def tool_names(conversation: Conversation) -> dict[str, ToolName]:
    """What the client calls each of its tools, by what the channel calls it: the way back for the answer."""
    return names_by_join(tool.tool for tool in conversation.tools)
