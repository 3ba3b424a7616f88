"""The streams that run in this process: counted, found by request id, and stopped at shutdown."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from hoptrio.telemetry.snapshot import LiveStream

if TYPE_CHECKING:
    from hoptrio.contract import Reason
    from hoptrio.ledger.model import RequestRecord
    from hoptrio.stream.stream import Stream
    from hoptrio.telemetry.tally import Meter

__all__ = ["Registry"]


class _Running(NamedTuple):
    """A stream, and what is known of it."""

    record: RequestRecord
    account: str
    stream: Stream
    meter: Meter

    def told(self) -> LiveStream:
        """It as it is now."""
        record, stream = self.record, self.stream
        return LiveStream(
            id=record.id,
            account=self.account,
            key=record.key_id,
            protocol=record.protocol,
            model=record.model,
            channel=stream.channel,
            contract=record.contract,
            stream=record.stream,
            created_at_ms=record.created_at_ms,
            hold_nanos=record.hold_nanos,
            events=self.meter.events,
            left=stream.client_left,
            timeline=[(int(at_s * 1000), event) for at_s, event in stream.timeline],
        )


class Registry:
    """Live streams by request id, drains included."""

    def __init__(self) -> None:
        self._streams: dict[str, _Running] = {}

    def __len__(self) -> int:
        return len(self._streams)

    def add(self, record: RequestRecord, account: str, stream: Stream, meter: Meter) -> None:
        """`stream` runs from now on; `account` is its account's name."""
        self._streams[record.id] = _Running(record, account, stream, meter)

    def remove(self, request_id: str) -> None:
        """It runs no more, and counts no more."""
        self._streams.pop(request_id).meter.close()

    def get(self, request_id: str) -> Stream | None:
        """The live stream of a request, if it runs here."""
        found = self._streams.get(request_id)
        return None if found is None else found.stream

    def newest(self, limit: int) -> list[LiveStream]:
        """The streams that run here, for operators; at most so many, the newest first."""
        return [each.told() for each in islice(reversed(self._streams.values()), limit)]

    def stop_all(self, reason: Reason) -> None:
        """End the provider's side of every stream; each is then settled and told by its contract."""
        for each in self._streams.values():
            each.stream.stop(reason)
