"""Which of a provider's response headers a client may see. A list of names: what is not on it stays here.

Providers send credentials (cookies), the names of our account there (``anthropic-organization-id``,
``openai-organization``, ``openai-project``), and its limits and balance (``x-ratelimit-*``, ``anthropic-ratelimit-*``,
``x-codex-*-used-percent``); what they will add next year nobody knows. So nothing is relayed because it looks harmless.
The provider's request id is for our own record; the client has ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["relayed", "request_id"]

#: Read by clients (protocols page 4.8, 5.5), or about the model and the API rather than about an account.
_RELAYED = frozenset(
    (
        b"deprecation",
        b"openai-model",
        b"openai-processing-ms",
        b"openai-version",
        b"sunset",
        b"x-codex-turn-state",
        b"x-models-etag",
        b"x-reasoning-included",
    )
)
#: In the order of trust: the provider's own id before those of what stands in front of it.
_REQUEST_IDS = (b"x-request-id", b"request-id", b"x-generation-id", b"apim-request-id", b"x-ms-request-id", b"cf-ray")
_REQUEST_ID_CHARS_MAX = 128


def relayed(headers: Iterable[tuple[bytes, bytes]]) -> tuple[tuple[bytes, bytes], ...]:
    """The headers of a provider's answer (lower-case names) that go downstream."""
    return tuple(header for header in headers if header[0] in _RELAYED)


def request_id(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """The provider's own id of the request, for the record; "" if it sent none."""
    fields = dict(headers)
    for name in _REQUEST_IDS:
        if value := fields.get(name):
            return value[:_REQUEST_ID_CHARS_MAX].decode("ascii", "replace")
    return ""
