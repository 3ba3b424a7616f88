"""What goes upstream: where, with whose credentials, and nothing that could smuggle a header."""

from __future__ import annotations

import pytest

from hoptrio import __version__
from hoptrio.admission.catalogue import Channel
from hoptrio.errors import BadRequest
from hoptrio.protocols.events import Protocol
from hoptrio.upstream.answer import Origin
from hoptrio.upstream.http1 import opening
from hoptrio.upstream.provider import request_to

CHAT, RESPONSES, MESSAGES, GEMINI = Protocol.CHAT, Protocol.RESPONSES, Protocol.MESSAGES, Protocol.GEMINI


def channel(url="https://api.test/v1", protocol=CHAT, **fields):
    fields.setdefault("api_key", "sk-ours")
    return Channel(name="c", base_urls={protocol: url}, models={"m": "m"}, **fields)


def build(of, protocol=CHAT, path="/chat/completions", *, stream=True, relayed=()):
    request = request_to(of, protocol, path, b"{}", stream=stream, relayed=relayed)
    # h11 has the last word on what is a valid request.
    opening(request)
    return request


def headers_of(*args, **fields):
    return dict(build(*args, **fields).headers)


def test_a_request_is_complete():
    request = build(channel())
    assert request.origin == Origin("https", "api.test", 443)
    assert (request.method, request.target, request.body) == (b"POST", b"/v1/chat/completions", b"{}")
    assert dict(request.headers) == {
        b"host": b"api.test",
        b"user-agent": b"hoptrio/" + __version__.encode(),
        b"accept": b"text/event-stream, application/json",
        b"accept-encoding": b"identity",
        b"content-type": b"application/json",
        b"authorization": b"Bearer sk-ours",
    }


@pytest.mark.parametrize(
    ("url", "origin", "host"),
    [
        ("https://api.test", Origin("https", "api.test", 443), b"api.test"),
        ("https://api.test:443/", Origin("https", "api.test", 443), b"api.test"),
        ("https://api.test:8443", Origin("https", "api.test", 8443), b"api.test:8443"),
        ("http://127.0.0.1:8000/v1", Origin("http", "127.0.0.1", 8000), b"127.0.0.1:8000"),
        ("http://[::1]:8000/v1", Origin("http", "::1", 8000), b"[::1]:8000"),
        ("https://API.Test/v1", Origin("https", "api.test", 443), b"api.test"),
        ("https://bücher.test", Origin("https", "xn--bcher-kva.test", 443), b"xn--bcher-kva.test"),
    ],
)
def test_the_base_url_names_the_origin(url, origin, host):
    request = build(channel(url))
    assert request.origin == origin
    assert dict(request.headers)[b"host"] == host


def test_proxy_and_authorities_are_part_of_the_origin():
    request = build(channel(proxy="http://proxy.test:3128", authorities="PEM"))
    assert request.origin == Origin("https", "api.test", 443, "http://proxy.test:3128", "PEM")


@pytest.mark.parametrize(
    ("url", "query", "path", "target"),
    [
        ("https://a.test/v1", {}, "/chat/completions", b"/v1/chat/completions"),
        ("https://a.test/v1/", {}, "/chat/completions", b"/v1/chat/completions"),
        ("https://a.test", {}, "/v1/messages?beta=true", b"/v1/messages?beta=true"),
        (
            "https://a.test/openai/deployments/d",
            {"api-version": "2026-10-01"},
            "/chat/completions",
            b"/openai/deployments/d/chat/completions?api-version=2026-10-01",
        ),
        ("https://a.test/v1?a=1", {"b": "2 3"}, "/x?c=4", b"/v1/x?a=1&c=4&b=2+3"),
        ("https://a.test?v=old", {"v": "new"}, "/x?v=path", b"/x?v=new"),
        (
            "https://a.test",
            {},
            "/v1beta/models/m:streamGenerateContent?alt=sse",
            b"/v1beta/models/m:streamGenerateContent?alt=sse",
        ),
        ("https://a.test", {}, "/v1/models/a b%2Fc\r\nx: y", b"/v1/models/a%20b%2Fc%0D%0Ax:%20y"),
    ],
)
def test_paths_and_queries_are_joined(url, query, path, target):
    assert build(channel(url, query=query), path=path).target == target


@pytest.mark.parametrize(
    ("protocol", "auth", "header"),
    [
        (CHAT, None, (b"authorization", b"Bearer sk-ours")),
        (RESPONSES, None, (b"authorization", b"Bearer sk-ours")),
        (MESSAGES, None, (b"x-api-key", b"sk-ours")),
        (GEMINI, None, (b"x-goog-api-key", b"sk-ours")),
        (CHAT, "api-key", (b"api-key", b"sk-ours")),
        (MESSAGES, "bearer", (b"authorization", b"Bearer sk-ours")),
    ],
)
def test_each_protocol_authenticates_in_its_own_way_unless_told(protocol, auth, header):
    request = build(channel(protocol=protocol, auth=auth), protocol)
    credentials = [
        h for h in request.headers if h[0] in (b"authorization", b"x-api-key", b"x-goog-api-key", b"api-key")
    ]
    assert credentials == [header]


def test_a_channel_without_a_key_sends_none():
    assert b"authorization" not in headers_of(channel(api_key=""))


def test_a_whole_answer_is_asked_for_as_json():
    assert headers_of(channel(), stream=False)[b"accept"] == b"application/json"


def test_the_protocols_headers_are_relayed():
    relayed = (
        ("anthropic-version", "2026-10-21"),
        ("Anthropic-Beta", "a"),
        ("anthropic-beta", "b,c"),
        ("x-empty", " "),
    )
    headers = headers_of(channel(protocol=MESSAGES), MESSAGES, relayed=relayed)
    assert headers[b"anthropic-version"] == b"2026-10-21"
    assert headers[b"anthropic-beta"] == b"a, b,c"
    assert b"x-empty" not in headers


def test_messages_have_a_version_even_if_nobody_names_one():
    assert headers_of(channel(protocol=MESSAGES), MESSAGES)[b"anthropic-version"] == b"2023-06-01"
    assert b"anthropic-version" not in headers_of(channel())


NEVER_RELAYED = """Authorization X-Api-Key X-Goog-Api-Key Api-Key Cookie OpenAI-Organization OpenAI-Project
    X-Forwarded-For Host Connection Content-Length Transfer-Encoding Upgrade TE Trailer Expect Keep-Alive
    Proxy-Authorization Accept-Encoding"""


@pytest.mark.parametrize("name", NEVER_RELAYED.split())
def test_what_is_the_clients_own_or_frames_is_never_relayed(name):
    headers = headers_of(channel(), relayed=((name, "sk-theirs"),))
    assert b"sk-theirs" not in b"".join(headers.values())
    assert headers == headers_of(channel())


def test_the_channels_own_headers_win():
    of = channel(headers={"User-Agent": "app", "X-Title": "t", "OpenAI-Organization": "org-ours"})
    headers = headers_of(of, relayed=(("x-title", "theirs"),))
    assert headers[b"user-agent"] == b"app"
    assert headers[b"x-title"] == b"t"
    assert headers[b"openai-organization"] == b"org-ours"


@pytest.mark.parametrize("value", ["a\r\nx: y", "a\nb", "a\x00b", "a\x7fb", "snow\u2603"])
def test_a_relayed_value_cannot_inject_a_header(value):
    with pytest.raises(BadRequest) as caught:
        build(channel(), relayed=(("anthropic-beta", value),))
    assert caught.value.param == "anthropic-beta"


@pytest.mark.parametrize("name", ["a b", "a:b", "a\r\n", "", "naïve"])
def test_a_relayed_name_cannot_inject_a_header(name):
    with pytest.raises(BadRequest):
        build(channel(), relayed=((name, "x"),))


@pytest.mark.parametrize(
    ("fields", "setting"),
    [
        ({"api_key": "sk-\nsecret"}, "api_key"),
        ({"headers": {"X-Title": "secret\r\nx: y"}}, "X-Title"),
        ({"headers": {"X Title": "secret"}}, "headers"),
        ({"headers": {"Content-Length": "5"}}, "content-length"),
        ({"headers": {"Host": "other"}}, "host"),
        ({"url": "ftp://api.test/secret"}, "base_url"),
        ({"url": "https://me:secret@api.test"}, "base_url"),
        ({"url": "/v1/secret"}, "base_url"),
        ({"url": "https://api.test:99999/secret"}, "base_url"),
    ],
)
def test_a_channel_that_cannot_be_asked_is_named_without_its_secrets(fields, setting):
    with pytest.raises(ValueError, match=setting) as caught:
        build(channel(**fields))
    assert "secret" not in str(caught.value)
