"""Every page of the dashboard."""

from __future__ import annotations

from hoptrio.control.dashboard import accounts, channels, ledger, overview, playground, requests, streams

__all__ = ["ROUTES"]

ROUTES = (
    *overview.ROUTES,
    *streams.ROUTES,
    *requests.ROUTES,
    *channels.ROUTES,
    *accounts.ROUTES,
    *ledger.ROUTES,
    *playground.ROUTES,
)
