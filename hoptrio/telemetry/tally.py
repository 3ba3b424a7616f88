"""Counting, as cheap as can be: plain attributes of plain objects, read by whoever tells of them (`snapshot`).

Nothing here waits, locks or allocates for an event of a stream: a gap costs one `bisect` and two additions. One thread
writes each object; a reader in another may miss the last increment, never more.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from hoptrio import limits

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "BATCH_OPERATIONS",
    "COMPLETE",
    "FIRST_EVENT_S",
    "GAP_S",
    "LEDGER_S",
    "Group",
    "Histogram",
    "Labels",
    "Meter",
    "Tally",
    "add",
]

Key = TypeVar("Key")

#: Upper bounds of buckets. A model writes an event every 10 to 70 ms, and thinks for up to minutes.
GAP_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
FIRST_EVENT_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0)
#: A commit of a batch takes 0.2 ms on a disk and 2 ms over a network; a settlement is given up after ten seconds.
LEDGER_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
BATCH_OPERATIONS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)


class Histogram:
    """Counts by bucket, the last one for what is above all bounds, and the sum of everything."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Count one."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    @property
    def count(self) -> int:
        """All that were observed."""
        return sum(self.counts)


class Labels(NamedTuple):
    """What streams are told apart by; `model` as callers name it."""

    protocol: str
    model: str
    channel: str


#: The outcome of a stream that ended with evidence.
COMPLETE = "complete"
#: For what is beyond `limits.FIGURES_GROUPS_MAX`.
OTHERS = Labels("other", "other", "other")


class Group:
    """The streams of one protocol, model and channel."""

    __slots__ = (
        "answered_released",
        "charged_nanos",
        "draining",
        "first_event",
        "flags",
        "gaps",
        "open",
        "outcomes",
        "stalls",
    )

    def __init__(self) -> None:
        #: Now; of these, those whose client has left while the provider is read on.
        self.open = 0
        self.draining = 0
        #: How streams ended: "complete", or the reason.
        self.outcomes: dict[str, int] = {}
        #: Streams that had output and were charged nothing, by reason.
        self.answered_released: dict[str, int] = {}
        #: What is to be known of their evidence (`metering.evidence.Flag`).
        self.flags: dict[str, int] = {}
        #: Attempts in which the provider made no progress for too long.
        self.stalls = 0
        self.charged_nanos = 0
        self.first_event = Histogram(FIRST_EVENT_S)
        #: Between reads that moved the model's answer.
        self.gaps = Histogram(GAP_S)


class Tally:
    """What one process has counted."""

    def __init__(self) -> None:
        self.groups: dict[Labels, Group] = {}
        #: Requests that got no stream, by protocol and the refusal's code.
        self.refusals: dict[tuple[str, str], int] = {}
        #: Events that were handed to clients, and keep-alives.
        self.events = 0
        self.keepalives = 0
        #: From the request of a hold, and of a settlement, until it was durable.
        self.holds = Histogram(LEDGER_S)
        self.settlements = Histogram(LEDGER_S)

    def group(self, labels: Labels) -> Group:
        """The group with these labels."""
        group = self.groups.get(labels)
        if group is None:
            if len(self.groups) >= limits.FIGURES_GROUPS_MAX:
                labels = OTHERS
            group = self.groups.setdefault(labels, Group())
        return group

    def refused(self, protocol: str, code: str) -> None:
        """A request got no stream."""
        add(self.refusals, (protocol, code))


class Meter:
    """What one stream counts, from its admission to its end. Whoever runs the stream is the only one to call it."""

    __slots__ = ("_first", "_group", "_labels", "_left", "_moved_at_s", "_seen", "events", "tally")

    def __init__(self, tally: Tally, protocol: str, model: str, channel: str) -> None:
        self.tally = tally
        #: Handed to the client so far, or would have been.
        self.events = 0
        self._labels = Labels(protocol, model, channel)
        self._group = tally.group(self._labels)
        self._group.open += 1
        self._left = False
        self._first = False
        self._moved_at_s: float | None = None
        self._seen = 0

    def asked(self, channel: str) -> None:
        """An attempt begins, on this channel."""
        self._moved_at_s, self._seen = None, 0
        if channel != self._labels.channel:
            self._group.open -= 1
            self._labels = self._labels._replace(channel=channel)
            self._group = self.tally.group(self._labels)
            self._group.open += 1

    def moved(self, now_s: float, events: int) -> None:
        """The model's answer moved, and so many `events` of this attempt there are now. Called for every read."""
        # Written out: two calls less are a third of what this costs an event.
        if self._moved_at_s is not None:
            gap_s, gaps = now_s - self._moved_at_s, self._group.gaps
            gaps.counts[bisect_left(GAP_S, gap_s)] += 1
            gaps.sum += gap_s
        self._moved_at_s = now_s
        new = events - self._seen
        self._seen = events
        self.events += new
        self.tally.events += new

    def relayed(self, events: int) -> None:
        """So many events of this attempt there are now."""
        new = events - self._seen
        self._seen = events
        self.events += new
        self.tally.events += new

    def first_event(self, seconds: float) -> None:
        """The first event is there, so long after the request; only the first time counts."""
        if not self._first:
            self._first = True
            self._group.first_event.observe(seconds)

    def kept_alive(self) -> None:
        """A keep-alive was written."""
        self.tally.keepalives += 1

    def stalled(self) -> None:
        """The provider made no progress for too long."""
        self._group.stalls += 1

    def left(self) -> None:
        """The client has left; the provider is read on."""
        if not self._left:
            self._left = True
            self._group.draining += 1

    def settled(self, outcome: str, charge_nanos: int | None, flags: Sequence[str], *, answered: bool) -> None:
        """How it ended, and what was charged (None: it was released); `answered`: it had output."""
        group = self._group
        add(group.outcomes, outcome)
        for flag in flags:
            add(group.flags, flag)
        if charge_nanos is not None:
            group.charged_nanos += charge_nanos
        elif answered:
            add(group.answered_released, outcome)

    def close(self) -> None:
        """It is over."""
        self._group.open -= 1
        self._group.draining -= self._left


def add(counts: dict[Key, int], key: Key) -> None:
    """Count one more."""
    counts[key] = counts.get(key, 0) + 1
