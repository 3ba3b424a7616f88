"""Responses' errors: OpenAI's bodies, and the ``response.failed`` with which a stream that has begun ends.

SDK helpers, and Codex, know no other failure: it carries a whole response object with every required key, the
stream's own response id and the next sequence number, and comes after ``response.created`` (protocols page 1.2, 4.2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hoptrio.errors import Fault
from hoptrio.protocols.openai_errors import error_body, error_status, read_error
from hoptrio.protocols.responses.lifecycle import lifecycle, response_object
from hoptrio.protocols.sse import named_event

if TYPE_CHECKING:
    import msgspec

    from hoptrio.errors import HoptrioError

__all__ = ["error_body", "error_event", "error_status", "read_error"]


def error_event(
    error: HoptrioError,
    *,
    model: str,
    response: bytes | msgspec.Raw = b"",
    sequence_number: int = 0,
    created: bool = False,
) -> bytes:
    """Our ``response.failed``, preceded by ``response.created`` unless that was `created` before.

    `response` is the stream's last response object as received, b"" if there was none; `sequence_number` is the next.
    """
    base = response_object(model, response)
    events = b""
    if not created:
        events = _event("response.created", sequence_number, base | {"status": "in_progress", "error": None})
        sequence_number += 1
    failure = {"code": _code(error), "message": f"{error.code}: {error.message}"}
    return events + _event("response.failed", sequence_number, base | {"status": "failed", "error": failure})


def _event(kind: str, sequence_number: int, response: dict[str, Any]) -> bytes:
    return named_event(kind.encode(), lifecycle(kind, sequence_number, response))


def _code(error: HoptrioError) -> str:
    """One of the three codes clients know. The protocol has no field for ours, so the message starts with it."""
    if error.status == 429:
        return "rate_limit_exceeded"
    return "invalid_prompt" if error.fault is Fault.CLIENT else "server_error"
