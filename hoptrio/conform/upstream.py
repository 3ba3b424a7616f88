"""The upstream: the simulated provider, with the scripts of cases, and a note of what it sent to whom.

A run of a case is found by its tag, which stands in the prompt, since the prompt passes through any gateway. What
carries no tag (a gateway's own probes, a look at the models) gets what the simulated provider says to anybody.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import trio

from hoptrio.protocols.events import Protocol
from hoptrio.simulator.provider import SimulatedProvider
from hoptrio.simulator.steps import Send

if TYPE_CHECKING:
    from collections.abc import Callable

    from hoptrio.simulator.seen import Seen
    from hoptrio.simulator.steps import Steps

__all__ = ["TAG", "Asked", "Upstream"]

#: What every prompt holds, once.
TAG = "conform-%08x"
_ENDINGS = {
    "/chat/completions": Protocol.CHAT,
    "/responses": Protocol.RESPONSES,
    "/messages": Protocol.MESSAGES,
    ":streamGenerateContent": Protocol.GEMINI,
}
_TAG = re.compile(rb"conform-[0-9a-f]{8}")


class Asked:
    """One request of the gateway, and the body bytes that it was sent so far, a write each, with the times of them."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen
        self.sent: list[bytes] = []
        self.sent_s: list[float] = []

    @property
    def protocol(self) -> Protocol | None:
        """What the gateway spoke."""
        path = self.seen.target.partition("?")[0]
        return next((protocol for ending, protocol in _ENDINGS.items() if path.endswith(ending)), None)

    @property
    def drained(self) -> bool:
        """Whether the gateway took everything."""
        return self.seen.outcome in ("ended", "cut", "reset")

    def noting(self, steps: Steps) -> Steps:
        """The same steps; what they send is noted."""
        for step in steps:
            if isinstance(step, Send):
                self.sent.append(step.data)
                self.sent_s.append(trio.current_time())
            yield step


class _Exact:
    """A stream that is no script."""

    def __init__(self, make: Callable[[], Steps]) -> None:
        self._make = make

    def steps(self, cuts: str) -> Steps:
        return self._make()


class _Shelf:
    """Exact streams, by the tag of their run."""

    def __init__(self) -> None:
        self.streams: dict[str, _Exact] = {}

    def find(self, name: str, protocol: str) -> _Exact | None:
        return self.streams.get(name)


class Upstream(SimulatedProvider):
    """`asked`: what came with each tag, in order."""

    def __init__(self) -> None:
        self._shelf = _Shelf()
        super().__init__(recordings=self._shelf)
        self.asked: dict[str, list[Asked]] = {}

    def play(self, tag: str, make: Callable[[], Steps]) -> str:
        """Serve the steps that `make` makes to every request with `tag`; the script that asks for them."""
        self._shelf.streams[tag] = _Exact(make)
        return f"replay={tag}"

    def forget(self, tag: str) -> None:
        """The run is over."""
        self._shelf.streams.pop(tag, None)
        self.asked.pop(tag, None)

    def respond(self, seen: Seen, body: bytes) -> Steps:
        """As the simulated provider does; what it sends to a tagged request is noted."""
        steps = super().respond(seen, body)
        found = _TAG.search(body)
        if found is None or seen.method != "POST":
            return steps
        asked = Asked(seen)
        self.asked.setdefault(found[0].decode(), []).append(asked)
        return asked.noting(steps)
