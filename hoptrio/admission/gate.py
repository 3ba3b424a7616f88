"""The gate: from a parsed call to one that may be held for, or the refusal that comes first.

Refusals are judged in the contract page's order: 401 key, 400 shape (both before this room), then here 404 model,
403 key may not, 400 contract, 503 route; 429 and 402 are decided with the hold itself, in the ledger's transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hoptrio import errors
from hoptrio.admission.quote import output_limit, quote, refuse_unpriced
from hoptrio.admission.routing import route
from hoptrio.protocols.events import Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hoptrio.admission.catalogue import Catalogue, Channel, Model
    from hoptrio.admission.certificates import Certificates
    from hoptrio.admission.quote import Quote
    from hoptrio.admission.routing import Load
    from hoptrio.contract import Contract
    from hoptrio.ledger.model import ApiKey
    from hoptrio.protocols.events import Call
    from hoptrio.protocols.rules import Rules

__all__ = ["Admitted", "admit"]


class Admitted(NamedTuple):
    """A call that is worth a hold, the channel it goes to and the body that will be sent there."""

    model: Model
    channel: Channel
    body: bytes
    quote: Quote
    #: Chat: the provider is asked for usage that the client did not ask for, and it is withheld again.
    hide_usage: bool
    #: Hosted tools without a price that were dropped from the request.
    dropped_tools: frozenset[str]


def admit(
    call: Call,
    key: ApiKey,
    contract: Contract,
    *,
    rules: Rules,
    catalogue: Catalogue,
    load: Load,
    certificates: Certificates,
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
    certified = _certified(call, contract, catalogue, certificates)
    channel = _route(call, key, catalogue, load, pinned, certified)
    return _priced(call, rules, model, channel, dropped_tools)


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


def _certified(
    call: Call, contract: Contract, catalogue: Catalogue, certificates: Certificates
) -> Callable[[str, str], bool] | None:
    """How routing asks whether a channel is certified; None where it need not be."""
    if not (contract.certified_only and call.stream):
        return None

    def certified(channel: str, model: str) -> bool:
        return certificates.certified(catalogue.channels[channel], model, call.protocol)

    return certified


def _route(
    call: Call,
    key: ApiKey,
    catalogue: Catalogue,
    load: Load,
    pinned: str | None,
    certified: Callable[[str, str], bool] | None,
) -> Channel:
    found = route(catalogue, load, call, key, pinned=pinned, certified=certified)
    if found.channels:
        return found.channels[0]
    full = any("limit of streams" in why for _, why in found.excluded)
    if full:
        raise errors.ModelUnavailable(
            f"All channels of the model {call.model!r} are busy.", retryable=True, retry_after_s=1
        )
    if any("not certified" in why for _, why in found.excluded):
        raise errors.ModelUnavailable(f"No channel of the model {call.model!r} is certified for streaming.")
    raise errors.ModelUnavailable(f"No channel offers the model {call.model!r} for this request.")


def _priced(call: Call, rules: Rules, model: Model, channel: Channel, dropped_tools: frozenset[str]) -> Admitted:
    ask_usage = channel.include_usage == "ask" and call.protocol is Protocol.CHAT and call.stream
    body = rules.encode(
        call,
        model=channel.models[call.model],
        output_limit=output_limit(call, model),
        ask_usage=ask_usage,
        drop_unknown=channel.unknown_fields == "drop",
        drop_tools=dropped_tools,
    )
    return Admitted(
        model=model,
        channel=channel,
        body=body,
        quote=quote(call, len(body), model, dropped_tools),
        hide_usage=ask_usage and not call.usage_asked,
        dropped_tools=dropped_tools,
    )
