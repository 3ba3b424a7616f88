"""Keep-alive, the array's framing and the models list in Google's shape."""

from __future__ import annotations

import json

import pytest

from hoptrio.protocols.events import Framing
from hoptrio.protocols.gemini.array import ArrayFraming
from hoptrio.protocols.gemini.wire import keepalive, models_body


def test_case_02_a_keep_alive_is_never_a_comment():
    assert keepalive(Framing.SSE, {"user-agent": "google-genai-sdk/3.6.1 gl-python/3.11"}) == b"\n"
    assert keepalive(Framing.JSON_ARRAY, {}) == b"\n"
    assert keepalive(Framing.JSON, {}) == b""


@pytest.mark.parametrize("header", ["user-agent", "x-goog-api-client"])
def test_the_first_javascript_client_gets_nothing(header):
    assert keepalive(Framing.SSE, {header: "google-genai-sdk/1.30.0 gl-node/v22.1.0"}) == b""
    assert keepalive(Framing.SSE, {header: "google-genai-sdk/2.32.0 gl-node/v22.1.0"}) == b"\n"
    assert keepalive(Framing.SSE, {header: "google-genai-sdk/1.30.0 gl-python/3.11"}) == b"\n"


def test_an_array_parses_with_white_space_between_its_elements():
    array = ArrayFraming()
    body = b"\n" + array.element(b'{"a":1}') + b"\n\n" + array.element(b'{"b":2}') + b"\n" + array.close()
    assert json.loads(body) == [{"a": 1}, {"b": 2}]


def test_an_array_of_nothing_is_an_empty_one():
    assert ArrayFraming().close() == b"[]"


def test_the_models_list_has_googles_names():
    models = [{"id": "a", "max_input_tokens": 9, "max_output_tokens": 3}, {"id": "b", "max_output_tokens": None}]
    first, second = json.loads(models_body(models, one=False))["models"]
    assert (first["name"], first["inputTokenLimit"], first["outputTokenLimit"]) == ("models/a", 9, 3)
    assert second["name"] == "models/b"
    assert "outputTokenLimit" not in second
    assert json.loads(models_body(models, one=True)) == first
