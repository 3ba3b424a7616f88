"""Every page of the dashboard."""

from __future__ import annotations

from hoptrio.control.dashboard import accounts, ledger, playground, requests

__all__ = ["ROUTES"]

ROUTES = (*accounts.ROUTES, *ledger.ROUTES, *requests.ROUTES, *playground.ROUTES)
