"""What of a provider's head a client may see."""

from __future__ import annotations

import pytest

from hoptrio.upstream.relay import relayed, request_id


def test_what_clients_read_is_relayed():
    headers = (
        (b"openai-model", b"gpt-5.6-sol"),
        (b"x-codex-turn-state", b"state"),
        (b"x-models-etag", b"etag"),
        (b"x-reasoning-included", b"true"),
    )
    assert relayed(headers) == headers


NOT_RELAYED = """connection transfer-encoding content-length content-encoding content-type keep-alive set-cookie server
    date via x-request-id request-id openai-organization openai-project anthropic-organization-id retry-after
    www-authenticate x-ratelimit-remaining-tokens anthropic-ratelimit-tokens-limit x-codex-primary-used-percent cf-ray
    strict-transport-security alt-svc x-anything-new"""


@pytest.mark.parametrize("name", NOT_RELAYED.split())
def test_nothing_else_is(name):
    assert relayed([(name.encode(), b"x")]) == ()


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([(b"cf-ray", b"ray"), (b"x-request-id", b"req_1")], "req_1"),
        ([(b"request-id", b"req_2")], "req_2"),
        ([(b"x-request-id", b"x" * 500)], "x" * 128),
        ([(b"x-request-id", b"\xff")], "\ufffd"),
        ([], ""),
    ],
)
def test_the_providers_request_id_is_for_the_record(headers, expected):
    assert request_id(headers) == expected
