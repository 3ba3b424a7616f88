"""Errors in OpenAI's shape, both ways: ours written for Chat and Responses clients, a provider's read.

Ours have all four keys, as the schema demands (protocols page 8.1), and the types and codes of 8.3. A provider's may
have any shape: an object, a string, a list, ``detail``, plain text, a page of HTML. Reading never raises, and keeps the
provider's message apart from ours, since it is shown only where it is about the request (9.10).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import ceil, isfinite
from typing import TYPE_CHECKING, Any

import msgspec

from hoptrio.limits import ERROR_MESSAGE_CHARS_MAX
from hoptrio.protocols.events import ProviderError
from hoptrio.protocols.members import loads

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hoptrio.errors import HoptrioError

__all__ = ["data_error", "error_body", "error_status", "error_value", "provider_error", "read_error"]

_TYPES = {401: "authentication_error", 402: "insufficient_quota", 403: "permission_error", 429: "rate_limit_error"}

# What a provider calls its error -> the HTTP status it would have had (protocols page 4.2, 6.5, 8.3). The first word
# that is part of its code or type decides, so that `rate_limit_exceeded` is read before anything about a request.
_STATUSES = (
    (429, ("rate_limit", "insufficient_quota", "quota", "too_many_requests", "resource_exhausted", "slow_down")),
    (503, ("overloaded", "unavailable", "insufficient_system_resource")),
    (504, ("timeout", "timed_out", "deadline_exceeded")),
    (401, ("authentication", "invalid_api_key", "unauthenticated", "unauthorized")),
    (402, ("billing", "payment", "insufficient_balance")),
    (403, ("permission", "forbidden")),
    (404, ("not_found",)),
    (413, ("too_large",)),
    (400, ("invalid", "context", "content_filter", "content_policy", "bio_policy", "misalignment", "cyber_policy")),
    (
        400,
        ("bad_request", "tool_use_failed", "unsupported", "image_too", "image_parse", "empty_image", "failed_to_down"),
    ),
    (500, ("server_error", "internal", "api_error")),
)
_TOKEN_TYPES = frozenset({"tokens", "requests"})
_STATUS_MEMBERS = ("status_code", "raw_status_code", "status", "code")
_UNKNOWN_STATUS = 502


def error_value(error: HoptrioError) -> dict[str, Any]:
    """The ``error`` object of one of our errors."""
    kind = _TYPES.get(error.status) or ("server_error" if error.status >= 500 else "invalid_request_error")
    return {"message": error.message, "type": kind, "param": error.param, "code": error.code}


def error_body(error: HoptrioError, request_id: str) -> bytes:
    """A JSON error body. OpenAI's shape has no place for the request id, which travels in ``x-request-id``."""
    return msgspec.json.encode({"error": error_value(error)})


def error_status(error: HoptrioError) -> int:
    """The HTTP status: the error's own."""
    return error.status


def read_error(status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
    """Read a provider's non-2xx answer, whatever its shape. `headers` have lower-case names."""
    return msgspec.structs.replace(data_error(body, status=status), retry_after_s=_retry_after_s(headers))


def data_error(data: bytes, *, status: int | None = None) -> ProviderError:
    """Read an error that is a whole body or the data of an event: JSON, or text. A page of HTML says nothing."""
    value = loads(data)
    if value is None:
        text = data.decode("utf-8", "replace").strip()
        value = "" if text.startswith("<") else text
    return provider_error(value, status=status)


def provider_error(value: Any, *, status: int | None = None) -> ProviderError:
    """Read an error value: the member ``error`` of an event, a whole error body, or a text. Without `status` (inside a
    stream) the status is mapped from what the error calls itself, 502 if that says nothing."""
    members = _unwrap(value)
    code, kind = _text(members.get("code")), _text(members.get("type"))
    return ProviderError(
        status=status or _stated_status(members) or _status_of(code, kind, _text(members.get("status"))),
        code=code,
        type=kind,
        message=_message(members)[:ERROR_MESSAGE_CHARS_MAX],
    )


def _unwrap(value: Any) -> dict[str, Any]:
    """The object that holds message, type and code, out of ``{"error": ...}``, a list of errors or ``detail``."""
    for _ in range(4):
        if isinstance(value, list) and value:
            value = value[0]
        elif isinstance(value, dict) and value.get("error"):
            value = value["error"]
        elif isinstance(value, dict) and isinstance(value.get("detail"), dict):
            value = value["detail"]
    if isinstance(value, str):
        return {"message": value}
    return value if isinstance(value, dict) else {}


def _message(members: dict[str, Any]) -> str:
    for name in ("message", "detail", "msg", "error_description", "title"):
        value = members.get(name)
        if isinstance(value, list) and value:
            value = value[0].get("msg") if isinstance(value[0], dict) else value[0]
        if isinstance(value, str) and value:
            return value
    return ""


def _text(value: Any) -> str:
    """A code or type as text; vendors send integers too."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value[:200] if isinstance(value, str) else ""


def _stated_status(members: dict[str, Any]) -> int | None:
    """An HTTP status that the error names itself, e.g. OpenRouter's integer code."""
    for name in _STATUS_MEMBERS:
        text = _text(members.get(name))
        if len(text) == 3 and text.isascii() and text.isdigit() and 400 <= int(text) <= 599:
            return int(text)
    return None


def _status_of(*names: str) -> int:
    if _TOKEN_TYPES.intersection(names):
        return 429
    called = " ".join(names).lower()
    for status, words in _STATUSES:
        if any(word in called for word in words):
            return status
    return _UNKNOWN_STATUS


def _retry_after_s(headers: Mapping[str, str]) -> int | None:
    """Seconds from ``retry-after-ms``, else ``retry-after`` (RFC 9110 10.2.3: seconds or a date), rounded up."""
    milliseconds = _seconds(headers.get("retry-after-ms", ""), 1000)
    return milliseconds if milliseconds is not None else _retry_after(headers)


def _retry_after(headers: Mapping[str, str]) -> int | None:
    text = headers.get("retry-after", "")
    seconds = _seconds(text, 1)
    if seconds is not None or not text:
        return seconds
    until, now = _date(text), _date(headers.get("date", ""))
    # Without the provider's own clock a date says nothing here: no clock is read in this package.
    return max(0, ceil((until - now).total_seconds())) if until and now else None


def _seconds(text: str, per_second: int) -> int | None:
    if not re.fullmatch(r"\s*[0-9]{1,12}(\.[0-9]{1,12})?\s*", text, re.ASCII):
        return None
    value = float(text) / per_second
    return ceil(value) if isfinite(value) else None


def _date(text: str) -> datetime | None:
    try:
        value = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return value if value.tzinfo else value.replace(tzinfo=UTC)
