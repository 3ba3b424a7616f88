"""One model call, from its head to its end: key, shape, gate, then the stream, which holds, relays and settles."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import structlog

from hoptrio import errors
from hoptrio.admission.gate import Admitted, admit, examine
from hoptrio.exchange.desk import Desk
from hoptrio.exchange.idempotency import check_same, claim_of, join
from hoptrio.exchange.source import ChannelSource
from hoptrio.ledger.model import ApiKey, Claim, Claimed, RequestRecord
from hoptrio.spool.chunk import About
from hoptrio.stream.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hoptrio.contract import Contract
    from hoptrio.downstream.exchange import Exchange
    from hoptrio.exchange.face import Face
    from hoptrio.exchange.gateway import Gateway
    from hoptrio.protocols.events import Call, Protocol
    from hoptrio.protocols.rules import Rules
    from hoptrio.spool.transcript import Transcript

__all__ = ["generate"]

log = structlog.get_logger("hoptrio.exchange")

#: A caller's own id is kept this far; longer ones are cut.
CLIENT_REQUEST_ID_MAX = 128


class _Asked(NamedTuple):
    """A call as it was read, and whether another request stands for it."""

    call: Call
    owners: Mapping[str, tuple[str, str | None]]
    claim: Claim | None
    claimed: Claimed | None


async def generate(gateway: Gateway, exchange: Exchange, face: Face, rules: Rules) -> None:
    """Refuse the call, or carry its stream through. Raises the refusal as a HoptrioError."""
    key = await gateway.key_of(exchange.head)
    contract = gateway.contract_of(key)
    record = _record(gateway, exchange, face.request_id, key, rules.protocol, contract)
    with ExitStack() as stack:
        try:
            asked = await _ask(gateway, exchange, rules, key, contract)
            call = asked.call
            record = msgspec.structs.replace(record, model=call.model, stream=call.stream)
            admitted = source = None
            if asked.claim is not None and asked.claimed is not None:
                examine(call, key, contract, catalogue=gateway.catalogue, owners=asked.owners)
                check_same(asked.claim, asked.claimed)
            else:
                admitted = _admit(gateway, asked, key, contract)
                call = admitted.call
                source = ChannelSource(
                    gateway.upstream,
                    gateway.router,
                    call,
                    admitted,
                    created_s=record.created_at_ms // 1000,
                    dropped=face.tools_dropped,
                )
                stack.callback(source.close)
                gateway.check_room()
                gateway.released.check(key.id, call.model)
        except errors.HoptrioError as refusal:
            gateway.refusals.keep(record, refusal)
            raise
        claimed = asked.claimed
        if admitted is not None and source is not None:
            gateway.rates.check(key, call.protocol)
            claimed = await _run(gateway, exchange, face, rules, asked, key, contract, admitted, source, record)
    if claimed is not None:
        await join(gateway, exchange, face, rules, call, key, claimed)


async def _ask(gateway: Gateway, exchange: Exchange, rules: Rules, key: ApiKey, contract: Contract) -> _Asked:
    head = exchange.head
    body = await exchange.read_body()
    call = rules.parse(head.path, head.query, head.header_map, body)
    claim = claim_of(gateway, key, contract, call, head.header_map.get("idempotency-key"), body)
    claimed = None if claim is None else await gateway.ledger.claimed(claim)
    return _Asked(call, await gateway.ledger.owners_of(call.provider_ids), claim, claimed)


def _admit(gateway: Gateway, asked: _Asked, key: ApiKey, contract: Contract) -> Admitted:
    return admit(asked.call, key, contract, catalogue=gateway.catalogue, router=gateway.router, owners=asked.owners)


async def _run(
    gateway: Gateway,
    exchange: Exchange,
    face: Face,
    rules: Rules,
    asked: _Asked,
    key: ApiKey,
    contract: Contract,
    admitted: Admitted,
    source: ChannelSource,
    record: RequestRecord,
) -> Claimed | None:
    """The request that stands for this one, if another was a moment earlier: then nothing has happened here."""
    call = admitted.call
    face.framing = call.framing
    desk = Desk(gateway, key, record, call, contract, admitted, show=face.extra.extend, claim=asked.claim)
    with _kept(gateway, rules, call, contract, record) as transcript:
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
            record=transcript,
        )
        with gateway.registry.running(record.id, stream):
            await stream.run()
    if desk.claimed is not None and asked.claim is not None:
        check_same(asked.claim, desk.claimed)
    return desk.claimed


@contextmanager
def _kept(
    gateway: Gateway, rules: Rules, call: Call, contract: Contract, record: RequestRecord
) -> Iterator[Transcript | None]:
    """A transcript for the stream that runs in the block, if its contract has any. One without an end is dropped."""
    spools = gateway.spools
    if spools is None or not contract.reattach:
        yield None
        return
    about = About(
        request_id=record.id,
        account_id=record.account_id,
        protocol=call.protocol,
        framing=call.framing,
        contract=contract.name,
        created_at_ms=record.created_at_ms,
    )
    transcript = spools.own.open(about, rules.stored_name)
    try:
        yield transcript
    finally:
        if not transcript.over:
            spools.own.drop(transcript)


def _record(
    gateway: Gateway, exchange: Exchange, request_id: str, key: ApiKey, protocol: Protocol, contract: Contract
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
