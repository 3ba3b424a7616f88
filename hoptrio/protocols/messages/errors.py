"""Errors of the Messages protocol, both ways: ours as bodies and events, a provider's as `ProviderError`. Pure.

Shapes: protocols page 6.5 (types and their HTTP twins) and 8.1. The body has no field for our code, so the message
starts with it, except where the error is the provider's own judgement of the request. HTTP error bodies of providers
are read by the one tolerant reader there is, `openai_errors.read_error`, since gateways answer in each other's shapes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from hoptrio.contract import Reason
from hoptrio.errors import UpstreamOverloaded, UpstreamRefused
from hoptrio.protocols import openai_errors
from hoptrio.protocols.openai_errors import read_error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hoptrio.errors import HoptrioError
    from hoptrio.protocols.events import ProviderError

__all__ = ["error_body", "error_data", "error_status", "provider_error", "read_error"]

#: The HTTP twin of each error type.
_STATUS_BY_TYPE: Mapping[str, int] = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "conflict_error": 409,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}

_TYPE_BY_STATUS: Mapping[int, str] = {
    **{status: name for name, status in _STATUS_BY_TYPE.items()},
    408: "timeout_error",
    503: "overloaded_error",
}

#: The contract's exact text for a stream that the provider broke off.
_INTERRUPTED = {"type": "api_error", "message": "Response stream interrupted, please retry"}


def error_status(error: HoptrioError) -> int:
    """The HTTP status: Anthropic's own 529 for a provider without capacity, else the error's."""
    return 529 if isinstance(error, UpstreamOverloaded) else error.status


def error_body(error: HoptrioError, request_id: str) -> bytes:
    """``{"type": "error", "error": {"type", "message"}, "request_id"}``."""
    return msgspec.json.encode({"type": "error", "error": _error(error), "request_id": request_id})


def error_data(reason: Reason, error: HoptrioError) -> bytes:
    """The data of our own ``event: error`` (contract, "Error events")."""
    shown = _INTERRUPTED if reason is Reason.TRUNCATED else _error(error)
    return msgspec.json.encode({"type": "error", "error": shown})


def provider_error(value: Any) -> ProviderError:
    """A provider's error event, its ``error`` member or all of it: the status is the HTTP twin of its type, or what
    else the error says of itself."""
    found = openai_errors.provider_error(value)
    return msgspec.structs.replace(found, status=_STATUS_BY_TYPE.get(found.type, found.status))


def _error(error: HoptrioError) -> dict[str, Any]:
    status = error_status(error)
    name = _TYPE_BY_STATUS.get(status) or ("api_error" if status >= 500 else "invalid_request_error")
    message = error.message if isinstance(error, UpstreamRefused) else f"{error.code}: {error.message}"
    return {"type": name, "message": message}
