"""The gate: from a parsed call to one that may be held for, or the refusal that comes first.

Refusals are judged in the contract page's order: 401 key, 400 shape (both before this room), then here 404 model,
403 key may not, 400 contract, 400 of a call that conversion cannot carry to any channel there is, 503 route; 429 and
402 are decided with the hold itself, in the ledger's transaction.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from hoptrio import errors
from hoptrio.admission.body import asks_usage, body_for
from hoptrio.admission.carriage import Carriage
from hoptrio.admission.quote import dearest, quote, refuse_unpriced
from hoptrio.admission.routing import Want, Why, refusal
from hoptrio.protocols import convert
from hoptrio.protocols.convert import NEAREST
from hoptrio.protocols.events import Operation, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hoptrio.admission.catalogue import Catalogue, Channel, Model
    from hoptrio.admission.quote import Quote
    from hoptrio.admission.routing import Route, Router
    from hoptrio.contract import Contract
    from hoptrio.ledger.model import ApiKey
    from hoptrio.protocols.convert.naming import ToolName
    from hoptrio.protocols.events import Call

__all__ = ["Admitted", "Candidate", "admit", "examine", "known"]


class Candidate(NamedTuple):
    """A channel that the call may go to, and the body that will be sent there."""

    channel: Channel
    #: What the channel is told, in the protocol it is asked in: the client's call, or what it was converted to.
    call: Call
    body: bytes
    #: Chat: the client of a stream did not ask for usage, and it is withheld: some providers give it unasked.
    hide_usage: bool
    #: Converted: what the client calls each of its tools, by what the channel calls it.
    names: Mapping[str, ToolName]
    #: Hosted tools that the client asked for and this channel is not told of.
    dropped_tools: frozenset[str]


class Examined(NamedTuple):
    """A call in which nothing is wrong, wherever it may go."""

    #: With what its model's prices say of it.
    call: Call
    model: Model
    #: The channel that a provider-side id in it belongs to.
    pinned: str | None
    carriage: Carriage


class Admitted(NamedTuple):
    """A call that is worth a hold, and where it may go: first to the first of `candidates`, which is claimed for it
    (`Breakers.claim`) or the last resort, and by the contract's `attempts` to any of them. The quote covers all."""

    #: With what its model's prices say of it.
    call: Call
    model: Model
    candidates: tuple[Candidate, ...]
    quote: Quote


def examine(
    call: Call,
    key: ApiKey,
    contract: Contract,
    *,
    catalogue: Catalogue,
    owners: Mapping[str, tuple[str, str | None]],
) -> Examined:
    """Judge what depends on nothing but the call, the config and the key. Raises the first refusal that applies.

    `owners`: the account id and channel of each provider-side id in the call that the ledger knows.
    """
    model, pinned = known(call, key, contract, catalogue=catalogue, owners=owners)
    _check_contract(call, contract)
    call = replace(call, by_image=call.operation != Operation.EMBEDDINGS and model.prices.image is not None)
    return Examined(call, model, pinned, Carriage(call, model, refuse_unpriced(call, model)))


def admit(
    call: Call,
    key: ApiKey,
    contract: Contract,
    *,
    catalogue: Catalogue,
    router: Router,
    owners: Mapping[str, tuple[str, str | None]],
) -> Admitted:
    """Judge everything but limits and balance. Raises the first refusal that applies; `owners` as in `examine`."""
    call, model, pinned, carriage = examine(call, key, contract, catalogue=catalogue, owners=owners)
    want = Want(
        model=call.model,
        protocol=call.protocol,
        stream=call.stream,
        account=key.account.name,
        key_id=key.id,
        certified_only=contract.certified_only,
        foreign_ids=bool(call.foreign_param),
        pinned=pinned,
        carries=carriage.carries,
    )
    while True:
        route = router.route(catalogue, want)
        if not route.channels:
            raise _unsayable(call, route, catalogue, carriage) or refusal(route, call.model)
        chosen = route.channels if contract.attempts > 1 else route.channels[:1]
        spoken = [(channel, router.spoken(channel, want) or call.protocol) for channel in chosen]
        admitted = _priced(call, model, spoken, carriage)
        if route.last_resort or router.breakers.claim(chosen[0].name, call.model):
            return admitted
        # A stream of another process has begun to try that channel in between, so the next round leaves it out.


def known(
    call: Call,
    key: ApiKey,
    contract: Contract,
    *,
    catalogue: Catalogue,
    owners: Mapping[str, tuple[str, str | None]],
) -> tuple[Model, str | None]:
    """The model, and the one channel whose ids the call refers to. Raises the refusals that need no channel."""
    if call.protocol not in contract.protocols:
        raise errors.NotFound(f"The {call.protocol} protocol is not offered under the contract {contract.name}.")
    model = catalogue.models.get(call.model)
    if model is None:
        raise errors.ModelNotFound(f"The model {call.model!r} does not exist here.", param="model")
    _check_sold(call, model)
    pinned = _pinned(call, key, owners)
    if key.models and call.model not in key.models:
        raise errors.KeyNotAllowed(f"This key may not use the model {call.model!r}.")
    return model, pinned


def _check_sold(call: Call, model: Model) -> None:
    """What has no price is not made: tokens of an output, or images."""
    if call.operation == Operation.GENERATE and not model.generates:
        raise errors.BadRequest(f"The model {call.model!r} does not generate text.", param="model")
    unpriced = model.max_output_tokens is None and model.prices.image is None
    if call.operation == Operation.IMAGES and unpriced:
        raise errors.BadRequest(f"The model {call.model!r} does not make images.", param="model")


def _unsayable(call: Call, route: Route, catalogue: Catalogue, carriage: Carriage) -> errors.BadRequest | None:
    """What stands against every channel that could ever serve the call, if it is something that the call says: a caller
    can mend that. A channel that need only be waited for is worth a retry instead."""
    if any(each.wait_s < math.inf for each in route.excluded):
        return None
    if any(each.why is Why.FOREIGN_IDS for each in route.excluded):
        return _kept_elsewhere(call)
    deaf = [catalogue.channels[each.channel] for each in route.excluded if each.why is Why.PROTOCOL]
    found = (carriage.refusal(each) for channel in deaf for each in NEAREST if each in channel.base_urls)
    return next((refused for refused in found if refused is not None), None)


def _kept_elsewhere(call: Call) -> errors.BadRequest:
    """Whose file it is cannot be known here, so that a channel of several accounts is never asked for one."""
    return errors.BadRequest(
        f"Unsupported parameter: '{call.foreign_param}' names what is kept at a provider, which only a route dedicated"
        " to your account could know.",
        param=call.foreign_param,
        code="unsupported_parameter",
    )


def _pinned(call: Call, key: ApiKey, owners: Mapping[str, tuple[str, str | None]]) -> str | None:
    pinned: str | None = None
    for provider_id in call.provider_ids:
        owner = owners.get(provider_id)
        if owner is None or owner[0] != key.account.id or pinned not in (None, owner[1]):
            # Another account's id and one that never was look the same.
            raise errors.NotFound("A response that the request refers to was not found.", code="not_found")
        pinned = owner[1]
    return pinned


def _check_contract(call: Call, contract: Contract) -> None:
    asks = contract.usage == "required" and call.protocol is Protocol.CHAT and call.stream
    if asks and not call.usage_asked:
        raise errors.ContractRefused(
            "A streaming request must set stream_options.include_usage to true: it is not set for you here.",
            param="stream_options.include_usage",
            code="missing_required_parameter",
        )


def _priced(call: Call, model: Model, channels: Sequence[tuple[Channel, Protocol]], carriage: Carriage) -> Admitted:
    """Each channel's own body; a call that goes to any of them is held for at the dearest."""
    bodies: dict[tuple[Protocol, str, bool, bool, str], bytes] = {}
    largest: dict[Protocol, int] = {}
    candidates = []
    for channel, protocol in channels:
        said, names = carriage.prepared(protocol)
        ask_usage = asks_usage(said, channel)
        drops = channel.unknown_fields == "drop"
        told = (protocol, channel.models[call.model], ask_usage, drops, channel.max_tokens_field)
        if told not in bodies:
            bodies[told] = _encoded(call, said, model, channel, carriage)
        body = bodies[told]
        largest[protocol] = max(len(body), largest.get(protocol, 0))
        hide_usage = said.protocol is Protocol.CHAT and said.stream and not said.usage_asked
        candidates.append(Candidate(channel, said, body, hide_usage, names, carriage.dropped(protocol)))
    quotes = [
        quote(carriage.prepared(protocol).call, size, model, carriage.dropped(protocol))
        for protocol, size in largest.items()
    ]
    return Admitted(call=call, model=model, candidates=tuple(candidates), quote=dearest(quotes))


def _encoded(call: Call, said: Call, model: Model, channel: Channel, carriage: Carriage) -> bytes:
    name, dropped = channel.models[call.model], carriage.dropped(said.protocol)
    encode = partial(body_for, model=model, channel=channel, name=name, drop_tools=dropped, converted=said is not call)
    body = encode(said)
    # What a converted answer gave the client is nothing that this provider knows.
    return encode(convert.unboxed(said)) if said is call and convert.boxed(body) else body
