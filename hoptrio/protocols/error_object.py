"""Reads the error object a provider sent, whichever dialect it uses. Pure.

Gateways and clouds answer in each other's shapes: Google's list of one error on an Anthropic route, OpenAI's object on
a Gemini route, a bare string. So both the HTTP error bodies and the error events of every protocol are read by one
tolerant reader here, and each protocol only maps the names it finds to a status. Nothing read here is ever logged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from hoptrio.protocols.members import UNREADABLE, loads

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ErrorObject", "body_error", "one_line", "retry_after_s", "stream_error"]

#: A provider's message is kept this far; longer ones are dumps.
_MESSAGE_CHARS_MAX = 2_000
#: A wait beyond a day is a mistake, not a hint.
_RETRY_AFTER_S_MAX = 86_400


class ErrorObject(msgspec.Struct, frozen=True, kw_only=True):
    """The members of an error object as found; "" or None where it has none."""

    type: str = ""
    code: str = ""
    #: Google's canonical status name, e.g. ``UNAVAILABLE``.
    status: str = ""
    message: str = ""
    #: An integer code that is an HTTP error status.
    http_status: int | None = None
    retry_after_s: int | None = None


def stream_error(data: bytes) -> ErrorObject | None:
    """The error in one event's data: a truthy top-level ``error`` member, also in a list of one; else None."""
    value = _decoded(data)
    if isinstance(value, dict) and value.get("error"):
        return _read(value["error"])
    return None


def body_error(body: bytes) -> ErrorObject:
    """The error in the body of a non-2xx answer; all members empty where the body is not JSON (an HTML page)."""
    value = _decoded(body)
    if isinstance(value, dict):
        return _read(value.get("error") or value)
    return ErrorObject()


def retry_after_s(headers: Mapping[str, str]) -> int | None:
    """``retry-after-ms`` or ``retry-after`` in whole seconds, rounded up (RFC 9110 section 10.2.3; an HTTP date is not
    read, since it depends on a clock of theirs). Header names are lower-case."""
    milliseconds = headers.get("retry-after-ms", "").strip()
    if milliseconds.isascii() and milliseconds.isdigit() and len(milliseconds) < 10:
        return -(-int(milliseconds) // 1000)
    return _seconds(headers.get("retry-after", ""))


def one_line(data: bytes) -> bytes:
    """JSON on one line, for what arrived outside the grammar; other bytes are returned as they are."""
    if b"\n" not in data:
        return data
    try:
        return msgspec.json.format(data, indent=-1)
    except UNREADABLE:
        return data


def _decoded(data: bytes) -> Any:
    value = loads(data)
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _read(error: Any) -> ErrorObject:
    if isinstance(error, str):
        return ErrorObject(message=error[:_MESSAGE_CHARS_MAX])
    if not isinstance(error, dict):
        return ErrorObject()
    code = error.get("code", error.get("error_code"))
    number = int(code) if isinstance(code, int) or (isinstance(code, str) and code.isascii() and code.isdigit()) else 0
    return ErrorObject(
        type=_text(error.get("type")),
        code=_text(code),
        status=_text(error.get("status")),
        message=_text(error.get("message") or error.get("detail"))[:_MESSAGE_CHARS_MAX],
        http_status=number if 400 <= number <= 599 else None,
        retry_after_s=_retry_info_s(error.get("details")),
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _retry_info_s(details: Any) -> int | None:
    """``google.rpc.RetryInfo`` among an error's details: ``{"retryDelay": "34.2s"}``."""
    for detail in details if isinstance(details, list) else ():
        if isinstance(detail, dict) and isinstance(delay := detail.get("retryDelay"), str):
            return _seconds(delay.removesuffix("s"))
    return None


def _seconds(text: str) -> int | None:
    """A decimal number of seconds, rounded up to a whole one."""
    whole, _, decimals = text.strip().partition(".")
    if not (whole.isascii() and whole.isdigit() and len(whole) < 10 and (not decimals or decimals.isdigit())):
        return None
    seconds = int(whole) + (1 if decimals.strip("0") else 0)
    return seconds if seconds <= _RETRY_AFTER_S_MAX else None
