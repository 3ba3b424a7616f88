"""What embeddings and images have in common: their answer is one whole body."""

from __future__ import annotations

from typing import Any

from hoptrio.errors import BadRequest
from hoptrio.protocols import fields

__all__ = ["refuse_stream"]


def refuse_stream(body: dict[str, Any], what: str) -> None:
    """Raise BadRequest for a body that asks for a stream of `what`."""
    if fields.flag(body, "stream"):
        raise BadRequest(
            f"{what} are not streamed here: leave 'stream' out, or set it to false.",
            param="stream",
            code="unsupported_parameter",
        )
