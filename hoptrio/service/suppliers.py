"""Suppliers without an account: told in the log, since the first share opens one, whatever name the config has."""

from __future__ import annotations

import difflib
from contextlib import suppress
from typing import TYPE_CHECKING

import structlog

from hoptrio.errors import LedgerUnavailable

if TYPE_CHECKING:
    from hoptrio.admission.catalogue import Catalogue
    from hoptrio.ledger.ledger import Ledger

__all__ = ["tell_unknown_suppliers"]

log = structlog.get_logger("hoptrio.service")


async def tell_unknown_suppliers(ledger: Ledger, catalogue: Catalogue) -> None:
    """Warn of each that has no account, and of the name that may be meant. Nothing while the ledger is away."""
    names = sorted({channel.supplier for channel in catalogue.channels.values() if channel.supplier})
    with suppress(LedgerUnavailable):
        unknown = [name for name in names if await ledger.account(name) is None]
        known = [account.name for account in await ledger.accounts()] if unknown else []
        for name in unknown:
            log.warning(
                "this supplier has no account; its first share opens one",
                supplier=name,
                channels=[channel.name for channel in catalogue.channels.values() if channel.supplier == name],
                meant=next(iter(difflib.get_close_matches(name, known, n=1)), None),
            )
