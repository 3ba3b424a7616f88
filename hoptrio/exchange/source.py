"""The channels that one call may be sent to, as a stream's `Source`: one at a time, counted and judged.

Whatever becomes of the stream, the place on a channel that an attempt took is given back exactly once.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from hoptrio.protocols.registry import RULES
from hoptrio.stream.reading import Converting, Native
from hoptrio.upstream.failure import from_provider
from hoptrio.upstream.provider import request_to

if TYPE_CHECKING:
    from collections.abc import Callable

    from hoptrio.admission.gate import Admitted, Candidate
    from hoptrio.admission.routing import Router
    from hoptrio.protocols.events import Call
    from hoptrio.stream.blame import Blame
    from hoptrio.stream.reading import Reading
    from hoptrio.upstream.answer import Answer, Unreached
    from hoptrio.upstream.client import Upstream

__all__ = ["ChannelSource"]


class ChannelSource:
    """The attempts of one call. The gate has claimed the first of `admitted`'s candidates; `close` when all is over."""

    def __init__(
        self,
        upstream: Upstream,
        router: Router,
        call: Call,
        admitted: Admitted,
        *,
        created_s: int,
        dropped: Callable[[frozenset[str]], None],
    ) -> None:
        """`created_s` is the wall clock; `dropped` is told with each attempt which hosted tools its channel is not told
        of."""
        self._upstream = upstream
        self._router = router
        self._call = call
        self._created_s = created_s
        self._dropped = dropped
        self._candidates = {each.channel.name: each for each in admitted.candidates}
        self._asked: list[str] = []
        self._take(admitted.candidates[0])

    @property
    def channel(self) -> str:
        """The name of the channel that is asked, or was last."""
        return self._candidate.channel.name

    @property
    def reading(self) -> Reading:
        """See `stream.ports.Source`."""
        candidate = self._candidate
        rules = RULES[candidate.call.protocol]
        tell = partial(from_provider, provider=candidate.channel)
        if rules.protocol is self._call.protocol:
            return Native(rules, self._call, hide_usage=candidate.hide_usage, tell=tell)
        return Converting(rules, self._call, names=candidate.names, created_s=self._created_s, tell=tell)

    async def open(self, on_dispatched: Callable[[], None]) -> Answer | Unreached:
        """Send the request; the connection is the pool's."""
        call, channel, body = self._candidate.call, self._candidate.channel, self._candidate.body
        path = RULES[call.protocol].path(call, channel.models[call.model])
        request = request_to(channel, call.protocol, path, body, stream=call.stream, relayed=call.headers)
        return await self._upstream.open(request, on_dispatched=on_dispatched)

    def answered(self) -> None:
        """The channel works."""
        self._router.breakers.succeeded(self.channel, self._call.model)

    def over(self, blame: Blame) -> None:
        """Give the place back, and hold against the channel what it did."""
        if not self._running:
            return
        self._leave()
        breakers = self._router.breakers
        if blame.fault is not None:
            breakers.failed(self.channel, self._call.model, blame.fault, blame.retry_after_s)
        elif blame.complete:
            breakers.succeeded(self.channel, self._call.model, complete=True)
        else:
            breakers.unclaim(self.channel, self._call.model)

    def again(self) -> bool:
        """Another channel first, else one that was asked before; the last resort, unclaimed, if all are closed."""
        spoken = [(each.channel, each.call.protocol) for each in self._candidates.values()]
        ranked = self._router.again(spoken, self._asked, self._call.model)
        free = [channel.name for channel, _ in ranked if not self._router.load.full(channel)]
        for may_take in (self._router.breakers.claim, self._router.breakers.is_last_resort):
            name = next((each for each in free if may_take(each, self._call.model)), None)
            if name is not None:
                self._take(self._candidates[name])
                return True
        return False

    def close(self) -> None:
        """The stream is over; a place that it still has proves nothing."""
        if self._running:
            self._leave()
            self._router.breakers.unclaim(self.channel, self._call.model)

    def _take(self, candidate: Candidate) -> None:
        self._candidate = candidate
        self._dropped(candidate.dropped_tools)
        self._asked.append(candidate.channel.name)
        self._router.load.started(candidate.channel.name)
        self._running = True

    def _leave(self) -> None:
        self._running = False
        self._router.load.ended(self.channel)
