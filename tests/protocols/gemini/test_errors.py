"""Errors in Google's shape, written and read."""

from __future__ import annotations

import json

import pytest

from hoptrio.errors import (
    BadRequest,
    Conflict,
    Draining,
    InsufficientBalance,
    Internal,
    InvalidKey,
    ModelUnavailable,
    UpstreamFailed,
    UpstreamRefused,
    UpstreamTimeout,
)
from hoptrio.protocols.events import ProviderError
from hoptrio.protocols.gemini.errors import error_body, error_status, read_error


@pytest.mark.parametrize(
    ("error", "status", "name"),
    [
        (BadRequest("x"), 400, "INVALID_ARGUMENT"),
        (InvalidKey("x"), 401, "UNAUTHENTICATED"),
        (InsufficientBalance("x"), 402, "RESOURCE_EXHAUSTED"),
        (Conflict("x"), 409, "ABORTED"),
        (Internal("x"), 500, "INTERNAL"),
        (UpstreamFailed("x"), 502, "UNAVAILABLE"),
        (ModelUnavailable("x"), 503, "UNAVAILABLE"),
        (Draining("x"), 503, "UNAVAILABLE"),
        (UpstreamTimeout("x"), 504, "DEADLINE_EXCEEDED"),
    ],
)
def test_a_body_has_googles_status_and_starts_with_our_code(error, status, name):
    assert error_status(error) == status
    shown = json.loads(error_body(error, "req_1"))["error"]
    assert (shown["code"], shown["status"], shown["message"]) == (status, name, f"{error.code}: x")
    assert shown["details"] == [{"@type": "type.googleapis.com/google.rpc.RequestInfo", "requestId": "req_1"}]


def test_the_providers_judgement_of_a_request_is_passed_on_in_its_own_words():
    error = UpstreamRefused("too long", status=400, code="INVALID_ARGUMENT")
    assert json.loads(error_body(error, "r"))["error"]["message"] == "too long"


def test_a_providers_error_body_is_read_with_its_retry_info():
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.07s"}
    error = {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "quota", "details": [{}, info]}
    assert read_error(429, {}, json.dumps({"error": error}).encode()) == ProviderError(
        status=429, code="429", type="RESOURCE_EXHAUSTED", message="quota", retry_after_s=35
    )


def test_a_header_goes_before_the_retry_info():
    body = b'{"error":{"details":[{"retryDelay":"34s"}]}}'
    assert read_error(429, {"retry-after": "2"}, body).retry_after_s == 2
