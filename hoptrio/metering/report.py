"""A usage as callers see it: the ``usage`` object of ``GET /v1/requests/{id}`` (interface page). Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from hoptrio.metering.evidence import Usage

__all__ = ["usage_json"]


def usage_json(usage: Usage) -> str:
    """The object as JSON: input without cached and cache-write tokens, output with reasoning ones."""
    members = {
        "input_tokens": usage.input,
        "cached_input_tokens": usage.cached_input,
        "cache_write_tokens": usage.cache_write + usage.cache_write_1h,
        "output_tokens": usage.output,
        "reasoning_tokens": usage.reasoning,
    }
    return msgspec.json.encode(members).decode()
