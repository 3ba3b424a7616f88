"""Model -> channels: who may be asked, in which order, and why the others may not. Pure but for `Load`.

Among the eligible, a higher priority comes first; among equals a smooth weighted round robin decides, so that the order
is deterministic and shares follow the weights from the first request on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hoptrio.admission.catalogue import Catalogue, Channel
    from hoptrio.ledger.model import ApiKey
    from hoptrio.protocols.events import Call

__all__ = ["Load", "Route", "route"]


class Route(NamedTuple):
    """The eligible channels in the order they are asked, and for each other channel why it is not."""

    channels: tuple[Channel, ...]
    excluded: tuple[tuple[str, str], ...]


class Load:
    """What this process knows of its channels: streams running, and the turn of the round robin."""

    def __init__(self) -> None:
        self._running: dict[str, int] = {}
        self._credit: dict[str, int] = {}

    def running(self, channel: str) -> int:
        """Streams in flight on a channel."""
        return self._running.get(channel, 0)

    def started(self, channel: str) -> None:
        """A stream went to the channel."""
        self._running[channel] = self.running(channel) + 1

    def ended(self, channel: str) -> None:
        """A stream on the channel is over."""
        self._running[channel] = self.running(channel) - 1

    def order(self, channels: Iterable[Channel]) -> tuple[Channel, ...]:
        """By priority, then by whose turn it is; the first one's turn is used up."""
        ranked = sorted(channels, key=lambda channel: -channel.priority)
        if not ranked:
            return ()
        top = [channel for channel in ranked if channel.priority == ranked[0].priority]
        for channel in top:
            self._credit[channel.name] = self._credit.get(channel.name, 0) + channel.weight
        top.sort(key=lambda channel: -self._credit[channel.name])
        self._credit[top[0].name] -= sum(channel.weight for channel in top)
        return (*top, *ranked[len(top) :])


def route(
    catalogue: Catalogue,
    load: Load,
    call: Call,
    key: ApiKey,
    *,
    pinned: str | None = None,
    certified: Callable[[str, str], bool] | None = None,
) -> Route:
    """Channels for a call of a key; `pinned`: the one channel whose ids the request refers to; `certified`: whether a
    channel (by its name) is certified for a model, None where nobody asks."""
    eligible: list[Channel] = []
    excluded: list[tuple[str, str]] = []
    for channel in catalogue.channels.values():
        why = _excluded(channel, load, call, key, pinned) or _uncertified(channel, call, certified)
        if why is None:
            eligible.append(channel)
        else:
            excluded.append((channel.name, why))
    return Route(load.order(eligible), tuple(excluded))


def _excluded(channel: Channel, load: Load, call: Call, key: ApiKey, pinned: str | None) -> str | None:
    named = key.account.name in channel.accounts or key.id in channel.keys
    restricted = bool(channel.accounts or channel.keys)
    if call.model not in channel.models:
        return "does not have the model"
    if call.protocol not in channel.base_urls:
        return f"does not speak {call.protocol}"
    if restricted and not named:
        return "is dedicated to others"
    if call.foreign_ids and not named:
        return "is not dedicated to this account, and the request names files that only such a route can know"
    if pinned is not None and channel.name != pinned:
        return "did not produce the response that the request refers to"
    if load.running(channel.name) >= channel.max_streams:
        return "is at its limit of streams"
    return None


def _uncertified(channel: Channel, call: Call, certified: Callable[[str, str], bool] | None) -> str | None:
    """Dedicated routes need no certificate (contract, "Certification")."""
    if channel.route == "dedicated" or certified is None or certified(channel.name, call.model):
        return None
    return "is not certified for the model"
