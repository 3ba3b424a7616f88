"""A channel's secrets taken out of what its provider says: some providers quote the key that they refuse. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote_plus

from hoptrio.limits import REDACTED_CHARS_MIN

if TYPE_CHECKING:
    from hoptrio.upstream.provider import Provider

__all__ = ["redacted"]

_REDACTED = "[secret]"


def redacted(text: str, provider: Provider) -> str:
    """`text` without the key and the values of headers and query of `provider`, each where it stands whole, or where
    the text was cut within it. A shorter one than `REDACTED_CHARS_MIN` stays: it may be any word."""
    query = provider.query.values()
    values = {provider.api_key, *provider.headers.values(), *query, *map(quote_plus, query)}
    # A secret may begin with another.
    secrets = sorted((each for each in values if len(each) >= REDACTED_CHARS_MIN), key=len, reverse=True)
    for secret in secrets:
        text = _without_end(text, secret).replace(secret, _REDACTED)
    return text


def _without_end(text: str, secret: str) -> str:
    for shown in range(len(secret) - 1, REDACTED_CHARS_MIN - 1, -1):
        if text.endswith(secret[:shown]):
            return text[:-shown] + _REDACTED
    return text
