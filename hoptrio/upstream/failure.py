"""What a client is told when its provider fails, and whether a 200 is what it claims to be. Pure.

A provider's 401, 402 and 403 concern the gateway's account with it: they are never shown as the client's own. Its
message is kept only where it is about the request (400, 404, 413, 422), without the channel's secrets. Protocols page
8.3 and 9.10.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from hoptrio import limits
from hoptrio.errors import UpstreamFailed, UpstreamOverloaded, UpstreamRefused, UpstreamTimeout
from hoptrio.upstream.answer import BodyEnd, Unreached, UnreachedKind
from hoptrio.upstream.redaction import redacted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hoptrio.errors import HoptrioError
    from hoptrio.protocols.events import ProviderError
    from hoptrio.upstream.provider import Provider

__all__ = ["Content", "blames_account", "content_of", "from_body_end", "from_provider", "from_unreached"]

#: About the request itself: status -> the code if the provider gave none.
_REFUSALS = {
    400: "invalid_request_error",
    404: "not_found",
    413: "request_too_large",
    422: "invalid_request_error",
}
#: Codes and types that blame the account behind the channel, whatever status they come with.
_ACCOUNT_CODES = frozenset(
    (
        "account_deactivated",
        "api_key_invalid",
        "authentication_error",
        "billing_error",
        "billing_hard_limit_reached",
        "credit_balance_exhausted",
        "failed_precondition",
        "insufficient_quota",
        "invalid_api_key",
        "organization_spend_limit_exceeded",
        "organization_usage_limit_exceeded",
        "permission_denied",
        "permission_error",
        "project_spend_limit_exceeded",
        "unauthenticated",
    )
)
#: The same said in a message only: a Gemini key that is not valid, an Anthropic balance that is too low, are a 400.
_ACCOUNT_PHRASES = (
    "api key not valid",
    "api key expired",
    "credit balance is too low",
    "user location is not supported",
)
#: WHATWG HTML 9.2.6: what a line of an event stream begins with.
_SSE_FIELDS = (b"data:", b"event:", b"id:", b"retry:", b":")
_BOM = b"\xef\xbb\xbf"


def from_provider(error: ProviderError, provider: Provider | None = None) -> HoptrioError:
    """The client's error for what the provider reported, by HTTP status or in its stream's first event, without the
    secrets of `provider`."""
    status = error.status
    if status == 403 or blames_account(error):
        return UpstreamFailed("the provider did not accept the gateway's account", retryable=False)
    if status in _REFUSALS:
        message, code = error.message, error.code
        if provider is not None:
            message, code = redacted(message, provider), redacted(code, provider)
        message = message[: limits.PROVIDER_MESSAGE_CHARS_MAX] or "the provider refused the request"
        return UpstreamRefused(message, status=status, code=code or _REFUSALS[status])
    if status == 429:
        return _rate_limited(error.retry_after_s)
    if status in (408, 504):
        return UpstreamTimeout("the provider took too long")
    if status in (503, 529):
        return UpstreamOverloaded("the provider is overloaded", retry_after_s=_short(error.retry_after_s))
    # What is left of 3xx and 4xx says that the gateway asks in the wrong way, which a retry cannot mend.
    return UpstreamFailed("the provider failed", retryable=status >= 500 or status == 409)


def from_unreached(unreached: Unreached) -> HoptrioError:
    """The client's error for an answer that never came."""
    if unreached.kind is UnreachedKind.CLOSED:
        return UpstreamFailed("the provider closed the connection before it answered")
    if unreached.kind is UnreachedKind.NOT_HTTP:
        return UpstreamFailed("the provider's answer is not valid HTTP")
    return UpstreamFailed("the provider could not be reached")


def from_body_end(end: BodyEnd) -> HoptrioError:
    """The client's error for a body that ended too early, or is of no use as it ended."""
    if end is BodyEnd.UNDECODABLE:
        return UpstreamFailed("the provider's answer could not be decoded")
    if end is BodyEnd.CLEAN:
        return UpstreamFailed("the provider's answer is not of the expected kind")
    return UpstreamFailed("the provider's answer broke off")


class Content(Enum):
    """What a 200's body is, whatever its label says."""

    SSE = "sse"
    #: A JSON value: a whole answer, an error with status 200, or Gemini's array of events.
    JSON = "json"
    #: Nothing that can be relayed: a page, compressed bytes without a label, binary.
    REFUSED = "refused"


def content_of(headers: Iterable[tuple[bytes, bytes]], first: bytes) -> Content | None:
    """Judge a 2xx body by its content type and its first bytes; None while these are only blanks: bring more.

    Labels are taken as hints, since good streams come as ``application/json`` and with no label at all. Only HTML is
    refused by name, and what begins as a stream does (or could: one byte may have come) or as JSON is believed.
    """
    label = _media_type(headers)
    if label == b"text/html":
        return Content.REFUSED
    text = first.removeprefix(_BOM).lstrip()
    if not text or _BOM.startswith(first):
        return None
    mark = text[:1]
    if label == b"text/event-stream":
        # An error object outside `data:` is the reader's business; a control character or a tag starts no line.
        return Content.REFUSED if mark < b" " or mark in b"<(" else Content.SSE
    if mark in b"{[":
        return Content.JSON
    starts_line = any(field.startswith(text[: len(field)]) for field in _SSE_FIELDS)
    return Content.SSE if starts_line else Content.REFUSED


def blames_account(error: ProviderError) -> bool:
    """The provider does not accept the gateway's account with it, in whatever way it says so (but for a bare 403)."""
    if error.status in (401, 402):
        return True
    if error.code.lower() in _ACCOUNT_CODES or error.type.lower() in _ACCOUNT_CODES:
        return True
    message = error.message.lower()
    return error.status == 400 and any(phrase in message for phrase in _ACCOUNT_PHRASES)


def _rate_limited(retry_after_s: int | None) -> HoptrioError:
    """A short limit is passed on, since waiting mends it. A long one is an exhausted channel: no client should sleep
    through it. The provider's message names our organisation, so it is not kept."""
    if retry_after_s is not None and retry_after_s > limits.RETRY_AFTER_MAX_S:
        return UpstreamOverloaded("the provider's capacity for this gateway is exhausted", retryable=False)
    return UpstreamRefused(
        "the provider's rate limit is reached", status=429, code="rate_limit_exceeded", retry_after_s=retry_after_s
    )


def _short(retry_after_s: int | None) -> int | None:
    return None if retry_after_s is None else min(retry_after_s, limits.RETRY_AFTER_MAX_S)


def _media_type(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    value = next((value for name, value in headers if name == b"content-type"), b"")
    return value.partition(b";")[0].strip().lower()
