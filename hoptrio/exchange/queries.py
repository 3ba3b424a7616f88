"""The reads of the data plane: models, one's own requests and account, liveness and readiness."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import trio

from hoptrio import errors
from hoptrio.exchange.routes import Target, What
from hoptrio.ledger.report import request_report
from hoptrio.money import format_nanos
from hoptrio.protocols.registry import RULES

if TYPE_CHECKING:
    from hoptrio.downstream.exchange import Exchange
    from hoptrio.exchange.face import Face
    from hoptrio.exchange.gateway import Gateway
    from hoptrio.ledger.model import ApiKey, RequestRecord

__all__ = ["own_request", "query"]


async def query(gateway: Gateway, exchange: Exchange, face: Face, target: Target) -> None:
    """Answer one read; raises the refusal as a HoptrioError."""
    status, body = await _answer(gateway, exchange, target)
    await exchange.writer.respond(status, face.json_headers(), body)


async def _answer(gateway: Gateway, exchange: Exchange, target: Target) -> tuple[int, bytes]:
    if target.what is What.HEALTH:
        return 200, _json({"status": "ok"})
    if target.what is What.READY:
        return await _ready(gateway)
    key = await gateway.key_of(exchange.head)
    if target.what is What.MODELS:
        return 200, _models(gateway, key, target)
    if target.what is What.ACCOUNT:
        return 200, _json(_account(gateway, key))
    return 200, _json(await _request(gateway, key, target.name))


async def _ready(gateway: Gateway) -> tuple[int, bytes]:
    reachable = await gateway.ledger.ping()
    ready = reachable and not gateway.draining and not gateway.probing
    state = {
        "ready": ready,
        "ledger": "ok" if reachable else "unreachable",
        "draining": gateway.draining,
        "probing": gateway.probing,
        # What leaks would show in: both are back where they were once the clients have gone.
        "streams": len(gateway.registry),
        "tasks": trio.lowlevel.current_statistics().tasks_living,
    }
    return (200 if ready else 503), _json(state)


def _models(gateway: Gateway, key: ApiKey, target: Target) -> bytes:
    names = [name for name in gateway.catalogue.models if not key.models or name in key.models]
    rules = RULES[target.protocol]
    if not target.name:
        return rules.models_body([_model(gateway, name) for name in names], False)
    if target.name not in names:
        raise errors.ModelNotFound(f"The model {target.name[:100]!r} does not exist here.", param="model")
    return rules.models_body([_model(gateway, target.name)], True)


def _model(gateway: Gateway, name: str) -> dict[str, Any]:
    model = gateway.catalogue.models[name]
    return {
        "id": name,
        "created": gateway.started_at_ms // 1000,
        "max_input_tokens": model.max_input_tokens,
        "max_output_tokens": model.max_output_tokens,
    }


async def own_request(gateway: Gateway, key: ApiKey, request_id: str) -> RequestRecord:
    """A request of the key's account. Raises NotFound, for another's too."""
    record = await gateway.ledger.request(request_id)
    if record is None or record.account_id != key.account.id:
        raise errors.NotFound("There is no such request of this account.")
    return record


async def _request(gateway: Gateway, key: ApiKey, request_id: str) -> dict[str, Any]:
    record = await own_request(gateway, key, request_id)
    stream = gateway.registry.get(request_id)
    if stream is not None and record.state == "running":
        timeline = tuple((int(at_s * 1000), event) for at_s, event in stream.timeline)
        record = msgspec.structs.replace(record, timeline=timeline, attempts=stream.attempts)
    return request_report(record, gateway.currency)


def _account(gateway: Gateway, key: ApiKey) -> dict[str, Any]:
    account = key.account
    budget = None if key.budget_nanos is None else format_nanos(key.budget_nanos)
    return {
        "name": account.name,
        "balance": format_nanos(account.balance_nanos),
        "held": format_nanos(account.held_nanos),
        "available": format_nanos(account.available_nanos),
        "currency": gateway.currency,
        "key": {
            "id": key.id,
            "contract": gateway.contract_of(key).name,
            "max_streams": key.max_streams,
            "rpm": key.rpm,
            "budget": budget,
            "budget_per": key.budget_per,
            "models": list(key.models),
        },
    }


def _json(value: dict[str, Any]) -> bytes:
    return msgspec.json.encode(value)
