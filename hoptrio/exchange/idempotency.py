"""Idempotent retry: of the requests with one ``Idempotency-Key`` of an API key one is made, the others are told it.

The claim is placed in the ledger's own transaction of the hold, so it is decided once over all processes and nodes; a
read before that lets a retry join even where a new request would be refused for its limits, or find no channel.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from hoptrio import errors, limits
from hoptrio.exchange.face import Face
from hoptrio.exchange.retelling import LOST, Retelling
from hoptrio.ledger.model import Claim

if TYPE_CHECKING:
    from hoptrio.contract import Contract
    from hoptrio.exchange.gateway import Gateway
    from hoptrio.exchange.generate import Asked
    from hoptrio.ledger.model import ApiKey, Claimed
    from hoptrio.protocols.events import Call
    from hoptrio.protocols.rules import Rules

__all__ = ["check_same", "claim_of", "join", "out_of_reach"]

_HEADER = "idempotency-key"
#: What Stripe calls it, and others after it.
_REPLAYED = (b"idempotent-replayed", b"true")


def claim_of(
    gateway: Gateway, key: ApiKey, contract: Contract, call: Call, exchange: Asked, body: bytes
) -> Claim | None:
    """The claim of a request; None if it makes none, or streams are not kept for it. Raises BadRequest."""
    idempotency_key = exchange.idempotency_key
    if idempotency_key is None or gateway.spools is None or not contract.reattach:
        return None
    if sum(name == _HEADER.encode() for name, _ in exchange.head.headers) > 1:
        raise errors.BadRequest("There is more than one Idempotency-Key.", param=_HEADER)
    if not 0 < len(idempotency_key) <= limits.IDEMPOTENCY_KEY_CHARS_MAX:
        raise errors.BadRequest(
            f"An Idempotency-Key has 1 to {limits.IDEMPOTENCY_KEY_CHARS_MAX} characters.", param=_HEADER
        )
    asked = f"{call.protocol} {call.operation} {call.framing} {call.model}\0".encode()
    return Claim(
        name=sha256(f"{key.id}\0{idempotency_key}".encode()).hexdigest(),
        digest=sha256(asked + body).hexdigest(),
        window_ms=int(gateway.spools.own.caps.kept_s * 1000),
    )


def check_same(claim: Claim, claimed: Claimed) -> None:
    """Raise Conflict if what is asked now is not what was asked then."""
    if claim.digest != claimed.digest:
        raise errors.Conflict("This Idempotency-Key was used with another request.", code="idempotency_key_in_use")


async def join(
    gateway: Gateway,
    exchange: Asked,
    face: Face,
    rules: Rules,
    call: Call,
    key: ApiKey,
    claimed: Claimed,
    *,
    yields: bool,
) -> bool:
    """Tell the answer of the request that stands for this one, from its first byte. False: it broke off or asked no
    provider, and this client was told nothing; only if this one `yields` then. Raises Conflict, Gone."""
    playback = await gateway.find_stream(key.account.id, claimed.request_id)
    if playback is None:
        raise out_of_reach(claimed)
    shown = Face(rules, claimed.request_id, call.framing)
    shown.extra = [*face.extra, _REPLAYED]
    return await Retelling(
        exchange.writer,
        shown,
        playback,
        contract=gateway.contract_of(key),
        alive=rules.keepalive(call.framing, exchange.head.header_map) if call.stream else b"",
        replay=None,
        yields=yields,
    ).run()


def out_of_reach(claimed: Claimed) -> errors.HoptrioError:
    """Why the answer of the request that stands for this one cannot be told."""
    if not claimed.running:
        return errors.Gone(LOST)
    # On another machine, or of a process that was killed and whose holds are about to be released.
    return errors.Conflict(
        f"The request {claimed.request_id} with this Idempotency-Key is not finished, and cannot be joined from here."
        " This one was not made.",
        code="idempotency_key_in_use",
        retryable=True,
        retry_after_s=limits.CLAIM_RETRY_S,
    )
