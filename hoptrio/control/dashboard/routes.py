"""Every page of the dashboard."""

from __future__ import annotations

from hoptrio.control.dashboard import accounts, channels, ledger, playground, requests

__all__ = ["ROUTES"]

ROUTES = (*accounts.ROUTES, *channels.ROUTES, *ledger.ROUTES, *requests.ROUTES, *playground.ROUTES)
