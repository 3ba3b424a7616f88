"""What is configured: contracts and models. It is changed in the config file, and by a reload."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoptrio.control import reports, shapes
from hoptrio.control.operation import operation

if TYPE_CHECKING:
    from hoptrio.control.office import Office

__all__ = ["list_contracts", "list_models"]


@operation("GET", "/api/contracts", shapes.Nothing, list[shapes.Contract])
async def list_contracts(office: Office, asked: shapes.Nothing) -> list[shapes.Contract]:
    """List contracts: what a stream promises its caller."""
    default = office.config.server.contract
    return [reports.contract(each, default=each.name == default) for each in office.config.contracts.values()]


@operation("GET", "/api/models", shapes.Nothing, list[shapes.Model])
async def list_models(office: Office, asked: shapes.Nothing) -> list[shapes.Model]:
    """List models with their prices."""
    return [reports.model(each, office.config.catalogue) for each in office.config.catalogue.models.values()]
