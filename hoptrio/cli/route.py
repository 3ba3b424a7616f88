"""``hoptrio route``: who would be asked for a model, in which order, and why the others would not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import click

from hoptrio.cli.options import Failed, Invocation, command

if TYPE_CHECKING:
    from hoptrio.admission.catalogue import Channel
    from hoptrio.admission.certificates import Certificates
    from hoptrio.admission.routing import Route, Router, Want
    from hoptrio.contract import Contract
    from hoptrio.ledger.model import ApiKey, PauseRow
    from hoptrio.protocols.events import Protocol

__all__ = ["route"]

_COLUMNS = ("channel", "upstream", "route", "priority", "weight", "health")
_UNKNOWN = "unknown: no server runs here with this config"


@command()
@click.argument("model")
@click.option("--protocol", metavar="P", help="chat, responses, messages or gemini; default: each that is offered.")
@click.option("--key", "key_id", metavar="ID", help="The key that asks; default: one for which nothing is dedicated.")
@click.option("--contract", "contract_name", metavar="C", help="Default: the key's, else the server's.")
@click.pass_obj
def route(
    invocation: Invocation, model: str, protocol: str | None, key_id: str | None, contract_name: str | None
) -> None:
    """Who would be asked for a stream of MODEL, in which order, and why the others would not.

    With a server running here on the same config, the health of channels is its own. How many streams a channel carries
    is known to each worker alone, and not taken into account.
    """
    from hoptrio.admission.breaker import Breakers
    from hoptrio.admission.routing import Load, Router
    from hoptrio.protocols.events import Protocol
    from hoptrio.service.board import SharedBoard, board_path

    config = invocation.config()
    if model not in config.catalogue.models:
        raise Failed(f"no model {model}; there are {', '.join(sorted(config.catalogue.models))}")
    if protocol is not None and protocol not in list(Protocol):
        raise click.UsageError(f"no protocol {protocol}; there are {', '.join(Protocol)}")
    key, certificates, pauses = invocation.run(_read, invocation, key_id)
    contract = _contract(invocation, key, contract_name)
    shared = SharedBoard.of_a_running_server(board_path(invocation.path))
    breakers = Breakers(shared.board if shared is not None else None)
    router = Router(Load(), breakers, certificates.certified, {row.channel for row in pauses}.__contains__)
    chosen = [Protocol(protocol)] if protocol is not None else [Protocol(each) for each in contract.protocols]
    asker = _Asker(key, contract, shared is not None)
    routes = [_answer(invocation, router, model, each, asker) for each in chosen]
    told: dict[str, Any] = {
        "model": model,
        "key": None if key is None else key.id,
        "contract": contract.name,
        "attempts": contract.attempts,
        "health": "shared" if shared is not None else "unknown",
        "routes": routes,
    }
    invocation.emit(told, lambda: _page(told))


async def _read(invocation: Invocation, key_id: str | None) -> tuple[ApiKey | None, Certificates, list[PauseRow]]:
    from hoptrio.admission.certificates import Certificates

    async with invocation.open_ledger() as ledger:
        certificates = Certificates(ledger)
        await certificates.refresh()
        pauses = await ledger.pauses()
        found = [] if key_id is None else [each for each in await ledger.keys() if each.id == key_id]
    if key_id is not None and not found:
        raise Failed(f"no key {key_id}")
    return (found[0] if found else None), certificates, pauses


def _contract(invocation: Invocation, key: ApiKey | None, name: str | None) -> Contract:
    config = invocation.config()
    if name is not None and name not in config.contracts:
        raise click.UsageError(f"no contract {name}; there are {', '.join(sorted(config.contracts))}")
    server = config.contracts[config.server.contract]
    keys = config.contracts.get((key.contract if key is not None else None) or "", server)
    return keys if name is None else config.contracts[name]


class _Asker(NamedTuple):
    """Who asks, and whether anything is known of the health of channels."""

    key: ApiKey | None
    contract: Contract
    known: bool


def _answer(invocation: Invocation, router: Router, model: str, protocol: Protocol, asker: _Asker) -> dict[str, Any]:
    from hoptrio.admission.routing import Want, refusal

    key, contract, known = asker
    why = _refused(model, protocol, key, contract)
    if why is not None:
        return {"protocol": str(protocol), "asked": [], "last_resort": False, "not_asked": [], "refused": why}
    want = Want(
        model=model,
        protocol=protocol,
        stream=True,
        account=key.account.name if key is not None else "",
        key_id=key.id if key is not None else "",
        certified_only=contract.certified_only,
    )
    found = router.route(invocation.config().catalogue, want)
    return {
        "protocol": str(protocol),
        "asked": [_asked(router, want, channel, known=known) for channel in found.channels],
        "last_resort": found.last_resort,
        "not_asked": [{"channel": each.channel, "why": each.words} for each in found.excluded],
        "refused": None if found.channels else _words(found, refusal(found, model).message),
    }


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


def _asked(router: Router, want: Want, channel: Channel, *, known: bool) -> dict[str, Any]:
    from hoptrio.admission.health import FAULTS

    condition = router.breakers.condition(channel.name, want.model)
    spoken = router.spoken(channel, want)
    health = condition.standing.name.lower() if known else "unknown"
    if condition.fault is not None:
        health += f": it {FAULTS[condition.fault].words}"
    return {
        "channel": channel.name,
        "upstream": channel.models[want.model],
        "converts_to": None if spoken is None or spoken is want.protocol else str(spoken),
        "route": channel.route,
        "priority": channel.priority,
        "weight": channel.weight,
        "health": health,
    }


def _page(told: dict[str, Any]) -> Any:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    attempts = told["attempts"]
    last = "one attempt" if attempts == 1 else f"up to {attempts} attempts, while the client has seen nothing"
    parts: list[Any] = [Text(f"{told['model']} under the contract {told['contract']}: {last}")]
    if told["health"] == "unknown":
        parts.append(Text(f"health is {_UNKNOWN}"))
    for answer in told["routes"]:
        table = Table(title=answer["protocol"], title_justify="left")
        for column in ("", *_COLUMNS):
            table.add_column(column, overflow="fold")
        for place, each in enumerate(answer["asked"], 1):
            table.add_row(*map(Text, [str(place), *_cells(each)]))
        for each in answer["not_asked"]:
            table.add_row(*map(Text, ["-", each["channel"], "", "", "", "", each["why"]]))
        parts.append(table)
        if answer["last_resort"]:
            parts.append(Text(f"{answer['protocol']}: closed, and asked for want of others"))
        if answer["refused"]:
            parts.append(Text(f"{answer['protocol']}: {answer['refused']}"))
    return Group(*parts)


def _cells(asked: dict[str, Any]) -> list[str]:
    """What the request is converted to stands before the health."""
    *cells, health = (str(asked[name]) for name in _COLUMNS)
    converts = f"converts to {asked['converts_to']}; " if asked["converts_to"] else ""
    return [*cells, converts + health]
