"""A supplier's name that is misspelt must not become an account unnoticed."""

from __future__ import annotations

import structlog

from hoptrio.config import build
from hoptrio.ledger.ledger import memory_ledger
from hoptrio.ledger.memory import MemoryStore
from hoptrio.ledger.store import StoreUnavailable
from hoptrio.service.suppliers import tell_unknown_suppliers
from tests.support.harness import settings


def catalogue(**suppliers):
    """A channel for each supplier."""
    [channel] = settings()["channels"].values()
    channels = {name: channel | {"supplier": who, "revenue_share": "0.8"} for name, who in suppliers.items()}
    return build(settings(channels=channels | {"own": channel})).catalogue


async def told(ledger, catalogue):
    with structlog.testing.capture_logs() as logged:
        await tell_unknown_suppliers(ledger, catalogue)
    return [(line["supplier"], line["channels"], line["meant"]) for line in logged]


async def test_a_supplier_without_an_account_is_told_with_the_name_that_may_be_meant():
    async with memory_ledger() as ledger:
        for name in ("acme", "globex"):
            await ledger.create_account(name, 0)
        asked = catalogue(one="acme", two="acne", three="acne", four="initech")
        assert await told(ledger, asked) == [("acne", ["two", "three"], "acme"), ("initech", ["four"], None)]
        await ledger.create_account("initech", 0)
        assert await told(ledger, catalogue(four="initech")) == []


async def test_while_the_ledger_is_away_nothing_is_said():
    store = MemoryStore()
    async with memory_ledger(store) as ledger:
        store.outage = StoreUnavailable("away")
        assert await told(ledger, catalogue(one="acme")) == []
        store.outage = None
