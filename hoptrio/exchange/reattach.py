"""Coming back to a stream: ``GET /v1/requests/{id}/events``, its owner's account only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoptrio import errors
from hoptrio.exchange.face import Face
from hoptrio.exchange.queries import own_request
from hoptrio.exchange.retelling import LOST, Retelling
from hoptrio.protocols.events import Framing, Protocol
from hoptrio.protocols.numbering import Replay, by_number
from hoptrio.protocols.registry import RULES

if TYPE_CHECKING:
    from hoptrio.downstream.exchange import Exchange
    from hoptrio.downstream.head import Head
    from hoptrio.exchange.gateway import Gateway
    from hoptrio.ledger.model import RequestRecord

__all__ = ["events"]


async def events(gateway: Gateway, exchange: Exchange, face: Face, request_id: str) -> None:
    """Tell the events of a request above ``after``, or ``Last-Event-ID`` where that is given, and go on live.

    Raises NotFound, Gone, BadRequest.
    """
    head = exchange.head
    key = await gateway.key_of(head)
    record = await own_request(gateway, key, request_id)
    resumed = head.header("last-event-id")
    after = _number(head.query.get("after", "0") if resumed is None else resumed, "after")
    protocol = Protocol(record.protocol)
    seen = Face(RULES[protocol], record.id, Framing.SSE)
    seen.extra = face.extra
    playback = await gateway.find_stream(key.account.id, record.id)
    if playback is None or not record.stream:
        await exchange.writer.respond(*seen.refusal(_not_there(gateway, record)))
        return
    await Retelling(
        exchange.writer,
        seen,
        playback,
        contract=gateway.contract_of(key),
        alive=RULES[protocol].keepalive(Framing.SSE, head.header_map),
        replay=Replay(Framing(playback.about.framing), by_number(after)),
        resumes=resumed is not None,
    ).run()


def _not_there(gateway: Gateway, record: RequestRecord) -> errors.HoptrioError:
    contract = gateway.contracts.get(record.contract)
    if not record.stream:
        return errors.NotFound("This request did not stream, so it has no events.")
    if record.state == "refused":
        return errors.NotFound("This request was refused, so it has no events.")
    if contract is not None and not contract.reattach:
        return errors.NotFound(f"Streams under the contract {contract.name} are not kept.")
    return errors.Gone(LOST)


def _number(text: str, param: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 15):
        raise errors.BadRequest(f"{param} is the number of an event, counted from 1; 0 = from the first.", param=param)
    return int(text)
