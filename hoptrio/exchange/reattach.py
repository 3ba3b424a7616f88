"""Coming back to an answer, for its owner's account: ``GET /v1/requests/{id}/events``, and OpenAI's own form,
``GET /v1/responses/{id}``, with or without ``stream=true&starting_after=N``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from hoptrio import errors
from hoptrio.exchange.face import Face
from hoptrio.exchange.queries import own_request
from hoptrio.exchange.retelling import LOST, Retelling
from hoptrio.protocols.events import Framing, Protocol
from hoptrio.protocols.numbering import Replay, by_number, by_sequence
from hoptrio.protocols.registry import RULES
from hoptrio.protocols.responses.stored import LatestResponse, broken_off
from hoptrio.spool.chunk import GOES_ON

if TYPE_CHECKING:
    from hoptrio.downstream.exchange import Exchange
    from hoptrio.exchange.gateway import Gateway
    from hoptrio.ledger.model import ApiKey, RequestRecord
    from hoptrio.spool.playback import Playback

__all__ = ["events", "response"]


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


async def response(gateway: Gateway, exchange: Exchange, face: Face, response_id: str) -> None:
    """Tell a Responses stream from a ``sequence_number`` on, or answer with the response object as it stands.

    Raises NotFound, Gone, BadRequest.
    """
    query = exchange.head.query
    key = await gateway.key_of(exchange.head)
    stream = query.get("stream", "false").lower() == "true"
    after = query.get("starting_after")
    if after is not None:
        _number(after, "starting_after")
    playback = await gateway.find_stream(key.account.id, response_id, follow=stream)
    if playback is None or playback.about.protocol != Protocol.RESPONSES:
        raise await _no_response(gateway, key, response_id)
    shown = Face(RULES[Protocol.RESPONSES], playback.about.request_id, Framing.SSE)
    shown.extra = face.extra
    if not stream:
        await _tell_object(exchange, shown, playback)
        return
    if playback.about.framing != Framing.SSE:
        raise errors.BadRequest("This response was not streamed.", param="stream")
    await Retelling(
        exchange.writer,
        shown,
        playback,
        contract=gateway.contract_of(key),
        alive=RULES[Protocol.RESPONSES].keepalive(Framing.SSE, exchange.head.header_map),
        replay=Replay(Framing.SSE, by_sequence(None if after is None else int(after))),
    ).run()


async def _no_response(gateway: Gateway, key: ApiKey, response_id: str) -> errors.HoptrioError:
    owner = (await gateway.ledger.owners_of([response_id])).get(response_id)
    if owner is None or owner[0] != key.account.id:
        return errors.NotFound(f"There is no response {response_id[:100]!r} of this account.")
    return errors.Gone(LOST)


async def _tell_object(exchange: Exchange, face: Face, playback: Playback) -> None:
    latest = LatestResponse()
    replay = Replay(Framing.SSE, latest.tell)
    try:
        while isinstance(said := await playback.read(), bytes):
            replay.feed(said)
    finally:
        with trio.CancelScope(shield=True):
            await playback.close()
    latest_body = latest.body
    if said is None or not (said.body or latest_body):
        raise errors.Gone(LOST)
    if said.body:
        await exchange.writer.respond(said.status, face.json_headers(), said.body)
        return
    body = latest_body if said == GOES_ON else broken_off(latest_body)
    await exchange.writer.respond(200, face.json_headers(), body)


def _not_there(gateway: Gateway, record: RequestRecord) -> errors.HoptrioError:
    contract = gateway.contracts.get(record.contract)
    if record.state == "refused":
        return errors.NotFound("This request was refused, so it has no events.")
    if not record.stream:
        return errors.NotFound("This request did not stream, so it has no events.")
    if contract is not None and not contract.reattach:
        return errors.NotFound(f"Streams under the contract {contract.name} are not kept.")
    return errors.Gone(LOST)


def _number(text: str, param: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 15):
        raise errors.BadRequest(f"{param} is the number of an event, counted from 1; 0 = from the first.", param=param)
    return int(text)
