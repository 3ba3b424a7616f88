"""Prewarm: ``response.create`` with ``generate: false``, answered here.

It is judged like a turn as far as that needs neither a channel nor a transaction, gives an id to continue from, and
costs nothing: no hold, no request at a provider, no record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoptrio.admission.gate import known
from hoptrio.protocols.responses.lifecycle import prewarmed

if TYPE_CHECKING:
    from hoptrio.exchange.gateway import Gateway
    from hoptrio.exchange.websocket.turn import Turn
    from hoptrio.protocols.rules import Rules

__all__ = ["prewarm"]


async def prewarm(gateway: Gateway, turn: Turn, rules: Rules) -> None:
    """Answer `turn`. Raises the refusal as a HoptrioError."""
    head = turn.head
    key = await gateway.key_of(head)
    call = rules.parse(head.path, head.query, head.header_map, await turn.read_body())
    owners = await gateway.ledger.owners_of(call.provider_ids)
    gateway.rates.check(key, call.protocol)
    known(call, key, gateway.contract_of(key), catalogue=gateway.catalogue, owners=owners)
    response_id, events = prewarmed(
        model=call.model, created_s=gateway.ledger.now_ms() // 1000, previous_id=turn.previous_id or None
    )
    turn.keep(response_id, b"")
    for event in events:
        turn.writer.say(event)
    await turn.writer.end()
