"""Chat's errors: OpenAI's bodies, and the error event of a stream that has begun."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoptrio.protocols.openai_errors import error_body, error_status, read_error
from hoptrio.protocols.sse import data_event

if TYPE_CHECKING:
    from hoptrio.errors import HoptrioError

__all__ = ["error_body", "error_event", "error_status", "read_error"]


def error_event(error: HoptrioError) -> bytes:
    """``data: {"error": {...}}`` without an ``event:`` line (contract, "Error events"; protocols page 3.6)."""
    return data_event(error_body(error, ""))
