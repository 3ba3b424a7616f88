"""What a channel is sent: a call in the channel's own protocol, serialised as its settings want it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoptrio.admission.quote import output_limit
from hoptrio.protocols.chat.request import limited_in
from hoptrio.protocols.events import Protocol
from hoptrio.protocols.registry import RULES

if TYPE_CHECKING:
    from hoptrio.admission.catalogue import Channel, Model
    from hoptrio.protocols.events import Call

__all__ = ["asks_usage", "body_for"]


def asks_usage(call: Call, channel: Channel) -> bool:
    """Is the provider told to report usage? Only Chat has to be, and some providers refuse the option."""
    return channel.include_usage == "ask" and call.protocol is Protocol.CHAT and call.stream


def body_for(
    call: Call, model: Model, channel: Channel, *, name: str, drop_tools: frozenset[str], converted: bool = False
) -> bytes:
    """The request's body; `name` is the provider's own of the model, `drop_tools` are hosted tools to leave out. A
    converted Chat request has its output limit in the channel's spelling; a client's own stays where it put it."""
    if converted and call.protocol is Protocol.CHAT:
        call = limited_in(call, channel.max_tokens_field)
    return RULES[call.protocol].encode(
        call,
        model=name,
        output_limit=output_limit(call, model),
        ask_usage=asks_usage(call, channel),
        drop_unknown=channel.unknown_fields == "drop",
        drop_tools=drop_tools,
    )
