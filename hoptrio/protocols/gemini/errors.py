"""Errors of the Gemini protocol, both ways: ours as bodies and events, a provider's as `ProviderError`. Pure.

Shape: ``{"error": {"code": int, "message", "status"}}`` (protocols page 7.5). The code must be an integer, since an
official client crashes on a string. The body has no field for our code, so the message starts with it, except where
the error is the provider's own judgement of the request.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from hoptrio.errors import UpstreamRefused
from hoptrio.protocols import openai_errors
from hoptrio.protocols.stream_error import stream_error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hoptrio.errors import HoptrioError
    from hoptrio.protocols.events import ProviderError

__all__ = ["error_body", "error_data", "error_status", "provider_error", "read_error"]

_DELAY = re.compile(r"([0-9]{1,5})(?:\.([0-9]{1,9}))?s", re.ASCII)

#: The canonical status of each HTTP status that hoptrio answers with (protocols page 8.3).
_NAME_BY_STATUS: Mapping[int, str] = {
    401: "UNAUTHENTICATED",
    402: "RESOURCE_EXHAUSTED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    408: "DEADLINE_EXCEEDED",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


def error_status(error: HoptrioError) -> int:
    """The HTTP status: the error's own, and always the ``code`` of the body."""
    return error.status


def error_body(error: HoptrioError, request_id: str) -> bytes:
    """The error object, with the request's id as a ``google.rpc.RequestInfo``."""
    info = {"@type": "type.googleapis.com/google.rpc.RequestInfo", "requestId": request_id}
    return msgspec.json.encode({"error": {**_error(error), "details": [info]}})


def error_data(error: HoptrioError) -> bytes:
    """The data of our own error event, or the array's error element (contract, "Error events")."""
    return msgspec.json.encode({"error": _error(error)})


def read_error(status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
    """A provider's non-2xx answer; the status line is believed over the body."""
    return _with_details(openai_errors.read_error(status, headers, body), stream_error(body))


def provider_error(value: Any) -> ProviderError:
    """A provider's error event, its ``error`` member: the status is its integer code, or what its canonical status
    name means."""
    return _with_details(openai_errors.provider_error(value), value)


def _with_details(found: ProviderError, value: Any) -> ProviderError:
    """Google's own members: ``status`` names the type, and a ``google.rpc.RetryInfo`` how long to wait, unless a header
    said so."""
    if not isinstance(value, dict):
        return found
    name = value.get("status")
    return msgspec.structs.replace(
        found,
        type=name if isinstance(name, str) else found.type,
        retry_after_s=_retry_info_s(value.get("details")) if found.retry_after_s is None else found.retry_after_s,
    )


def _retry_info_s(details: Any) -> int | None:
    """The ``retryDelay``, e.g. ``"34.2s"``, in whole seconds, rounded up."""
    for detail in details if isinstance(details, list) else ():
        delay = _DELAY.fullmatch(str(detail.get("retryDelay"))) if isinstance(detail, dict) else None
        if delay is not None:
            return int(delay[1]) + bool((delay[2] or "").strip("0"))
    return None


def _error(error: HoptrioError) -> dict[str, str | int]:
    status = error_status(error)
    name = _NAME_BY_STATUS.get(status) or ("INTERNAL" if status >= 500 else "INVALID_ARGUMENT")
    message = error.message if isinstance(error, UpstreamRefused) else f"{error.code}: {error.message}"
    return {"code": status, "message": message, "status": name}
