"""One model call, from its head to its end: key, shape, gate, then the stream, which holds, relays and settles."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING
from typing import Protocol as Interface

import msgspec
import structlog

from hoptrio import errors, limits
from hoptrio.admission.gate import Admitted, admit, examine
from hoptrio.exchange.desk import Desk
from hoptrio.exchange.ended import StreamEnd
from hoptrio.exchange.idempotency import check_same, claim_of, join, out_of_reach
from hoptrio.exchange.source import ChannelSource
from hoptrio.ledger.model import RequestRecord
from hoptrio.spool.chunk import About
from hoptrio.stream.stream import Stream
from hoptrio.telemetry.tally import Meter

if TYPE_CHECKING:
    from hoptrio.contract import Contract
    from hoptrio.downstream.head import Head
    from hoptrio.exchange.face import Face
    from hoptrio.exchange.gateway import Gateway
    from hoptrio.ledger.model import ApiKey, Claim, Claimed
    from hoptrio.protocols.events import Call, Protocol
    from hoptrio.protocols.rules import Rules
    from hoptrio.spool.transcript import Transcript
    from hoptrio.stream.ports import Writer

__all__ = ["Asked", "generate"]

log = structlog.get_logger("hoptrio.exchange")


class Asked(Interface):
    """One model call and the way back to its client: a request of HTTP, or a turn on a WebSocket."""

    @property
    def head(self) -> Head:
        """Who asks, and how."""

    @property
    def writer(self) -> Writer:
        """Whither the answer goes."""

    @property
    def idempotency_key(self) -> str | None:
        """Requests with the same one are one; None = there is none."""

    async def read_body(self) -> bytes:
        """The body, whole. Raises a HoptrioError where there is none to be had."""


class _Call:
    """A call as it was read. What the gate makes of it takes the place of the first reading, so that of a silent stream
    nothing is kept but what it needs."""

    __slots__ = ("call", "claim", "contract", "key", "record")

    def __init__(self, call: Call, claim: Claim | None, key: ApiKey, contract: Contract, record: RequestRecord) -> None:
        self.call = call
        self.claim = claim
        self.key = key
        self.contract = contract
        self.record = record


async def generate(gateway: Gateway, exchange: Asked, face: Face, rules: Rules) -> None:
    """Refuse the call, carry its stream through, or join the request that stands for it; one that comes to nothing
    before it asked a provider stands for none. Raises the refusal as a HoptrioError."""
    try:
        asked = await _read(gateway, exchange, face, rules)
        claimed = await _make(gateway, exchange, face, rules, asked)
        rounds = limits.CLAIM_ROUNDS_MAX
        while claimed is not None:
            rounds -= 1
            if await join(gateway, exchange, face, rules, asked.call, asked.key, claimed, yields=rounds > 0):
                return
            before, claimed = claimed, await _make(gateway, exchange, face, rules, asked)
            if claimed is not None and claimed.request_id == before.request_id:
                raise out_of_reach(claimed)
    except errors.HoptrioError as refusal:
        gateway.tally.refused(rules.protocol, refusal.code)
        raise


async def _read(gateway: Gateway, exchange: Asked, face: Face, rules: Rules) -> _Call:
    head = exchange.head
    key = await gateway.key_of(head)
    contract = gateway.contract_of(key)
    record = _record(gateway, exchange, face.request_id, key, rules.protocol, contract)
    try:
        body = await exchange.read_body()
        call = rules.parse(head.path, head.query, head.header_map, body)
        record = msgspec.structs.replace(record, model=call.model, stream=call.stream)
        claim = claim_of(gateway, key, contract, call, exchange, body)
    except errors.HoptrioError as refusal:
        gateway.refusals.keep(record, refusal)
        raise
    return _Call(call, claim, key, contract, record)


async def _make(gateway: Gateway, exchange: Asked, face: Face, rules: Rules, asked: _Call) -> Claimed | None:
    """The request that stands for this one, if there is one: then nothing has happened here."""
    key, contract, claim = asked.key, asked.contract, asked.claim
    source: ChannelSource | None = None
    try:
        try:
            claimed = None if claim is None else await gateway.ledger.claimed(claim)
            owners = await gateway.ledger.owners_of(asked.call.provider_ids)
            if claim is not None and claimed is not None:
                examine(asked.call, key, contract, catalogue=gateway.catalogue, owners=owners)
                check_same(claim, claimed)
                return claimed
            if gateway.pauses.stale:
                with suppress(errors.LedgerUnavailable):
                    await gateway.pauses.refresh()
            admitted = admit(
                asked.call, key, contract, catalogue=gateway.catalogue, router=gateway.router, owners=owners
            )
            asked.call = admitted.call
            source = ChannelSource(
                gateway.upstream,
                gateway.router,
                admitted.call,
                admitted,
                created_s=asked.record.created_at_ms // 1000,
                dropped=face.tools_dropped,
            )
            gateway.check_room()
            gateway.released.check(key.id, admitted.call.model)
        except errors.HoptrioError as refusal:
            gateway.refusals.keep(asked.record, refusal)
            raise
        gateway.rates.check(key, admitted.call.protocol)
        return await _run(gateway, exchange, face, rules, claim, key, contract, admitted, source, asked.record)
    finally:
        if source is not None:
            source.close()


async def _run(
    gateway: Gateway,
    exchange: Asked,
    face: Face,
    rules: Rules,
    claim: Claim | None,
    key: ApiKey,
    contract: Contract,
    admitted: Admitted,
    source: ChannelSource,
    record: RequestRecord,
) -> Claimed | None:
    """The request that stands for this one, if another was a moment earlier: then nothing has happened here."""
    call = admitted.call
    face.framing = call.framing
    meter = Meter(gateway.tally, call.protocol, call.model, source.channel)
    desk = Desk(gateway, key, record, call, contract, admitted, meter, show=face.extra.extend, claim=claim)
    transcript = _transcript(gateway, rules, call, contract, record)
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
        record=transcript,
    )
    record = msgspec.structs.replace(record, hold_nanos=admitted.quote.hold_nanos)
    gateway.registry.add(record, key.account.name, stream, meter)
    try:
        await stream.run()
    finally:
        gateway.registry.remove(record.id)
        if transcript is not None:
            transcript.close()
        _tell_observers(gateway, exchange, key, desk, meter)
    if desk.claimed is not None and claim is not None:
        check_same(claim, desk.claimed)
    return desk.claimed


def _tell_observers(gateway: Gateway, exchange: Asked, key: ApiKey, desk: Desk, meter: Meter) -> None:
    if desk.settlement is None:
        return
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


def _transcript(
    gateway: Gateway, rules: Rules, call: Call, contract: Contract, record: RequestRecord
) -> Transcript | None:
    """Where what the client is told is kept, if its contract has that; to be closed."""
    if gateway.spools is None or not contract.reattach:
        return None
    about = About(
        request_id=record.id,
        account_id=record.account_id,
        protocol=call.protocol,
        framing=call.framing,
        contract=contract.name,
        created_at_ms=record.created_at_ms,
    )
    return gateway.spools.own.open(about, rules.stored_name)


def _record(
    gateway: Gateway, exchange: Asked, request_id: str, key: ApiKey, protocol: Protocol, contract: Contract
) -> RequestRecord:
    """What is known before the body is read: a request that is refused for its shape is kept, too."""
    return RequestRecord(
        id=request_id,
        account_id=key.account.id,
        key_id=key.id,
        created_at_ms=gateway.ledger.now_ms(),
        protocol=protocol,
        model="",
        contract=contract.name,
        stream=False,
        client_request_id=_client_request_id(exchange.head.header_map.get("x-client-request-id")),
        state="running",
    )


def _client_request_id(value: str | None) -> str | None:
    """A head is read as Latin-1, and what people search for later is what they typed: UTF-8, almost always."""
    if value is None:
        return None
    with suppress(UnicodeDecodeError):
        value = value.encode("latin-1").decode()
    return value[: limits.CLIENT_REQUEST_ID_CHARS_MAX]
