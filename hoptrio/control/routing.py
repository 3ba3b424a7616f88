"""Who would be asked for a stream of a model: the router's own answer, with every reason in words.

How many streams a channel carries is known to each worker alone, and not taken into account.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hoptrio.admission.health import FAULTS
from hoptrio.admission.routing import Load, Router, Want, refusal
from hoptrio.control import shapes
from hoptrio.protocols.events import Protocol

if TYPE_CHECKING:
    from hoptrio.admission.catalogue import Channel
    from hoptrio.admission.routing import Route
    from hoptrio.contract import Contract
    from hoptrio.control.office import Office
    from hoptrio.ledger.model import ApiKey

__all__ = ["routing_of"]


class _Asker(NamedTuple):
    """Who asks, under which contract."""

    key: ApiKey | None
    contract: Contract


def routing_of(office: Office, asked: shapes.RouteQuestion, key: ApiKey | None) -> shapes.Routing:
    """The answer for `key`, or for one for which nothing is dedicated; the names in `asked` are known ones."""
    contract = _contract(office, asked, key)
    # Its own load: a question must not take the turn of a stream.
    router = Router(Load(), office.breakers, office.certificates.certified, office.pauses.paused)
    protocols = contract.protocols if asked.protocol is None else (asked.protocol,)
    asker = _Asker(key, contract)
    return shapes.Routing(
        model=asked.model,
        key=None if key is None else key.id,
        contract=contract.name,
        attempts=contract.attempts,
        health="shared" if office.health_known else "unknown",
        routes=[_answer(office, router, asked.model, Protocol(each), asker) for each in protocols],
    )


def _contract(office: Office, asked: shapes.RouteQuestion, key: ApiKey | None) -> Contract:
    contracts = office.config.contracts
    if asked.contract is not None:
        return contracts[asked.contract]
    return contracts.get((key.contract if key is not None else None) or "", office.config.contract)


def _answer(office: Office, router: Router, model: str, protocol: Protocol, asker: _Asker) -> shapes.RouteAnswer:
    key, contract = asker
    why = _refused(model, protocol, key, contract)
    if why is not None:
        return shapes.RouteAnswer(protocol=protocol, asked=[], last_resort=False, not_asked=[], refused=why)
    want = Want(
        model=model,
        protocol=protocol,
        stream=True,
        account=key.account.name if key is not None else "",
        key_id=key.id if key is not None else "",
        certified_only=contract.certified_only,
    )
    found = router.route(office.config.catalogue, want)
    return shapes.RouteAnswer(
        protocol=protocol,
        asked=[_asked(office, router, want, channel) for channel in found.channels],
        last_resort=found.last_resort,
        not_asked=[shapes.NotAsked(channel=each.channel, why=each.words) for each in found.excluded],
        refused=None if found.channels else _words(found, refusal(found, model).message),
    )


def _refused(model: str, protocol: Protocol, key: ApiKey | None, contract: Contract) -> str | None:
    if protocol not in contract.protocols:
        return f"the contract {contract.name} does not offer {protocol}"
    if key is not None and (key.revoked or key.expired or key.account.disabled):
        return "this key is revoked, has expired, or its account is disabled"
    if key is not None and key.models and model not in key.models:
        return "this key may not use the model"
    return None


def _words(found: Route, told: str) -> str:
    return told if found.excluded else f"{told} There are no channels."


def _asked(office: Office, router: Router, want: Want, channel: Channel) -> shapes.Asked:
    condition = router.breakers.condition(channel.name, want.model)
    spoken = router.spoken(channel, want)
    health = condition.standing.name.lower() if office.health_known else "unknown"
    if condition.fault is not None:
        health += f": it {FAULTS[condition.fault].words}"
    return shapes.Asked(
        channel=channel.name,
        upstream=channel.models[want.model],
        converts_to=None if spoken is None or spoken is want.protocol else str(spoken),
        route=channel.route,
        priority=channel.priority,
        weight=channel.weight,
        health=health,
    )
