"""Lifecycle events of our own making: the response object they carry, and those of answers no provider gave. Pure.

SDK helpers, and Codex, know no event without a whole response object with every required key (protocols page 4.2).
"""

from __future__ import annotations

import secrets
from typing import Any

import msgspec

from hoptrio.protocols.members import split_members

__all__ = ["cancelled", "lifecycle", "prewarmed", "response_object"]

#: The members an SDK needs; ``created_at`` is 0 where no clock is read.
_REQUIRED: dict[str, Any] = {
    "object": "response",
    "created_at": 0,
    "error": None,
    "incomplete_details": None,
    "instructions": None,
    "parallel_tool_calls": True,
    "temperature": None,
    "tool_choice": "auto",
    "tools": [],
    "top_p": None,
    "metadata": {},
}
_NO_USAGE = {
    "input_tokens": 0,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 0,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 0,
}


def response_object(model: str, seen: bytes | msgspec.Raw = b"") -> dict[str, Any]:
    """A response object without output and usage. `seen`: the stream's last one; without it the id is new."""
    base: dict[str, Any] = {"id": f"resp_{secrets.token_hex(24)}"} | _REQUIRED | {"model": model} | split_members(seen)
    return base | {"output": [], "usage": None}


def lifecycle(kind: str, sequence_number: int, response: dict[str, Any]) -> bytes:
    """The data of one event."""
    return msgspec.json.encode({"type": kind, "sequence_number": sequence_number, "response": response})


def cancelled(*, seen: bytes | msgspec.Raw, sequence_number: int) -> bytes:
    """``response.cancelled``, for a client that left its answer and goes on with another."""
    response = response_object("", seen) | {"status": "cancelled"}
    return lifecycle("response.cancelled", sequence_number, response)


def prewarmed(*, model: str, created_s: int, previous_id: str | None) -> tuple[str, list[bytes]]:
    """The id and the events of an answer that generated nothing (``generate: false``); no usage, so no price."""
    response = response_object(model) | {"created_at": created_s, "previous_response_id": previous_id}
    begun, ended = response | {"status": "in_progress"}, response | {"status": "completed", "usage": _NO_USAGE}
    kinds = (("created", begun), ("in_progress", begun), ("completed", ended))
    return response["id"], [lifecycle(f"response.{kind}", number, each) for number, (kind, each) in enumerate(kinds)]
