"""One model call, from its head to its end: key, shape, gate, then the stream, which holds, relays and settles."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING
from typing import Protocol as Interface

import msgspec
import structlog

from hoptrio import errors
from hoptrio.admission.gate import Admitted, admit
from hoptrio.exchange.desk import Desk
from hoptrio.exchange.ended import StreamEnd
from hoptrio.exchange.source import ChannelSource
from hoptrio.ledger.model import ApiKey, RequestRecord
from hoptrio.stream.stream import Stream
from hoptrio.telemetry.tally import Meter

if TYPE_CHECKING:
    from hoptrio.contract import Contract
    from hoptrio.downstream.head import Head
    from hoptrio.exchange.face import Face
    from hoptrio.exchange.gateway import Gateway
    from hoptrio.protocols.events import Call, Protocol
    from hoptrio.protocols.rules import Rules
    from hoptrio.stream.ports import Writer

__all__ = ["Asked", "generate"]

log = structlog.get_logger("hoptrio.exchange")

#: A caller's own id is kept this far; longer ones are cut.
CLIENT_REQUEST_ID_MAX = 128


class Asked(Interface):
    """One model call and the way back to its client: a request of HTTP, or a turn on a WebSocket."""

    @property
    def head(self) -> Head:
        """Who asks, and how."""

    @property
    def writer(self) -> Writer:
        """Whither the answer goes."""

    async def read_body(self) -> bytes:
        """The body, whole. Raises a HoptrioError where there is none to be had."""


async def generate(gateway: Gateway, exchange: Asked, face: Face, rules: Rules) -> None:
    """Refuse the call, or carry its stream through. Raises the refusal as a HoptrioError."""
    try:
        await _admit(gateway, exchange, face, rules)
    except errors.HoptrioError as refusal:
        gateway.tally.refused(rules.protocol, refusal.code)
        raise


async def _admit(gateway: Gateway, exchange: Asked, face: Face, rules: Rules) -> None:
    head = exchange.head
    key = await gateway.key_of(head)
    contract = gateway.contract_of(key)
    record = _record(gateway, exchange, face.request_id, key, rules.protocol, contract)
    source: ChannelSource | None = None
    try:
        try:
            call = rules.parse(head.path, head.query, head.header_map, await exchange.read_body())
            record = msgspec.structs.replace(record, model=call.model, stream=call.stream)
            if gateway.pauses.stale:
                with suppress(errors.LedgerUnavailable):
                    await gateway.pauses.refresh()
            admitted = admit(
                call,
                key,
                contract,
                catalogue=gateway.catalogue,
                router=gateway.router,
                owners=await gateway.ledger.owners_of(call.provider_ids),
            )
            call = admitted.call
            source = ChannelSource(
                gateway.upstream,
                gateway.router,
                call,
                admitted,
                created_s=record.created_at_ms // 1000,
                dropped=face.tools_dropped,
            )
            gateway.check_room()
            gateway.released.check(key.id, call.model)
        except errors.HoptrioError as refusal:
            gateway.refusals.keep(record, refusal)
            raise
        gateway.rates.check(key, call.protocol)
        await _run(gateway, exchange, face, rules, call, key, contract, admitted, source, record)
    finally:
        if source is not None:
            source.close()


async def _run(
    gateway: Gateway,
    exchange: Asked,
    face: Face,
    rules: Rules,
    call: Call,
    key: ApiKey,
    contract: Contract,
    admitted: Admitted,
    source: ChannelSource,
    record: RequestRecord,
) -> None:
    face.framing = call.framing
    meter = Meter(gateway.tally, call.protocol, call.model, source.channel)
    desk = Desk(gateway, key, record, call, contract, admitted, meter, show=face.extra.extend)
    stream = Stream(
        call=call,
        rules=rules,
        contract=contract,
        stall_s=admitted.model.stall_s if contract.stall else None,
        client_headers=exchange.head.header_map,
        writer=exchange.writer,
        source=source,
        desk=desk,
        face=face,
        meter=meter,
    )
    record = msgspec.structs.replace(record, hold_nanos=admitted.quote.hold_nanos)
    with gateway.registry.running(record, key.account.name, stream, meter):
        try:
            await stream.run()
        finally:
            if desk.settlement is not None:
                settled, durable = desk.settlement
                gateway.ended(
                    StreamEnd(
                        record=settled,
                        account=key.account.name,
                        spoken=desk.spoken,
                        events=meter.events,
                        settled=durable,
                        ended_at_ms=gateway.ledger.now_ms(),
                        traceparent=exchange.head.header_map.get("traceparent", ""),
                    )
                )


def _record(
    gateway: Gateway, exchange: Asked, request_id: str, key: ApiKey, protocol: Protocol, contract: Contract
) -> RequestRecord:
    """What is known before the body is read: a request that is refused for its shape is kept, too."""
    client_request_id = exchange.head.header_map.get("x-client-request-id")
    return RequestRecord(
        id=request_id,
        account_id=key.account.id,
        key_id=key.id,
        created_at_ms=gateway.ledger.now_ms(),
        protocol=protocol,
        model="",
        contract=contract.name,
        stream=False,
        client_request_id=None if client_request_id is None else client_request_id[:CLIENT_REQUEST_ID_MAX],
        state="running",
    )
