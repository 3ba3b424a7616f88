"""Keep-alive and the models list in Anthropic's shape."""

from __future__ import annotations

import json

from hoptrio.protocols.events import Framing
from hoptrio.protocols.messages.wire import keepalive, models_body

MODELS = [{"id": "a", "created": 1_700_000_000, "max_input_tokens": 9, "max_output_tokens": 3}, {"id": "b"}]


def test_case_04_a_keep_alive_is_a_comment_with_its_own_blank_line():
    assert keepalive(Framing.SSE, {}) == b": hopbase-keepalive\n\n"
    assert keepalive(Framing.JSON, {}) == b""


def test_the_models_list_is_one_page():
    page = json.loads(models_body(MODELS, one=False))
    assert [model["id"] for model in page["data"]] == ["a", "b"]
    assert (page["has_more"], page["first_id"], page["last_id"]) == (False, "a", "b")


def test_an_empty_list_has_no_first():
    assert json.loads(models_body([], one=False)) == {"data": [], "has_more": False, "first_id": None, "last_id": None}


def test_one_model_has_every_member_that_the_official_client_requires():
    assert json.loads(models_body(MODELS[:1], one=True)) == {
        "type": "model",
        "id": "a",
        "display_name": "a",
        "created_at": "2023-11-14T22:13:20Z",
        "lifecycle": "active",
        "max_input_tokens": 9,
        "max_tokens": 3,
    }
