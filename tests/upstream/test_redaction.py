"""What a provider says, without the secrets that it was asked with."""

from __future__ import annotations

import pytest

from hoptrio.admission.catalogue import Channel
from hoptrio.errors import UpstreamRefused
from hoptrio.protocols.events import ProviderError
from hoptrio.upstream.failure import from_provider
from hoptrio.upstream.redaction import redacted

CHANNEL = Channel(
    name="c",
    base_urls={},
    models={},
    api_key="sk-0123456789",
    headers={"x-tenant": "tenant-1", "x-longer": "sk-0123456789-more", "x-short": "1234567"},
    query={"code": "a/b c+d=e"},
)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("the key sk-0123456789 is wrong, sk-0123456789!", "the key [secret] is wrong, [secret]!"),
        ("sk-0123456789-more of tenant-1", "[secret] of [secret]"),
        ("POST /v1?code=a%2Fb+c%2Bd%3De or code=a/b c+d=e", "POST /v1?code=[secret] or code=[secret]"),
        ("1234567 is a word, and sk-012 may be one", "1234567 is a word, and sk-012 may be one"),
        ("cut within sk-01234567", "cut within [secret]"),
        ("cut within sk-0123456789-mo", "cut within [secret]"),
        ("", ""),
    ],
)
def test_a_secret_of_the_channel_is_taken_out(said, told):
    assert redacted(said, CHANNEL) == told


def test_neither_message_nor_code_of_a_refusal_has_one():
    error = from_provider(ProviderError(status=400, code="sk-0123456789", message="no sk-0123456789"), CHANNEL)
    assert type(error) is UpstreamRefused
    assert (error.code, error.message) == ("[secret]", "no [secret]")
