"""Model -> channels: who may be asked, in which order, and why the others may not. Decides; sends nothing.

Among the eligible, those that are not doubted come first (`health`), then a higher priority, then those that speak the
client's protocol before those that its request is converted for; among equals a smooth weighted round robin decides, so
that the order is deterministic and shares follow the weights from the first request on. If nobody is left, those that
are closed are asked all the same, unless their providers said how long to wait. Every other channel has a reason in
words, for operators (`hoptrio route`); what a caller may know is `refusal`.
"""

from __future__ import annotations

import math
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from hoptrio.admission.health import FAULTS, Standing
from hoptrio.errors import ModelUnavailable
from hoptrio.limits import RETRY_AFTER_MAX_S, ROUND_RETRY_S
from hoptrio.protocols import convert
from hoptrio.protocols.convert import NEAREST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hoptrio.admission.breaker import Breakers, Condition
    from hoptrio.admission.catalogue import Catalogue, Channel
    from hoptrio.protocols.events import Protocol

__all__ = ["Excluded", "Load", "Route", "Router", "Want", "Why", "refusal"]


class Want(NamedTuple):
    """What a request asks of a channel."""

    model: str
    protocol: Protocol
    stream: bool
    #: Who asks: account name and key id; "" = somebody for whom nothing is dedicated.
    account: str = ""
    key_id: str = ""
    #: The contract's `certified_only`.
    certified_only: bool = False
    #: It names files or other ids that the gateway cannot know.
    foreign_ids: bool = False
    #: The one channel whose ids it refers to.
    pinned: str | None = None
    #: A count of tokens and no generation: it shifts nobody's share.
    counts: bool = False
    #: Can a channel of another protocol be told all of it? None = nothing is known of it but its protocol.
    carries: Callable[[Protocol], bool] | None = None


class Why(Enum):
    """Why a channel is not asked; in this order, the first that applies."""

    MODEL = "does not have the model"
    DEDICATED = "is dedicated to others"
    PROTOCOL = "does not speak the protocol, and the request cannot be converted for it"
    FOREIGN_IDS = "is not dedicated to this account, and the request names files that only such a route can know"
    PINNED = "did not produce the response that the request refers to"
    PAUSED = "is paused by an operator"
    PROBED = "is not certified for the model yet: the first round of probes goes on"
    UNCERTIFIED = "is not certified for the model"
    COOLING = "is cooling down"
    TRIED = "is being tried by one stream after a cool-down"
    BUSY = "is at its limit of streams"


class Excluded(NamedTuple):
    """A channel that is not asked; `words` say all to an operator."""

    channel: str
    why: Why
    words: str
    #: Until it may be asked; infinite if waiting does not mend it.
    wait_s: float


class Route(NamedTuple):
    """The eligible channels in the order they are asked, and the others."""

    channels: tuple[Channel, ...]
    excluded: tuple[Excluded, ...]
    #: The channels are closed ones, for want of others: they are asked without a claim.
    last_resort: bool = False


class Load:
    """What this process knows of its channels: attempts in flight, and the turn of the round robin."""

    def __init__(self) -> None:
        self._running: dict[str, int] = {}
        self._credit: dict[str, int] = {}

    def running(self, channel: str) -> int:
        """Attempts in flight on a channel."""
        return self._running.get(channel, 0)

    def full(self, channel: Channel) -> bool:
        """It carries as many as it may."""
        return self.running(channel.name) >= channel.max_streams

    def started(self, channel: str) -> None:
        """An attempt went to the channel."""
        self._running[channel] = self.running(channel) + 1

    def ended(self, channel: str) -> None:
        """An attempt on the channel is over."""
        self._running[channel] = self.running(channel) - 1

    def by_turn(self, equals: Iterable[Channel]) -> list[Channel]:
        """Channels of one rank by whose turn it is."""
        return sorted(equals, key=lambda channel: -self._credit.get(channel.name, 0) - channel.weight)

    def took_turn(self, equals: Sequence[Channel]) -> None:
        """The first of these was given its turn."""
        for channel in equals:
            self._credit[channel.name] = self._credit.get(channel.name, 0) + channel.weight
        self._credit[equals[0].name] -= sum(channel.weight for channel in equals)


class Router:
    """Finds channels, with what a process knows of them.

    `certified`: a probe has proven that the channel may stream the model in the protocol on a shared route; `paused`:
    an operator has taken it out of service; `probing`: what is not certified may be in a moment.
    """

    def __init__(
        self,
        load: Load,
        breakers: Breakers,
        certified: Callable[[Channel, str, Protocol], bool],
        paused: Callable[[str], bool],
        probing: Callable[[], bool] = lambda: False,
    ) -> None:
        self.load = load
        self.breakers = breakers
        self.certified = certified
        self.paused = paused
        self.probing = probing

    def route(self, catalogue: Catalogue, want: Want) -> Route:
        """Channels for a request. The first one's turn is used up, unless only a count is wanted."""
        eligible: list[tuple[bool, Channel]] = []
        excluded: list[Excluded] = []
        for channel in catalogue.channels.values():
            found = self._exclude(channel, want)
            if found is not None:
                excluded.append(found)
                continue
            doubted = self.breakers.condition(channel.name, want.model).standing is Standing.DOUBTED
            eligible.append((doubted, channel))
        if not eligible and (left := self._last_resort(catalogue, want, excluded)):
            names = {channel.name for channel in left}
            others = tuple(each for each in excluded if each.channel not in names)
            ordered = self._order([(False, channel) for channel in left], want)
            return Route(ordered, others, last_resort=True)
        return Route(self._order(eligible, want), tuple(excluded))

    def spoken(self, channel: Channel, want: Want) -> Protocol | None:
        """The protocol in which a channel is asked: the client's own, else the nearest that can be asked for all that
        the request says; one that is certified before one that need not be. None = there is none."""
        ways = _ways(channel, want)
        proven = next((each for each in ways if self._proven(channel, want.model, each)), None)
        must = want.certified_only and want.stream
        return proven if must or proven is not None else next(iter(ways), None)

    def again(
        self, candidates: Iterable[tuple[Channel, Protocol]], asked: Iterable[str], model: str
    ) -> list[tuple[Channel, Protocol]]:
        """The same channels, in the order of their route and with the protocol each is asked in, for a further attempt:
        those not `asked` yet first, of these the surest.

        It may be the last attempt, so what is certified goes before what is not, whatever their priorities.
        """
        before = set(asked)
        open_ = [each for each in candidates if not self.paused(each[0].name)]

        def rank(candidate: tuple[Channel, Protocol]) -> tuple[bool, bool, bool, int]:
            channel, protocol = candidate
            doubted = self.breakers.condition(channel.name, model).standing is not Standing.GOOD
            return channel.name in before, doubted, not self._proven(channel, model, protocol), -channel.priority

        return sorted(open_, key=rank)

    def _order(self, eligible: list[tuple[bool, Channel]], want: Want) -> tuple[Channel, ...]:
        """By rank, and within one by whose turn it is."""
        ranks: dict[tuple[bool, int, bool], list[Channel]] = {}
        for doubted, channel in eligible:
            rank = doubted, -channel.priority, want.protocol not in channel.base_urls
            ranks.setdefault(rank, []).append(channel)
        ordered = [self.load.by_turn(ranks[rank]) for rank in sorted(ranks)]
        if ordered and not want.counts:
            self.load.took_turn(ordered[0])
        return tuple(channel for equals in ordered for channel in equals)

    def _last_resort(self, catalogue: Catalogue, want: Want, excluded: Iterable[Excluded]) -> list[Channel]:
        """The channels that nothing but their health speaks against."""
        closed = [catalogue.channels[each.channel] for each in excluded if each.why in (Why.COOLING, Why.TRIED)]
        free = [channel for channel in closed if not self.load.full(channel)]
        return [each for each in free if self.breakers.is_last_resort(each.name, want.model)]

    def _exclude(self, channel: Channel, want: Want) -> Excluded | None:
        why = _unfit(channel, want)
        if why is None and self.paused(channel.name):
            return Excluded(channel.name, Why.PAUSED, Why.PAUSED.value, RETRY_AFTER_MAX_S)
        if why is None and self.spoken(channel, want) is None:
            if self.probing():
                return Excluded(channel.name, Why.PROBED, Why.PROBED.value, ROUND_RETRY_S)
            why = Why.UNCERTIFIED
        if why is not None:
            return Excluded(channel.name, why, why.value, math.inf)
        condition = self.breakers.condition(channel.name, want.model)
        if not condition.askable:
            return _ailing(channel.name, condition)
        if self.load.full(channel):
            words = f"{Why.BUSY.value} ({channel.max_streams})"
            return Excluded(channel.name, Why.BUSY, words, 1.0)
        return None

    def _proven(self, channel: Channel, model: str, protocol: Protocol) -> bool:
        """A dedicated route needs no certificate."""
        return channel.route == "dedicated" or self.certified(channel, model, protocol)


def _unfit(channel: Channel, want: Want) -> Why | None:
    """What no waiting mends."""
    named = want.account in channel.accounts or want.key_id in channel.keys
    restricted = bool(channel.accounts or channel.keys)
    if want.model not in channel.models:
        return Why.MODEL
    if restricted and not named:
        return Why.DEDICATED
    if not _ways(channel, want):
        return Why.PROTOCOL
    if want.foreign_ids and not named:
        return Why.FOREIGN_IDS
    if want.pinned is not None and channel.name != want.pinned:
        return Why.PINNED
    return None


def _ways(channel: Channel, want: Want) -> list[Protocol]:
    """In which protocols the channel can be asked. One that speaks the client's is asked in no other."""
    if want.protocol in channel.base_urls:
        return [want.protocol]
    return [each for each in NEAREST if each in channel.base_urls and _carries(want, each)]


def _carries(want: Want, protocol: Protocol) -> bool:
    if want.carries is None:
        return convert.possible(want.protocol, protocol, stream=want.stream)
    return want.carries(protocol)


def _ailing(channel: str, condition: Condition) -> Excluded:
    why = Why.COOLING if condition.standing is Standing.COOLING else Why.TRIED
    reason = "" if condition.fault is None else f": it {FAULTS[condition.fault].words}"
    wait_s = condition.told_s or (condition.wait_s if why is Why.COOLING else 1.0)
    return Excluded(channel, why, f"{why.value}, {math.ceil(condition.wait_s)} s to go{reason}", wait_s)


#: What a caller may know, the most hopeful first. No channel is named.
_TOLD = (
    (Why.BUSY, "All channels of the model {model!r} are busy."),
    (Why.TRIED, "The channels of the model {model!r} are cooling down after failures."),
    (Why.COOLING, "The channels of the model {model!r} are cooling down after failures."),
    (Why.PAUSED, "The channels of the model {model!r} are out of service for a while."),
    (Why.PROBED, "The channels of the model {model!r} are not certified yet."),
    (Why.UNCERTIFIED, "No certified channel offers the model {model!r}."),
)


def refusal(route: Route, model: str) -> ModelUnavailable:
    """The 503 for a route without channels. A retry is asked for where one within a minute may find a channel."""
    wait_s = min((each.wait_s for each in route.excluded), default=math.inf)
    reasons = {each.why for each in route.excluded}
    told = next((words for why, words in _TOLD if why in reasons), "No channel offers the model {model!r} here.")
    if wait_s > RETRY_AFTER_MAX_S:
        return ModelUnavailable(told.format(model=model), retryable=False)
    return ModelUnavailable(told.format(model=model), retryable=True, retry_after_s=max(1, math.ceil(wait_s)))
