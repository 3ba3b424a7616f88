"""A stream that is over, as whoever watches is told of it: its log line, its trace. No prompt, output or secret."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from hoptrio.ledger.model import RequestRecord

__all__ = ["StreamEnd"]


class StreamEnd(NamedTuple):
    """`record` is the settlement's; times are the wall clock's."""

    record: RequestRecord
    account: str
    #: The protocol in which the channel was asked.
    spoken: str
    #: Handed to the client, or would have been.
    events: int
    #: The settlement is durable; else it is still being tried.
    settled: bool
    ended_at_ms: int
    #: The caller's trace (W3C Trace Context), "" if it is in none.
    traceparent: str

    @property
    def first_event_ms(self) -> int | None:
        """From the request to its first event; None if none came."""
        return next((at_ms for at_ms, event in self.record.timeline if event == "first_event"), None)
