"""Tokens counted before a request is made: by the channel, where it has a call for that, else by our own tokenizer.

Nothing is held and nothing charged. A count of our own is an estimate, and both a header and the body say so.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import trio

from hoptrio import errors, limits
from hoptrio.admission.gate import known
from hoptrio.admission.routing import Want
from hoptrio.metering.prompt import prompt_tokens
from hoptrio.protocols.registry import COUNTING, RULES
from hoptrio.upstream.answer import BodyEnd, Unreached
from hoptrio.upstream.failure import from_body_end, from_provider, from_unreached
from hoptrio.upstream.provider import request_to

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hoptrio.admission.catalogue import Channel
    from hoptrio.downstream.exchange import Exchange
    from hoptrio.exchange.face import Face
    from hoptrio.exchange.gateway import Gateway
    from hoptrio.ledger.model import ApiKey
    from hoptrio.protocols.events import Call, Protocol
    from hoptrio.upstream.answer import Answer

__all__ = ["count"]

#: A provider's ways to say that it has no such call.
_ABSENT = frozenset({404, 405, 501})
ESTIMATED = (b"x-hoptrio-estimated", b"true")


class _Told(NamedTuple):
    """A provider's answer."""

    answer: Answer
    body: bytes


async def count(gateway: Gateway, exchange: Exchange, face: Face, protocol: Protocol) -> None:
    """Answer one count. Raises the refusal as a HoptrioError."""
    head = exchange.head
    key = await gateway.key_of(head)
    body = await exchange.read_body()
    call = COUNTING[protocol].parse(head.path, head.query, head.header_map, body)
    channel = await _channel(gateway, key, call)
    gateway.check_room()
    with gateway.counts.one(key, protocol):
        told = None if channel is None else await _ask(gateway, channel, call)
        if told is not None:
            headers, counted = face.body_headers(told.answer), told.body
        else:
            headers, counted = [*face.json_headers(), ESTIMATED], await _estimate(gateway, call, len(body))
    await exchange.writer.respond(200, headers, counted)


async def _channel(gateway: Gateway, key: ApiKey, call: Call) -> Channel | None:
    """The channel to ask; None where none of the caller's protocol can be asked now."""
    contract = gateway.contract_of(key)
    owners = await gateway.ledger.owners_of(call.provider_ids)
    _, pinned = known(call, key, contract, catalogue=gateway.catalogue, owners=owners)
    want = Want(
        model=call.model,
        protocol=call.protocol,
        stream=False,
        account=key.account.name,
        key_id=key.id,
        foreign_ids=bool(call.foreign_param),
        pinned=pinned,
        counts=True,
        carries=lambda _: False,
    )
    channels = gateway.router.route(gateway.catalogue, want).channels
    able = (each for each in channels if not gateway.counts.is_absent(each.name, call.model, call.protocol))
    return next(able, None)


async def _ask(gateway: Gateway, channel: Channel, call: Call) -> _Told | None:
    """What the channel counts; None if it has no such call. Raises its refusal, or its failure, as a HoptrioError."""
    counting = COUNTING[call.protocol]
    model = channel.models[call.model]
    body = counting.encode(call, model=model, drop_unknown=channel.unknown_fields == "drop")
    path = counting.path(call, model)
    request = request_to(channel, call.protocol, path, body, stream=False, relayed=call.headers)
    with _place_on(gateway, channel), trio.move_on_after(limits.COUNT_S):
        answer = await gateway.upstream.open(request)
        if isinstance(answer, Unreached):
            raise from_unreached(answer)
        return await _read(gateway, channel, call, answer)
    raise errors.UpstreamTimeout("the provider took too long")


async def _read(gateway: Gateway, channel: Channel, call: Call, answer: Answer) -> _Told | None:
    whole = False
    try:
        body = await _body(answer)
        whole = True
    finally:
        (answer.finish if whole else answer.abort)()
    # What a request refers to may be what was not found.
    if answer.status in _ABSENT and not _refers(call):
        gateway.counts.absent(channel.name, call.model, call.protocol)
        return None
    if not 200 <= answer.status < 300:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in answer.headers}
        raise from_provider(RULES[call.protocol].read_error(answer.status, headers, body), channel)
    if COUNTING[call.protocol].read(body) is None:
        raise from_body_end(BodyEnd.CLEAN)
    return _Told(answer, body)


async def _body(answer: Answer) -> bytes:
    """A count is a few bytes, and so is an error. Raises UpstreamFailed for a body that breaks off or has no end."""
    body = b""
    while not isinstance(data := await answer.receive(), BodyEnd):
        body += data
        if len(body) > limits.ERROR_BODY_BYTES_MAX:
            raise from_body_end(BodyEnd.CLEAN)
    if data not in (BodyEnd.CLEAN, BodyEnd.CLOSED):
        raise from_body_end(data)
    return body


@contextmanager
def _place_on(gateway: Gateway, channel: Channel) -> Iterator[None]:
    """A count takes one of the channel's places, and proves nothing of its health."""
    gateway.load.started(channel.name)
    try:
        yield
    finally:
        gateway.load.ended(channel.name)


async def _estimate(gateway: Gateway, call: Call, body_bytes: int) -> bytes:
    if _refers(call):
        raise errors.BadRequest(
            "The request refers to what only its provider has, and no channel of it counts tokens now.",
            param=call.foreign_param or None,
            code="unsupported_parameter",
        )
    work = partial(prompt_tokens, call.body)
    if body_bytes <= limits.MEASURE_INLINE_BYTES_MAX:
        return COUNTING[call.protocol].answer(work())
    with trio.move_on_after(limits.COUNT_S):
        tokens = await trio.to_thread.run_sync(work, limiter=gateway.counts.threads, abandon_on_cancel=True)
        return COUNTING[call.protocol].answer(tokens)
    raise errors.ServerFull("Too many requests wait to be counted.", retry_after_s=1)


def _refers(call: Call) -> bool:
    """Some of the input is only at the provider."""
    return bool(call.provider_ids or call.foreign_param)
