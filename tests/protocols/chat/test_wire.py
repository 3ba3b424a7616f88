"""Keep-alive and the list of models, on the OpenAI surface."""

from __future__ import annotations

import json

from hoptrio.errors import Internal
from hoptrio.protocols.chat.errors import error_event
from hoptrio.protocols.chat.wire import keepalive, models_body
from hoptrio.protocols.events import Framing


def test_the_keepalive_is_a_comment_and_a_blank_line():
    assert keepalive(Framing.SSE, {}) == b": hopbase-keepalive\n\n"


def test_an_answer_that_does_not_stream_is_not_kept_alive():
    assert keepalive(Framing.JSON, {}) == b""


def test_models_are_listed_and_shown():
    model = {"id": "gpt", "object": "model", "created": 7, "owned_by": "hoptrio"}
    assert json.loads(models_body([{"id": "gpt", "created": 7}], False)) == {"object": "list", "data": [model]}
    assert json.loads(models_body([{"id": "gpt", "created": 7}], True)) == model
    assert json.loads(models_body([], False)) == {"object": "list", "data": []}


def test_an_error_event_has_no_name():
    assert error_event(Internal("m")).startswith(b'data: {"error":{"message":"m"')
