"""The breakers of all channels, as routing and attempts use them: the machine of `health` on a `board`, by a clock.

A channel's model stands as badly as the worse of two: its own trouble, and the whole channel's. Nothing here raises for
what the board cannot do; a change that is lost is made by the next failure.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

import structlog

from hoptrio import limits
from hoptrio.admission.board import Board
from hoptrio.admission.health import FAULTS, Event, Fault, Standing, Trouble, happened, standing

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Breakers", "Condition"]

log = structlog.get_logger("hoptrio.admission")

#: The slot of the whole channel.
_WHOLE = ""


class Condition(NamedTuple):
    """How a channel's model stands; `fault` is why (None if it is good), `wait_s` how long until that may change."""

    standing: Standing
    fault: Fault | None = None
    wait_s: float = 0.0
    #: The provider itself said to wait for so long yet; 0 = it did not say.
    told_s: float = 0.0

    @property
    def askable(self) -> bool:
        """A stream may be sent there, as a trial if it is due."""
        return self.standing not in (Standing.COOLING, Standing.TRIED)

    @property
    def last_resort(self) -> bool:
        """It is closed, and yet a stream may be sent there if nobody else can be asked."""
        return not self.askable and not self.told_s


GOOD = Condition(Standing.GOOD)


class Breakers:
    """`now` must be one clock for all who share the board: `time.monotonic` is, for the processes of a machine."""

    def __init__(self, board: Board | None = None, *, now: Callable[[], float] = time.monotonic) -> None:
        #: Shared with the other processes of the machine, if there are any.
        self.board = board or Board()
        self._now = now
        #: (channel, model) -> when its provider said no, of late.
        self._refusals: dict[tuple[str, str], deque[float]] = {}

    def condition(self, channel: str, model: str) -> Condition:
        """How it stands now."""
        if self.board.clean:
            return GOOD
        now_s = self._now()
        found = (_condition(self.board.get(channel, part), now_s) for part in (model, _WHOLE))
        return max(found, key=lambda each: (each.told_s, each.standing.value, each.wait_s))

    def is_last_resort(self, channel: str, model: str) -> bool:
        """A stream may be sent there if nobody else can be asked; not where that was tried, and refused, too often."""
        refusals = self._refusals.get((channel, model)) or deque()
        spent = len(refusals) == limits.LAST_RESORTS_MAX and self._now() - refusals[0] < limits.COOLDOWN_MIN_S
        return self.condition(channel, model).last_resort and not spent

    def claim(self, channel: str, model: str) -> bool:
        """A stream is about to be sent there. False: it must not be, or another one tries it already."""
        condition = self.condition(channel, model)
        if condition.standing is not Standing.DUE:
            return condition.askable
        with self.board.locked() as alone:
            if not alone or not self.condition(channel, model).askable:
                return False
            self._happened(channel, model, Event.TRIAL)
            self._happened(channel, _WHOLE, Event.TRIAL)
        return True

    def unclaim(self, channel: str, model: str) -> None:
        """That stream ended and proved nothing: the next one may try."""
        self._change(channel, (model, Event.RETURN), (_WHOLE, Event.RETURN))

    def succeeded(self, channel: str, model: str, *, complete: bool = False) -> None:
        """The model's answer has begun, or is `complete`."""
        event = Event.COMPLETE if complete else Event.BEGUN
        self._change(channel, (model, event), (_WHOLE, event))

    def failed(self, channel: str, model: str, fault: Fault, retry_after_s: float = 0.0) -> None:
        """It failed in a way that speaks of the channel."""
        if FAULTS[fault].closes_at == 1:
            self._refusals.setdefault((channel, model), deque(maxlen=limits.LAST_RESORTS_MAX)).append(self._now())
        whole = FAULTS[fault].whole_channel
        failed, other = (_WHOLE, model) if whole else (model, _WHOLE)
        with self.board.locked() as alone:
            if alone:
                self._happened(channel, failed, Event.FAILURE, fault, retry_after_s)
                self._happened(channel, other, Event.RETURN)

    def forget(self) -> None:
        """Nobody is in trouble any more, as after a change of the config: the operator may have mended it."""
        with self.board.locked() as alone:
            if alone:
                self.board.wipe()
        self._refusals.clear()

    def _change(self, channel: str, *events: tuple[str, Event]) -> None:
        if self.board.clean or all(self.board.get(channel, part) is None for part, _ in events):
            return
        with self.board.locked() as alone:
            for part, event in events if alone else ():
                self._happened(channel, part, event)

    def _happened(
        self, channel: str, part: str, event: Event, fault: Fault = Fault.FAILED, retry_after_s: float = 0.0
    ) -> None:
        now_s = self._now()
        before = self.board.get(channel, part)
        after = happened(before, event, now_s, fault=fault, retry_after_s=retry_after_s)
        if after == before:
            return
        self.board.put(channel, part, after, now_s)
        _tell(channel, part, before, after, now_s)


def _condition(trouble: Trouble | None, now_s: float) -> Condition:
    stands = standing(trouble, now_s)
    if trouble is None or stands is Standing.GOOD:
        return GOOD
    end_s = trouble.trial_until_s if stands is Standing.TRIED else trouble.until_s
    return Condition(stands, trouble.fault, max(0.0, end_s - now_s), max(0.0, trouble.asked_until_s - now_s))


def _tell(channel: str, model: str, before: Trouble | None, after: Trouble | None, now_s: float) -> None:
    """What an operator wants to read: a cool-down begins, or the channel is back."""
    if after is not None and after.cooldowns > (before.cooldowns if before is not None else 0):
        why = FAULTS[after.fault].words
        log.warning("channel cools down", channel=channel, model=model, why=why, for_s=round(after.until_s - now_s, 1))
    elif after is None and before is not None and before.cooldowns:
        log.info("channel is back", channel=channel, model=model)
