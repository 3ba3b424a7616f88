"""Chat Completions requests: raw bodies to calls, refusals, and upstream bodies."""

from __future__ import annotations

import json

import pytest

from hoptrio.errors import BadRequest
from hoptrio.protocols.chat.request import KNOWN, encode, parse, path
from hoptrio.protocols.events import Framing, Protocol

ASK = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


def read(**changes):
    return parse("/v1/chat/completions", {}, {}, json.dumps({**ASK, **changes}).encode())


def sent(call, *, model="upstream-m", output_limit=None, ask_usage=True, drop_unknown=False, drop_tools=()):
    body = encode(
        call,
        model=model,
        output_limit=output_limit,
        ask_usage=ask_usage,
        drop_unknown=drop_unknown,
        drop_tools=frozenset(drop_tools),
    )
    return json.loads(body)


def user(*parts):
    return {"messages": [{"role": "user", "content": list(parts)}]}


def function(name="f"):
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}


def test_a_plain_request():
    call = read()
    assert (call.protocol, call.operation, call.model) == (Protocol.CHAT, "generate", "m")
    assert (call.stream, call.framing, call.usage_asked) == (False, Framing.JSON, False)
    assert (call.output_limit, call.choices, call.tier, call.hosted_tools) == (None, 1, None, ())
    assert not call.opaque_input
    assert not call.foreign_param
    assert call.tools_optional
    assert path(call, "m") == "/chat/completions"


def test_a_stream_that_asks_for_usage():
    call = read(stream=True, stream_options={"include_usage": True})
    assert (call.stream, call.framing, call.usage_asked) == (True, Framing.SSE, True)


@pytest.mark.parametrize("options", [None, {}, {"include_usage": False}, {"include_usage": None}])
def test_a_stream_that_does_not(options):
    assert not read(stream=True, stream_options=options).usage_asked


@pytest.mark.parametrize(
    ("changes", "limit", "choices"),
    [
        ({"max_tokens": 5}, 5, 1),
        ({"max_completion_tokens": 7}, 7, 1),
        ({"max_tokens": 9, "max_completion_tokens": 7}, 9, 1),
        ({"max_tokens": None, "max_completion_tokens": 7, "n": None}, 7, 1),
        ({"n": 3}, None, 3),
        ({"n": 2, "best_of": 4}, None, 4),
        ({"n": 16_384}, None, 16_384),
        ({"max_tokens": 10**30}, 10**30, 1),
    ],
)
def test_the_largest_spelling_counts(changes, limit, choices):
    call = read(**changes)
    assert (call.output_limit, call.choices) == (limit, choices)


REFUSED = [
    ({"model": None}, "model", "missing_required_parameter"),
    ({"model": ""}, "model", "invalid_value"),
    ({"model": 3}, "model", "invalid_type"),
    ({"model": "m" * 257}, "model", "invalid_value"),
    ({"model": ["m"]}, "model", "invalid_type"),
    ({"messages": None}, "messages", "missing_required_parameter"),
    ({"messages": "hi"}, "messages", "invalid_type"),
    ({"messages": {"role": "user"}}, "messages", "invalid_type"),
    ({"messages": ["hi"]}, "messages[0]", "invalid_type"),
    ({"messages": [{"role": "user"}, None]}, "messages[1]", "invalid_type"),
    ({"stream": "true"}, "stream", "invalid_type"),
    ({"stream": 1}, "stream", "invalid_type"),
    ({"max_tokens": 0}, "max_tokens", "invalid_value"),
    ({"max_tokens": -1}, "max_tokens", "invalid_value"),
    ({"max_tokens": "5"}, "max_tokens", "invalid_type"),
    ({"max_tokens": 5.0}, "max_tokens", "invalid_type"),
    ({"max_tokens": True}, "max_tokens", "invalid_type"),
    ({"max_completion_tokens": [5]}, "max_completion_tokens", "invalid_type"),
    ({"n": 0}, "n", "invalid_value"),
    ({"n": False}, "n", "invalid_type"),
    ({"n": {}}, "n", "invalid_type"),
    ({"n": 16_385}, "n", "invalid_value"),
    ({"best_of": 10**30}, "best_of", "invalid_value"),
    ({"stream_options": {"include_usage": True}}, "stream_options", "invalid_value"),
    ({"stream": True, "stream_options": []}, "stream_options", "invalid_type"),
    ({"stream": True, "stream_options": {"include_usage": "yes"}}, "stream_options.include_usage", "invalid_type"),
    ({"tools": {}}, "tools", "invalid_type"),
    ({"tools": [1]}, "tools[0]", "invalid_type"),
    ({"tools": [{"type": "x\r\ny"}]}, "tools[0].type", "invalid_value"),
    ({"tools": [{"type": ["function"]}]}, "tools[0].type", "invalid_value"),
    ({"tools": [{"type": None}]}, "tools[0].type", "invalid_value"),
    ({"models": ["a", "b"]}, "models", "unsupported_parameter"),
    ({"plugins": [{"id": "web"}]}, "plugins", "unsupported_parameter"),
    ({"search_parameters": {"mode": "auto"}}, "search_parameters", "unsupported_parameter"),
    ({"audio": {"voice": "ash", "format": "pcm16"}}, "audio", "unsupported_parameter"),
    ({"modalities": ["text", "audio"]}, "modalities", "unsupported_parameter"),
    ({"modalities": ["image", "text"]}, "modalities", "unsupported_parameter"),
    ({"modalities": ["AUDIO"]}, "modalities", "unsupported_parameter"),
    (
        user({"type": "text", "text": "hi"}, {"type": "input_audio"}),
        "messages[0].content[1].type",
        "unsupported_parameter",
    ),
    ({"messages": [{"role": "assistant", "audio": {"id": "a"}}]}, "messages[0].audio", "unsupported_parameter"),
    ({"service_tier": 5}, "service_tier", "invalid_type"),
]


@pytest.mark.parametrize(("changes", "param", "code"), REFUSED, ids=[str(changes) for changes, _, _ in REFUSED])
def test_a_wrong_shape_is_refused_and_named(changes, param, code):
    with pytest.raises(BadRequest) as caught:
        read(**changes)
    assert (caught.value.param, caught.value.code, caught.value.status) == (param, code, 400)


def test_the_message_names_the_type_and_not_the_value():
    with pytest.raises(BadRequest) as caught:
        read(max_tokens="a secret")
    assert caught.value.message == "Invalid type for 'max_tokens': expected an integer, but got a string instead."


PLAIN = [
    user({"type": "text", "text": "hi"}),
    user("bare"),
    {"messages": []},
    {"messages": [{"role": "assistant", "content": None, "tool_calls": []}]},
    {"tools": [function()]},
]
OPAQUE = [
    user({"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}),
    user({"type": "file", "file": {"file_data": "data:application/pdf;base64,AA"}}),
    user({"type": "video_url", "video_url": {}}),
    user({"type": "of tomorrow"}),
    user({"type": ["text"]}),
    user({"text": "hi"}),
    user(7),
    {"messages": [{"role": "user", "content": {"text": "hi"}}]},
    {"data_sources": [{"type": "azure_search"}]},
    {"extra_body": {"google": {"cached_content": "cachedContents/1"}}},
]


@pytest.mark.parametrize("changes", PLAIN, ids=str)
def test_text_is_bounded_by_its_bytes(changes):
    assert not read(**changes).opaque_input


@pytest.mark.parametrize("changes", OPAQUE, ids=str)
def test_anything_else_is_opaque(changes):
    assert read(**changes).opaque_input


def test_a_file_id_is_foreign():
    call = read(**user({"type": "file", "file": {"file_id": "file-1"}}))
    assert call.foreign_param == "messages[0].content[0].file.file_id"
    assert call.opaque_input


def test_so_are_googles_caches_and_azures_stores():
    google = read(extra_body={"google": {"cached_content": "cachedContents/1"}})
    assert google.foreign_param == "extra_body.google.cached_content"
    assert read(data_sources=[{"type": "azure_search"}]).foreign_param == "data_sources"


@pytest.mark.parametrize(
    "changes",
    [
        {"cache_control": {"type": "ephemeral", "ttl": "1h"}},
        user({"type": "text", "text": "hi", "cache_control": {"type": "ephemeral", "ttl": "1h"}}),
        {"tools": [{**function(), "cache_control": {"type": "ephemeral", "ttl": "1h"}}]},
    ],
    ids=str,
)
def test_a_cache_entry_of_an_hour_is_noted(changes):
    assert read(**changes).long_cache


@pytest.mark.parametrize(
    ("changes", "hosted", "optional"),
    [
        ({"tools": [function(), {"type": "custom", "custom": {}}, {"function": {"name": "f"}}]}, (), True),
        ({"tools": [{"type": "openrouter:web_search"}]}, ("openrouter:web_search",), True),
        ({"web_search_options": {}, "tool_choice": "auto"}, ("web_search",), True),
        ({"web_search_options": {}, "tool_choice": "required"}, ("web_search",), False),
        ({"web_search_options": None}, (), True),
    ],
)
def test_hosted_tools(changes, hosted, optional):
    call = read(**changes)
    assert (call.hosted_tools, call.tools_optional) == (hosted, optional)


def test_tools_bring_instructions_of_the_provider():
    assert read(tools=[function()]).added_input_tokens > read().added_input_tokens == 0


@pytest.mark.parametrize("value", ["default", "auto", None])
def test_the_standard_tier(value):
    assert read(service_tier=value).tier is None


def test_another_tier():
    call = read(service_tier="flex")
    assert (call.tier, call.tier_param, call.tier_open) == ("flex", "service_tier", False)


# -- upstream ---------------------------------------------------------------------------------------------------------


def test_the_upstream_body_is_the_callers_but_for_the_model():
    extra = {"temperature": 0.5, "provider": {"order": ["x"]}, "seed": 2**70, "stop": None}
    assert sent(read(**extra)) == {**ASK, **extra, "model": "upstream-m"}


def test_encoding_leaves_the_call_as_it_was():
    call = read(stream=True, max_tokens=9, web_search_options={}, tools=[{"type": "x"}])
    before = json.dumps(call.body)
    sent(call, output_limit=1, drop_tools=["x", "web_search"])
    assert json.dumps(call.body) == before


def test_every_spelling_above_the_limit_is_lowered():
    call = read(max_tokens=100, max_completion_tokens=7)
    body = sent(call, output_limit=50)
    assert (body["max_tokens"], body["max_completion_tokens"]) == (50, 7)


def test_no_limit_is_added():
    assert sent(read(max_tokens=None), output_limit=50) == {**ASK, "model": "upstream-m", "max_tokens": None}


def test_usage_is_asked_for_on_a_stream_beside_its_other_options():
    call = read(stream=True, stream_options={"include_usage": False, "include_obfuscation": False})
    assert sent(call)["stream_options"] == {"include_usage": True, "include_obfuscation": False}
    assert sent(read(stream=True))["stream_options"] == {"include_usage": True}


def test_usage_is_not_asked_for_without_a_stream():
    assert "stream_options" not in sent(read())


def test_a_channel_that_refuses_stream_options_gets_none():
    assert "stream_options" not in sent(read(stream=True, stream_options={"include_usage": True}), ask_usage=False)


def test_unknown_fields_are_dropped_where_the_channel_says_so():
    body = sent(read(top_k=5, temperature=1, venice_parameters={}), drop_unknown=True)
    assert body.keys() == {"model", "messages", "temperature"}
    assert body.keys() <= KNOWN


def test_dropped_tools():
    call = read(tools=[function(), {"type": "browser_20260101"}], web_search_options={}, tool_choice="auto")
    assert call.hosted_tools == ("browser", "web_search")
    body = sent(call, drop_tools=["browser", "web_search"])
    assert body["tools"] == [function()]
    assert body["tool_choice"] == "auto"
    assert "web_search_options" not in body


def test_no_choice_is_left_among_no_tools():
    body = sent(read(tools=[{"type": "x"}], tool_choice="auto", parallel_tool_calls=True), drop_tools=["x"])
    assert body.keys() == {"model", "messages"}


def test_a_duplicate_key_has_one_meaning():
    call = parse("", {}, {}, b'{"model":"cheap","messages":[],"n":1,"n":4,"model":"dear"}')
    assert (call.model, call.choices) == ("dear", 4)
    assert sent(call, model="dear") == {"model": "dear", "messages": [], "n": 4}
