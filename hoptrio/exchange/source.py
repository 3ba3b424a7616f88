"""The chosen channel as a stream's `Source`: builds the provider's request and counts the channel's load."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoptrio.upstream.provider import request_to

if TYPE_CHECKING:
    from collections.abc import Callable

    from hoptrio.admission.catalogue import Channel
    from hoptrio.protocols.events import Call
    from hoptrio.protocols.rules import Rules
    from hoptrio.upstream.answer import Answer, Unreached
    from hoptrio.upstream.client import Upstream

__all__ = ["ChannelSource"]


class ChannelSource:
    """One channel, for one call."""

    def __init__(self, upstream: Upstream, channel: Channel, rules: Rules, call: Call, body: bytes) -> None:
        self._upstream = upstream
        self._channel = channel
        self._rules = rules
        self._call = call
        self._body = body

    async def open(self, on_dispatched: Callable[[], None]) -> Answer | Unreached:
        """Send the request; the connection is the pool's."""
        path = self._rules.path(self._call, self._channel.models[self._call.model])
        call = self._call
        request = request_to(self._channel, call.protocol, path, self._body, stream=call.stream, relayed=call.headers)
        return await self._upstream.open(request, on_dispatched=on_dispatched)
