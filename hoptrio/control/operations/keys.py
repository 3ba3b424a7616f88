"""API keys: making, listing, revoking. A secret is told once, and only its hash is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import asdict

from hoptrio.control import reports, shapes
from hoptrio.control.operation import operation
from hoptrio.control.reading import amount, checked, milliseconds, to_come
from hoptrio.errors import BadRequest, Conflict, NotFound

if TYPE_CHECKING:
    from hoptrio.control.office import Office

__all__ = ["create_key", "list_keys", "revoke_key"]


@operation("GET", "/api/keys", shapes.KeyPage, list[shapes.Key], refuses=(NotFound,))
async def list_keys(office: Office, asked: shapes.KeyPage) -> list[shapes.Key]:
    """List keys, oldest first."""
    account = None if asked.account is None else await office.account(asked.account)
    return [reports.key(each) for each in await office.ledger.keys(account.id if account else None)]


@operation("POST", "/api/keys", shapes.NewKey, shapes.KeyMade, status=201, refuses=(NotFound, Conflict))
async def create_key(office: Office, asked: shapes.NewKey) -> shapes.KeyMade:
    """Make a key; its secret is told this once."""
    contracts, models = office.config.contracts, office.config.catalogue.models
    if asked.contract is not None and asked.contract not in contracts:
        raise BadRequest(f"no contract {asked.contract}; there are {', '.join(sorted(contracts))}")
    with checked():
        made, secret = await office.ledger.create_key(
            asked.account,
            contract=asked.contract,
            max_streams=asked.max_streams,
            rpm=asked.rpm,
            budget_nanos=None if asked.budget is None else amount(asked.budget),
            budget_per=asked.per,
            expires_at_ms=to_come(milliseconds(asked.expires), office.ledger.now_ms()),
            models=asked.models,
        )
    unknown = [model for model in asked.models if model not in models]
    return shapes.KeyMade(**asdict(reports.key(made)), secret=secret, unknown_models=unknown)


@operation("POST", "/api/keys/{key}/revoke", shapes.KeyId, shapes.Key, refuses=(NotFound,))
async def revoke_key(office: Office, asked: shapes.KeyId) -> shapes.Key:
    """Refuse a key from now on; its running streams go on."""
    return reports.key(await office.ledger.revoke_key(asked.key))
