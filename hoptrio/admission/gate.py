"""The gate: from a parsed call to one that may be held for, or the refusal that comes first.

Refusals are judged in the contract page's order: 401 key, 400 shape (both before this room), then here 404 model,
403 key may not, 400 contract, 503 route; 429 and 402 are decided with the hold itself, in the ledger's transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hoptrio import errors
from hoptrio.admission.quote import output_limit, quote, refuse_unpriced
from hoptrio.admission.routing import Want, refusal
from hoptrio.protocols.events import Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hoptrio.admission.catalogue import Catalogue, Channel, Model
    from hoptrio.admission.quote import Quote
    from hoptrio.admission.routing import Router
    from hoptrio.contract import Contract
    from hoptrio.ledger.model import ApiKey
    from hoptrio.protocols.events import Call
    from hoptrio.protocols.rules import Rules

__all__ = ["Admitted", "Candidate", "admit"]


class Candidate(NamedTuple):
    """A channel that the call may go to, and the body that will be sent there."""

    channel: Channel
    body: bytes
    #: Chat: the provider is asked for usage that the client did not ask for, and it is withheld again.
    hide_usage: bool


class Admitted(NamedTuple):
    """A call that is worth a hold, and where it may go: first to the first of `candidates`, which is claimed for it
    (`Breakers.claim`) or the last resort, and by the contract's `attempts` to any of them. The quote covers all."""

    model: Model
    candidates: tuple[Candidate, ...]
    quote: Quote
    #: Hosted tools without a price that were dropped from the request.
    dropped_tools: frozenset[str]


def admit(
    call: Call,
    key: ApiKey,
    contract: Contract,
    *,
    rules: Rules,
    catalogue: Catalogue,
    router: Router,
    owners: Mapping[str, tuple[str, str | None]],
) -> Admitted:
    """Judge everything but limits and balance. Raises the first refusal that applies.

    `owners`: the account id and channel of each provider-side id in the call that the ledger knows.
    """
    if call.protocol not in contract.protocols:
        raise errors.NotFound(f"The {call.protocol} protocol is not offered under the contract {contract.name}.")
    model = catalogue.models.get(call.model)
    if model is None:
        raise errors.ModelNotFound(f"The model {call.model!r} does not exist here.", param="model")
    if model.max_output_tokens is None:
        raise errors.BadRequest(f"The model {call.model!r} does not generate text.", param="model")
    pinned = _pinned(call, key, owners)
    if key.models and call.model not in key.models:
        raise errors.KeyNotAllowed(f"This key may not use the model {call.model!r}.")
    _check_contract(call, contract)
    dropped_tools = refuse_unpriced(call, model)
    want = Want(
        model=call.model,
        protocol=call.protocol,
        stream=call.stream,
        account=key.account.name,
        key_id=key.id,
        certified_only=contract.certified_only,
        foreign_ids=call.foreign_ids,
        pinned=pinned,
    )
    while True:
        route = router.route(catalogue, want)
        if not route.channels:
            raise refusal(route, call.model)
        chosen = route.channels if contract.attempts > 1 else route.channels[:1]
        admitted = _priced(call, rules, model, chosen, dropped_tools)
        if route.last_resort or router.breakers.claim(chosen[0].name, call.model):
            return admitted
        # A stream of another process has begun to try that channel in between, so the next round leaves it out.


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


def _priced(
    call: Call, rules: Rules, model: Model, channels: Sequence[Channel], dropped_tools: frozenset[str]
) -> Admitted:
    """The bodies for `channels`, and a quote by the largest. Channels that are told the same share one."""
    bodies: dict[tuple[str, bool, bool], bytes] = {}
    candidates = []
    for channel in channels:
        ask_usage = channel.include_usage == "ask" and call.protocol is Protocol.CHAT and call.stream
        told = (channel.models[call.model], ask_usage, channel.unknown_fields == "drop")
        if told not in bodies:
            name, _, drop_unknown = told
            bodies[told] = rules.encode(
                call,
                model=name,
                output_limit=output_limit(call, model),
                ask_usage=ask_usage,
                drop_unknown=drop_unknown,
                drop_tools=dropped_tools,
            )
        candidates.append(Candidate(channel, bodies[told], ask_usage and not call.usage_asked))
    largest = max(map(len, bodies.values()))
    return Admitted(
        model=model,
        candidates=tuple(candidates),
        quote=quote(call, largest, model, dropped_tools),
        dropped_tools=dropped_tools,
    )
