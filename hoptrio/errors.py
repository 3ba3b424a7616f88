"""Every situation in which a request is refused or fails before its answer, one class each.

An error carries who is at fault, a stable code, the HTTP status it becomes and a message that is safe to show: no
prompt, output, secret or provider account detail is ever put into one. Rendering to a protocol's body is the business
of ``protocols``; mapping a library's exception to one of these is the business of the driver that met it. How a stream
*ends* is never an exception: those are values (`contract.Reason`).
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "BadRequest",
    "BodyTooLarge",
    "BodyTooSlow",
    "Conflict",
    "ContractRefused",
    "Draining",
    "Fault",
    "Forged",
    "Gone",
    "HeadTooLarge",
    "HoptrioError",
    "InsufficientBalance",
    "Internal",
    "InvalidKey",
    "KeyNotAllowed",
    "LedgerUnavailable",
    "LimitExceeded",
    "MethodNotAllowed",
    "ModelNotFound",
    "ModelUnavailable",
    "NotFound",
    "ServerFull",
    "UnsupportedEncoding",
    "UpgradeRequired",
    "UpstreamFailed",
    "UpstreamOverloaded",
    "UpstreamRefused",
    "UpstreamTimeout",
]


class Fault(Enum):
    """Who has to mend it."""

    CLIENT = "client"
    UPSTREAM = "upstream"
    LEDGER = "ledger"
    GATEWAY = "gateway"


class HoptrioError(Exception):
    """The base: `message` is safe to show, `param` names the offending field, `retry_after_s` is at most 60."""

    fault: ClassVar[Fault] = Fault.GATEWAY
    status: int = 500
    code: str = "internal_error"
    #: False: a retry of the same request cannot mend it, and SDKs are told so (``x-should-retry: false``).
    retryable: bool = False
    #: Headers that HTTP itself demands with the status.
    headers: tuple[tuple[str, str], ...] = ()

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        retryable: bool | None = None,
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.retry_after_s = retry_after_s
        if code is not None:
            self.code = code
        if retryable is not None:
            self.retryable = retryable


class BadRequest(HoptrioError):
    """The request's shape is wrong: not JSON, a wrong type, a missing or unsupported field (400)."""

    fault = Fault.CLIENT
    status = 400
    code = "invalid_value"


class ContractRefused(BadRequest):
    """The contract in force forbids this request (400), e.g. a chat stream without ``include_usage``."""

    code = "contract_refused"


class InvalidKey(HoptrioError):
    """No key, an unknown key, a revoked or expired one, or a disabled account (401)."""

    fault = Fault.CLIENT
    status = 401
    code = "invalid_api_key"
    headers = (("www-authenticate", "Bearer"),)  # RFC 9110 section 15.5.2


class InsufficientBalance(HoptrioError):
    """The hold exceeds what is available (402); the message says what was needed and what is there."""

    fault = Fault.CLIENT
    status = 402
    code = "credit_balance_exhausted"


class KeyNotAllowed(HoptrioError):
    """The key exists but may not do this (403), e.g. a model outside its list."""

    fault = Fault.CLIENT
    status = 403
    code = "permission_denied"


class Forged(HoptrioError):
    """A change in a person's name that no page of the control plane made (403)."""

    fault = Fault.CLIENT
    status = 403
    code = "forged_request"


class NotFound(HoptrioError):
    """No such path or object for this caller (404)."""

    fault = Fault.CLIENT
    status = 404
    code = "not_found"


class ModelNotFound(NotFound):
    """No such model is configured (404)."""

    code = "model_not_found"


class MethodNotAllowed(HoptrioError):
    """The path exists, the method does not (405)."""

    fault = Fault.CLIENT
    status = 405
    code = "method_not_allowed"

    def __init__(self, message: str, allowed: Sequence[str]) -> None:
        super().__init__(message)
        self.headers = (("allow", ", ".join(allowed)),)  # RFC 9110 section 15.5.6


class BodyTooSlow(HoptrioError):
    """The request head or body did not arrive in time (408)."""

    fault = Fault.CLIENT
    status = 408
    code = "request_timeout"


class Conflict(HoptrioError):
    """The idempotency key was used with another body (409)."""

    fault = Fault.CLIENT
    status = 409
    code = "conflict"


class Gone(HoptrioError):
    """What was asked for was kept for a while, and is no more (410)."""

    fault = Fault.CLIENT
    status = 410
    code = "gone"


class BodyTooLarge(HoptrioError):
    """The request body exceeds the limit (413)."""

    fault = Fault.CLIENT
    status = 413
    code = "request_too_large"


class UnsupportedEncoding(HoptrioError):
    """The request body is compressed (415)."""

    fault = Fault.CLIENT
    status = 415
    code = "unsupported_content_encoding"


class UpgradeRequired(HoptrioError):
    """A WebSocket upgrade where the mode is off (426): Codex falls back to HTTP at once on this status."""

    fault = Fault.CLIENT
    status = 426
    code = "upgrade_not_supported"
    #: RFC 9110 sections 7.8 and 15.5.22.
    headers: tuple[tuple[str, str], ...] = (("upgrade", "websocket"), ("connection", "upgrade"))


class LimitExceeded(HoptrioError):
    """A limit of the key (429)."""

    fault = Fault.CLIENT
    status = 429
    code = "rate_limit_exceeded"
    retryable = True


class HeadTooLarge(HoptrioError):
    """The request head exceeds the limit (431)."""

    fault = Fault.CLIENT
    status = 431
    code = "request_header_fields_too_large"


class Internal(HoptrioError):
    """A bug of ours (500)."""

    code = "internal_error"
    retryable = True


class UpstreamFailed(HoptrioError):
    """The provider could not be reached, broke off, or answered what cannot be used (502)."""

    fault = Fault.UPSTREAM
    status = 502
    code = "upstream_error"
    retryable = True


class UpstreamRefused(HoptrioError):
    """The provider refused the request itself (400, 404, 413, 422, 429): status, code and message are its own."""

    fault = Fault.CLIENT
    status = 400
    code = "invalid_request_error"

    def __init__(
        self, message: str, *, status: int, code: str, param: str | None = None, retry_after_s: int | None = None
    ) -> None:
        super().__init__(message, param=param, code=code, retryable=status == 429, retry_after_s=retry_after_s)
        self.status = status


class UpstreamOverloaded(HoptrioError):
    """The provider has no capacity (503; 529 on the Messages surface)."""

    fault = Fault.UPSTREAM
    status = 503
    code = "server_is_overloaded"
    retryable = True


class UpstreamTimeout(HoptrioError):
    """The provider sent no response head in time (504)."""

    fault = Fault.UPSTREAM
    status = 504
    code = "upstream_timeout"
    retryable = True


class ModelUnavailable(HoptrioError):
    """No eligible channel (503)."""

    status = 503
    code = "model_unavailable"


class ServerFull(HoptrioError):
    """The process runs as many streams as it may (503)."""

    status = 503
    code = "server_is_overloaded"
    retryable = True


class Draining(ServerFull):
    """The process is shutting down (503)."""

    code = "server_shutting_down"


class LedgerUnavailable(HoptrioError):
    """The ledger cannot take a hold or a settlement now (503)."""

    fault = Fault.LEDGER
    status = 503
    code = "ledger_unavailable"
    retryable = True
