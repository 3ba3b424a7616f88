"""What is told of each stream when it is over: one structured line in the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import structlog

from hoptrio.money import format_nanos
from hoptrio.telemetry.tally import COMPLETE

if TYPE_CHECKING:
    from hoptrio.exchange.ended import StreamEnd

__all__ = ["log_stream"]

log = structlog.get_logger("hoptrio.stream")


def log_stream(end: StreamEnd) -> None:
    """Write the line. Amounts are decimal strings; what is unknown is null."""
    record = end.record
    usage = msgspec.json.decode(record.usage) if record.usage else {}
    log.info(
        "stream",
        request=record.id,
        account=end.account,
        key=record.key_id,
        protocol=record.protocol,
        model=record.model,
        channel=record.channel,
        spoken=end.spoken,
        contract=record.contract,
        streamed=record.stream,
        outcome=record.reason or COMPLETE,
        evidence=record.evidence,
        charge=None if record.charge_nanos is None else format_nanos(record.charge_nanos),
        settled=end.settled,
        flags=list(record.flags),
        input_tokens=usage.get("input_tokens"),
        output_tokens=usage.get("output_tokens"),
        events=end.events,
        attempts=record.attempts,
        first_event_ms=end.first_event_ms,
        duration_ms=end.ended_at_ms - record.created_at_ms,
        client_left=any(event.startswith("client_gone") for _, event in record.timeline),
    )
