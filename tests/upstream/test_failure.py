"""What a client is told when its provider fails."""

from __future__ import annotations

import gzip

import pytest

from hoptrio.errors import HoptrioError, UpstreamFailed, UpstreamOverloaded, UpstreamRefused, UpstreamTimeout
from hoptrio.protocols.events import ProviderError
from hoptrio.upstream.answer import BodyEnd, Unreached, UnreachedKind
from hoptrio.upstream.failure import Content, content_of, from_body_end, from_provider, from_unreached

SECRET = "org-ours at sk-ours"


@pytest.mark.parametrize("status", [400, 404, 413, 422])
def test_what_is_about_the_request_keeps_status_code_and_message(status):
    error = from_provider(ProviderError(status=status, code="context_length_exceeded", message="too long"))
    assert type(error) is UpstreamRefused
    assert (error.status, error.code, error.message) == (status, "context_length_exceeded", "too long")
    assert not error.retryable


def test_a_refusal_without_words_has_ours():
    error = from_provider(ProviderError(status=404))
    assert (error.status, error.code, error.message) == (404, "not_found", "the provider refused the request")


def test_a_long_message_is_cut():
    assert len(from_provider(ProviderError(status=400, message="x" * 10_000)).message) == 2_000


@pytest.mark.parametrize("status", [401, 402, 403])
def test_what_is_about_our_account_is_never_the_clients(status):
    error = from_provider(ProviderError(status=status, code="invalid_api_key", message=SECRET))
    assert type(error) is UpstreamFailed
    assert (error.status, error.code, error.retryable) == (502, "upstream_error", False)
    assert "ours" not in error.message


@pytest.mark.parametrize(
    "error",
    [
        ProviderError(status=429, code="insufficient_quota"),
        ProviderError(status=429, type="insufficient_quota"),
        ProviderError(status=400, code="API_KEY_INVALID"),
        ProviderError(status=400, message="API key not valid. Please pass a valid API key."),
        ProviderError(status=400, type="invalid_request_error", message="Your credit balance is too low to access ..."),
        ProviderError(
            status=400, type="FAILED_PRECONDITION", message="User location is not supported for the API use."
        ),
    ],
)
def test_nor_is_it_when_it_hides_behind_another_status(error):
    assert type(from_provider(error)) is UpstreamFailed


def test_a_request_that_speaks_of_keys_and_billing_is_still_a_request():
    error = from_provider(ProviderError(status=400, message="Invalid value: 'billing' for api_key_mode"))
    assert type(error) is UpstreamRefused


@pytest.mark.parametrize(
    ("retry_after_s", "status", "passed_on"),
    [(None, 429, None), (1, 429, 1), (60, 429, 60), (61, 503, None), (3600, 503, None)],
)
def test_a_rate_limit_is_passed_on_if_waiting_mends_it(retry_after_s, status, passed_on):
    error = from_provider(ProviderError(status=429, message=SECRET, retry_after_s=retry_after_s))
    assert (error.status, error.retry_after_s) == (status, passed_on)
    assert error.retryable == (status == 429)
    assert "ours" not in error.message


@pytest.mark.parametrize(
    ("status", "kind", "shown"),
    [
        (301, UpstreamFailed, 502),
        (405, UpstreamFailed, 502),
        (408, UpstreamTimeout, 504),
        (409, UpstreamFailed, 502),
        (418, UpstreamFailed, 502),
        (500, UpstreamFailed, 502),
        (502, UpstreamFailed, 502),
        (503, UpstreamOverloaded, 503),
        (504, UpstreamTimeout, 504),
        (520, UpstreamFailed, 502),
        (524, UpstreamFailed, 502),
        (529, UpstreamOverloaded, 503),
    ],
)
def test_everything_else_is_the_providers_fault(status, kind, shown):
    error = from_provider(ProviderError(status=status, message=SECRET, retry_after_s=3600))
    assert type(error) is kind
    assert error.status == shown
    assert error.retryable == (status >= 500 or status in (408, 409))
    assert error.retry_after_s in (None, 60)
    assert "ours" not in error.message


@pytest.mark.parametrize("kind", list(UnreachedKind))
def test_an_answer_that_never_came_is_a_502_without_details(kind):
    error = from_unreached(Unreached(kind, True, SECRET))
    assert (error.status, error.retryable) == (502, True)
    assert "ours" not in error.message


@pytest.mark.parametrize("end", list(BodyEnd))
def test_a_body_of_no_use_is_a_502(end):
    error = from_body_end(end)
    assert isinstance(error, HoptrioError)
    assert (error.status, error.retryable) == (502, True)


SSE, JSON, REFUSED = Content.SSE, Content.JSON, Content.REFUSED


@pytest.mark.parametrize(
    ("label", "first", "content"),
    [
        (b"text/event-stream", b"data: {}\n\n", SSE),
        (b"text/event-stream; charset=utf-8", b": comment\n\n", SSE),
        (b"Text/Event-Stream", b"\r\n\r\n  data", SSE),
        (b"text/event-stream", b"\xef\xbb\xbfdata: {}", SSE),
        (b"text/event-stream", b'{"error": {}}', SSE),
        (b"text/event-stream", b"unknown: field", SSE),
        (b"text/event-stream", gzip.compress(b"data: {}", mtime=0), REFUSED),
        (b"text/event-stream", b"\x28\xb5\x2f\xfd", REFUSED),
        (b"text/event-stream", b"<html>", REFUSED),
        (b"application/json", b'{"id": 1}', JSON),
        (b"application/json", b'\n\n\n{"id": 1}', JSON),
        (b"application/json", b"[{", JSON),
        (b"application/json", b"data: {}\n\n", SSE),
        (b"application/json", b"event: message_start", SSE),
        (b"", b"data: {}", SSE),
        (b"", b": x", SSE),
        (b"", b"{", JSON),
        (b"", b"<!doctype html>", REFUSED),
        (b"", gzip.compress(b"{}", mtime=0), REFUSED),
        (b"application/octet-stream", b"data: {}", SSE),
        (b"text/plain", b"Bad gateway", REFUSED),
        (b"text/plain", b"error: upstream", REFUSED),
        (b"", b"d", SSE),
        (b"", b"dat", SSE),
    ],
)
def test_a_200_is_what_its_first_bytes_say(label, first, content):
    assert content_of([(b"content-type", label)] if label else [], first) is content


@pytest.mark.parametrize("first", [b"", b"<html>", b"data: {}", b"{}"])
def test_case_34_html_is_refused_whatever_it_begins_with(first):
    assert content_of([(b"content-type", b"text/html; charset=utf-8")], first) is REFUSED


@pytest.mark.parametrize("first", [b"", b"\n", b" \r\n", b"\xef", b"\xef\xbb", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n"])
def test_blanks_do_not_tell(first):
    assert content_of([(b"content-type", b"text/event-stream")], first) is None
    assert content_of([], first) is None
