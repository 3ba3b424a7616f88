"""Prices of a model, and nothing about how they are applied (`metering.charge`) or bounded (`admission.quote`)."""

from __future__ import annotations

import msgspec

__all__ = ["Prices"]


class Prices(msgspec.Struct, frozen=True, kw_only=True):
    """One price table. Token prices are in billionths of the currency unit per million tokens; `tools` per call and
    `image` per image in billionths. None of an optional price means that the thing may not be sold."""

    input: int
    output: int
    cached_input: int
    cache_write: int
    cache_write_1h: int
    tools: dict[str, int] = {}
    image: int | None = None
