"""Errors of the Gemini protocol, both ways: ours as bodies and events, a provider's as `ProviderError`. Pure.

Shape: ``{"error": {"code": int, "message", "status"}}`` (protocols page 7.5). The code must be an integer, since an
official client crashes on a string. The body has no field for our code, so the message starts with it, except where
the error is the provider's own judgement of the request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from hoptrio.errors import UpstreamRefused
from hoptrio.protocols.error_object import body_error, retry_after_s
from hoptrio.protocols.events import ProviderError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hoptrio.errors import HoptrioError
    from hoptrio.protocols.error_object import ErrorObject

__all__ = ["error_body", "error_data", "error_status", "provider_error", "read_error"]

#: The HTTP status of each canonical status (google.rpc.Code).
_STATUS_BY_NAME: Mapping[str, int] = {
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "OUT_OF_RANGE": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "ABORTED": 409,
    "ALREADY_EXISTS": 409,
    "RESOURCE_EXHAUSTED": 429,
    "CANCELLED": 499,
    "INTERNAL": 500,
    "UNKNOWN": 500,
    "DATA_LOSS": 500,
    "UNIMPLEMENTED": 501,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}

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
    found = body_error(body)
    return _provider_error(status, found, retry_after_s(headers))


def provider_error(found: ErrorObject) -> ProviderError:
    """A provider's error event: the status is its integer code, else that of its canonical name, or 500."""
    return _provider_error(found.http_status or _STATUS_BY_NAME.get(found.status) or 500, found, None)


def _provider_error(status: int, found: ErrorObject, wait_s: int | None) -> ProviderError:
    return ProviderError(
        status=status,
        code=found.code,
        type=found.status or found.type,
        message=found.message,
        retry_after_s=found.retry_after_s if wait_s is None else wait_s,
    )


def _error(error: HoptrioError) -> dict[str, str | int]:
    status = error_status(error)
    name = _NAME_BY_STATUS.get(status) or ("INTERNAL" if status >= 500 else "INVALID_ARGUMENT")
    message = error.message if isinstance(error, UpstreamRefused) else f"{error.code}: {error.message}"
    return {"code": status, "message": message, "status": name}
