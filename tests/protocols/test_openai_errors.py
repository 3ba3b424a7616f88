"""Errors in OpenAI's shape: ours written, a provider's read in every shape providers use."""

from __future__ import annotations

import json

import pytest

from hoptrio import errors
from hoptrio.limits import ERROR_MESSAGE_CHARS_MAX
from hoptrio.protocols.events import ProviderError
from hoptrio.protocols.openai_errors import error_body, error_status, provider_error, read_error

OURS = [
    (errors.BadRequest("m", param="n", code="unsupported_parameter"), 400, "invalid_request_error"),
    (errors.InvalidKey("m"), 401, "authentication_error"),
    (errors.InsufficientBalance("m"), 402, "insufficient_quota"),
    (errors.KeyNotAllowed("m"), 403, "permission_error"),
    (errors.ModelNotFound("m"), 404, "invalid_request_error"),
    (errors.BodyTooLarge("m"), 413, "invalid_request_error"),
    (errors.LimitExceeded("m"), 429, "rate_limit_error"),
    (errors.Internal("m"), 500, "server_error"),
    (errors.ModelUnavailable("m"), 503, "server_error"),
]


@pytest.mark.parametrize(("error", "status", "kind"), OURS, ids=[type(each[0]).__name__ for each in OURS])
def test_our_errors_have_all_four_keys(error, status, kind):
    assert error_status(error) == status
    expected = {"message": "m", "type": kind, "param": error.param, "code": error.code}
    assert json.loads(error_body(error, "req_1")) == {"error": expected}


BODIES = {
    "object": ({"error": {"message": "m", "type": "t", "param": None, "code": "c"}}, ("c", "t", "m")),
    "integer code": ({"error": {"message": "m", "code": 400}}, ("400", "", "m")),
    "text": ({"error": "m"}, ("", "", "m")),
    "flat": (
        {"code": "1500", "message": "m", "object": "error", "type": "invalid_model"},
        ("1500", "invalid_model", "m"),
    ),
    "detail": ({"detail": "m"}, ("", "", "m")),
    "detail object": ({"detail": {"error": {"message": "m", "code": "c"}}}, ("c", "", "m")),
    "detail list": ({"detail": [{"loc": ["body"], "msg": "m", "type": "missing"}]}, ("", "", "m")),
    "list": ([{"error": {"code": 404, "message": "m", "status": "NOT_FOUND"}}], ("404", "", "m")),
    "title": ({"title": "m", "status": 403}, ("", "", "m")),
    "empty": ({}, ("", "", "")),
    "number": (7, ("", "", "")),
    "odd members": ({"error": {"message": {"a": 1}, "code": ["x"], "type": True}}, ("", "", "")),
    "null": (None, ("", "", "null")),
}


@pytest.mark.parametrize(("value", "expected"), BODIES.values(), ids=BODIES)
def test_a_provider_error_is_read_in_any_shape(value, expected):
    found = read_error(418, {}, json.dumps(value).encode())
    assert (found.status, found.code, found.type, found.message) == (418, *expected)


@pytest.mark.parametrize(
    ("body", "message"),
    [(b"", ""), (b" upstream busy \n", "upstream busy"), (b"\xff\xfe", "\ufffd\ufffd"), (b"<html><h1>502</h1>", "")],
)
def test_a_body_that_is_no_json_is_its_text_and_a_page_says_nothing(body, message):
    assert read_error(502, {}, body) == ProviderError(status=502, message=message)


def test_a_long_message_is_cut():
    assert len(read_error(400, {}, b"x" * 10_000).message) == ERROR_MESSAGE_CHARS_MAX


RETRIES = [
    ({}, None),
    ({"retry-after": "7"}, 7),
    ({"retry-after": "0.2"}, 1),
    ({"retry-after-ms": "1500", "retry-after": "9"}, 2),
    ({"retry-after": "-1"}, None),
    ({"retry-after": "soon"}, None),
    ({"retry-after": "nan"}, None),
    ({"retry-after": "Mon, 30 Nov 2026 10:00:30 GMT", "date": "Mon, 30 Nov 2026 10:00:00 GMT"}, 30),
    ({"retry-after": "Mon, 30 Nov 2026 09:00:00 GMT", "date": "Mon, 30 Nov 2026 10:00:00 GMT"}, 0),
    ({"retry-after": "Mon, 30 Nov 2026 10:00:30 GMT"}, None),
    ({"retry-after": "Mon, 30 Nov 2026 10:00:30", "date": "Mon, 30 Nov 2026 10:00:00 -0000"}, 30),
]


@pytest.mark.parametrize(("headers", "seconds"), RETRIES)
def test_retry_after_is_read_in_every_form(headers, seconds):
    assert read_error(429, headers, b"{}").retry_after_s == seconds


STATUSES = [
    ({"code": "rate_limit_exceeded"}, 429),
    ({"type": "tokens", "code": None}, 429),
    ({"code": "insufficient_quota"}, 429),
    ({"code": "server_is_overloaded"}, 503),
    ({"code": "slow_down"}, 429),
    ({"code": "vector_store_timeout"}, 504),
    ({"code": "invalid_api_key", "type": "invalid_request_error"}, 401),
    ({"type": "permission_error"}, 403),
    ({"code": "model_not_found", "type": "invalid_request_error"}, 404),
    ({"code": "invalid_prompt"}, 400),
    ({"code": "context_length_exceeded"}, 400),
    ({"type": "exceed_context_size_error"}, 400),
    ({"code": "content_filter"}, 400),
    ({"code": "image_too_large"}, 413),
    ({"code": "server_error"}, 500),
    ({"type": "api_error"}, 500),
    ({"code": "unknown-error"}, 502),
    ({"code": 503}, 503),
    ({"code": "504"}, 504),
    ({"code": "1500"}, 502),
    ({"status_code": 400, "type": "server_error"}, 400),
    ({"status": "UNAVAILABLE"}, 503),
    ({"code": True}, 502),
]


@pytest.mark.parametrize(("members", "status"), STATUSES, ids=lambda value: str(value))
def test_an_error_inside_a_stream_has_the_status_it_would_have_had(members, status):
    assert provider_error({"error": {"message": "m"} | members}).status == status
