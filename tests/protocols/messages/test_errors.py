"""Errors in Anthropic's shape, written and read."""

from __future__ import annotations

import json

import pytest

from hoptrio.errors import (
    BadRequest,
    InsufficientBalance,
    Internal,
    InvalidKey,
    ModelNotFound,
    ModelUnavailable,
    UpstreamFailed,
    UpstreamOverloaded,
    UpstreamRefused,
    UpstreamTimeout,
)
from hoptrio.protocols.events import ProviderError
from hoptrio.protocols.messages.errors import error_body, error_status, read_error


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (BadRequest("x"), 400, "invalid_request_error"),
        (InvalidKey("x"), 401, "authentication_error"),
        (InsufficientBalance("x"), 402, "billing_error"),
        (ModelNotFound("x"), 404, "not_found_error"),
        (Internal("x"), 500, "api_error"),
        (UpstreamFailed("x"), 502, "api_error"),
        (ModelUnavailable("x"), 503, "overloaded_error"),
        (UpstreamTimeout("x"), 504, "timeout_error"),
        (UpstreamOverloaded("x"), 529, "overloaded_error"),
    ],
)
def test_a_body_has_anthropics_type_and_starts_with_our_code(error, status, kind):
    assert error_status(error) == status
    assert json.loads(error_body(error, "req_1")) == {
        "type": "error",
        "error": {"type": kind, "message": f"{error.code}: x"},
        "request_id": "req_1",
    }


def test_the_providers_judgement_of_a_request_is_passed_on_in_its_own_words():
    error = UpstreamRefused("prompt is too long: 9 > 8", status=400, code="invalid_request_error")
    assert json.loads(error_body(error, "r"))["error"]["message"] == "prompt is too long: 9 > 8"


def test_a_providers_error_body_is_read():
    body = b'{"type":"error","error":{"type":"rate_limit_error","message":"slow down"},"request_id":"req_9"}'
    assert read_error(429, {"retry-after": "7.2"}, body) == ProviderError(
        status=429, type="rate_limit_error", message="slow down", retry_after_s=8
    )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'[{"error":{"code":404,"status":"NOT_FOUND","message":"gone"}}]', "gone"),
        (b'{"error_code":"BAD","message":"databricks"}', "databricks"),
        (b'{"detail":"fastapi"}', "fastapi"),
        (b'{"error":"text"}', "text"),
        (b"<html>502</html>", ""),
        (b"", ""),
    ],
)
def test_foreign_error_bodies_are_read_as_far_as_possible(body, message):
    found = read_error(502, {}, body)
    assert (found.status, found.message) == (502, message)


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({"retry-after-ms": "1500", "retry-after": "9"}, 2),
        ({"retry-after": "3"}, 3),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, None),
        ({"retry-after": "-1"}, None),
        ({}, None),
    ],
)
def test_how_long_to_wait(headers, wait_s):
    assert read_error(429, headers, b"{}").retry_after_s == wait_s
