"""Responses requests: raw bodies to calls, refusals, and upstream bodies."""

from __future__ import annotations

import json

import pytest

from hoptrio.errors import BadRequest
from hoptrio.limits import HOSTED_CALLS_MAX
from hoptrio.protocols.events import Framing, Protocol
from hoptrio.protocols.responses.request import KNOWN, encode, parse, path

ASK = {"model": "m", "input": "hi"}
FUNCTION = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}, "strict": False}
SEARCH = {"type": "web_search"}


def read(*, headers=None, **changes):
    return parse("/v1/responses", {}, headers or {}, json.dumps({**ASK, **changes}).encode())


def sent(call, *, model="upstream-m", output_limit=None, drop_unknown=False, drop_tools=()):
    body = encode(
        call,
        model=model,
        output_limit=output_limit,
        ask_usage=True,
        drop_unknown=drop_unknown,
        drop_tools=frozenset(drop_tools),
    )
    return json.loads(body)


def items(*values):
    return {"input": list(values)}


def user(*parts):
    return items({"role": "user", "content": list(parts)})


def test_a_plain_request():
    call = read(stream=True, max_output_tokens=9)
    assert (call.protocol, call.model, call.stream, call.framing) == (Protocol.RESPONSES, "m", True, Framing.SSE)
    assert (call.output_limit, call.choices, call.tier, call.tier_open) == (9, 1, None, True)
    assert not call.opaque_input
    assert call.provider_ids == ()
    assert path(call, "m") == "/responses"
    assert read().framing is Framing.JSON


REFUSED = [
    ({"model": None}, "model", "missing_required_parameter"),
    ({"input": None}, "input", "missing_required_parameter"),
    ({"input": 5}, "input", "invalid_type"),
    ({"input": ["hi"]}, "input[0]", "invalid_type"),
    (user("hi"), "input[0].content[0]", "invalid_type"),
    ({"stream": "true"}, "stream", "invalid_type"),
    ({"stream_options": {"include_obfuscation": False}}, "stream_options", "invalid_value"),
    ({"max_output_tokens": 0}, "max_output_tokens", "invalid_value"),
    ({"max_output_tokens": True}, "max_output_tokens", "invalid_type"),
    ({"max_output_tokens": "9"}, "max_output_tokens", "invalid_type"),
    ({"max_tool_calls": 0}, "max_tool_calls", "invalid_value"),
    ({"max_tool_calls": 10**30}, "max_tool_calls", "invalid_value"),
    ({"previous_response_id": 5}, "previous_response_id", "invalid_value"),
    ({"conversation": {"name": "x"}}, "conversation", "invalid_value"),
    (items({"type": "item_reference"}), "input[0].id", "invalid_value"),
    ({"background": True}, "background", "unsupported_parameter"),
    ({"background_options": {"completion_window": "8h"}}, "background_options", "unsupported_parameter"),
    ({"models": ["a"]}, "models", "unsupported_parameter"),
    (user({"type": "input_audio"}), "input[0].content[0].type", "unsupported_parameter"),
    (items({"type": "additional_tools", "tools": [FUNCTION, SEARCH]}), "input[0].tools", "unsupported_parameter"),
    ({"tools": [{}]}, "tools[0].type", "invalid_value"),
    ({"tools": ["web_search"]}, "tools[0]", "invalid_type"),
    ({"tools": [{"type": "namespace", "tools": {}}]}, "tools[0].tools", "invalid_type"),
]


@pytest.mark.parametrize(("changes", "param", "code"), REFUSED, ids=[str(changes) for changes, _, _ in REFUSED])
def test_a_wrong_shape_is_refused_and_named(changes, param, code):
    with pytest.raises(BadRequest) as caught:
        read(**changes)
    assert (caught.value.param, caught.value.code) == (param, code)


@pytest.mark.parametrize(
    ("changes", "ids"),
    [
        ({"previous_response_id": "resp_1"}, ("resp_1",)),
        ({"previous_response_id": "resp_1", "input": None}, ("resp_1",)),
        ({"conversation": "conv_1"}, ("conv_1",)),
        ({"conversation": {"id": "conv_1"}}, ("conv_1",)),
        (items({"type": "item_reference", "id": "msg_1"}, {"id": "rs_1"}), ("msg_1", "rs_1")),
        (items({"type": "reasoning", "id": "rs_1", "summary": []}), ("rs_1",)),
        ({"prompt_cache_options": {"comparison_response_id": "resp_1"}}, ("resp_1",)),
    ],
    ids=str,
)
def test_what_an_earlier_answer_left_is_named_and_opaque(changes, ids):
    call = read(**changes)
    assert (call.provider_ids, call.opaque_input) == (ids, True)


PLAIN = [
    user({"type": "input_text", "text": "hi"}),
    items({"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]}),
    items({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "AA"}),
    items({"type": "reasoning", "id": "rs_1", "content": [{"type": "reasoning_text", "text": "hm"}]}),
    items({"type": "function_call", "name": "f"}, {"type": "function_call_output", "output": "text"}),
    items({"type": "function_call_output", "output": [{"type": "input_text", "text": "text"}]}),
    items({"type": "additional_tools", "tools": [FUNCTION]}),
    {"input": []},
    {"tools": [FUNCTION, {"type": "custom", "name": "c"}, {"type": "namespace", "name": "n", "tools": [FUNCTION]}]},
    {"tools": [{"type": "local_shell"}, {"type": "shell", "environment": {"type": "local"}}]},
]
OPAQUE = [
    user({"type": "input_image", "image_url": "https://example.com/a.png"}),
    user({"type": "input_file", "file_data": "data:application/pdf;base64,AA"}),
    user({"type": "input_file", "file_url": "https://example.com/a.pdf"}),
    user({"type": "of tomorrow"}),
    user({"text": "hi"}),
    items({"role": "user", "content": 5}),
    items({"type": "function_call_output", "output": [{"type": "input_image"}]}),
    items({"type": "computer_call_output", "output": {}}),
    items({"type": "web_search_call", "id": "ws_1"}),
    items({"type": "compaction", "encrypted_content": "AA"}),
    items({"type": "of tomorrow"}),
    items({"type": 5}),
    {"instructions": [{"role": "developer"}]},
    {"context_management": [{"type": "compaction", "compact_threshold": 1000}]},
    {"tools": [{"type": "tool_search"}]},
]


@pytest.mark.parametrize("changes", PLAIN, ids=str)
def test_text_is_bounded_by_its_bytes(changes):
    call = read(**changes)
    assert not call.opaque_input
    assert call.hosted_tools == ()


@pytest.mark.parametrize("changes", OPAQUE, ids=str)
def test_anything_else_is_opaque(changes):
    assert read(**changes).opaque_input


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"prompt": {"id": "pmpt_1"}}, "prompt"),
        ({"prompt": {"id": "pmpt_1"}, "input": None}, "prompt"),
        (user({"type": "input_image", "file_id": "file-1"}), "input[0].content[0].file_id"),
        ({"tools": [{"type": "file_search", "vector_store_ids": ["vs_1"]}]}, "tools[0].vector_store_ids"),
        ({"tools": [{"type": "code_interpreter", "container": "cntr_1"}]}, "tools[0].container"),
        (
            {"tools": [{"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["file-1"]}}]},
            "tools[0].container",
        ),
        (
            {"tools": [{"type": "shell", "environment": {"type": "container_reference", "container_id": "cntr_1"}}]},
            "tools[0].environment",
        ),
        ({"tools": [{"type": "mcp", "connector_id": "connector_gmail"}]}, "tools[0].connector_id"),
    ],
    ids=str,
)
def test_files_stores_and_prompts_are_foreign(changes, param):
    call = read(**changes)
    assert call.foreign_param == param
    assert call.opaque_input


@pytest.mark.parametrize("changes", [{"prompt": "pmpt_1"}, {"prompt": 1}], ids=str)
def test_an_id_that_is_none_is_a_400(changes):
    with pytest.raises(BadRequest) as found:
        read(**changes)
    assert found.value.code == "invalid_type"
    assert found.value.param.rpartition(".")[2] in str(changes)


@pytest.mark.parametrize(
    ("tool", "hosted"),
    [
        ({"type": "web_search"}, "web_search"),
        ({"type": "web_search_2025_08_26"}, "web_search"),
        ({"type": "web_search_preview"}, "web_search"),
        ({"type": "web_search_preview_2025_03_11"}, "web_search"),
        ({"type": "file_search"}, "file_search"),
        ({"type": "image_generation"}, "image_generation"),
        ({"type": "code_interpreter", "container": {"type": "auto"}}, "code_interpreter"),
        ({"type": "shell", "environment": {"type": "container_auto"}}, "shell"),
        ({"type": "namespace", "tools": [FUNCTION, {"type": "web_search"}]}, "web_search"),
        ({"type": "of_tomorrow"}, "of_tomorrow"),
    ],
)
def test_hosted_tools(tool, hosted):
    call = read(tools=[tool, FUNCTION])
    assert (call.hosted_tools, call.hosted_calls_max) == ((hosted,), {})


def test_max_tool_calls_bounds_each_tool():
    call = read(tools=[SEARCH, SEARCH, {"type": "file_search"}], max_tool_calls=4)
    assert call.hosted_calls_max == {"web_search": 4, "file_search": 4}


@pytest.mark.parametrize(
    ("choice", "optional"),
    [
        (None, True),
        ("auto", True),
        ("required", False),
        ({"type": "web_search"}, False),
        ({"type": "allowed_tools"}, False),
    ],
)
def test_tools_are_optional_where_the_model_chooses(choice, optional):
    assert read(tools=[SEARCH], tool_choice=choice).tools_optional is optional


@pytest.mark.parametrize(("options", "long"), [(None, False), ({"ttl": "30m"}, False), ({"ttl": "12h"}, True)])
def test_a_cache_entry_of_longer_life_is_noted(options, long):
    assert read(prompt_cache_options=options).long_cache is long


# -- upstream ---------------------------------------------------------------------------------------------------------


def test_a_codex_turn_keeps_its_state():
    headers = {"x-codex-turn-state": "abc", "authorization": "Bearer secret", "session-id": "s"}
    assert read(headers=headers).headers == (("x-codex-turn-state", "abc"),)


def test_the_upstream_body_is_the_callers_but_for_the_model():
    extra = {
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "client_metadata": {"a": 1},
        "background": False,
    }
    assert sent(read(**extra)) == {**ASK, **extra, "model": "upstream-m"}


def test_the_limit_is_lowered_and_never_added():
    assert sent(read(max_output_tokens=100), output_limit=50)["max_output_tokens"] == 50
    assert sent(read(max_output_tokens=10), output_limit=50)["max_output_tokens"] == 10
    assert "max_output_tokens" not in sent(read(), output_limit=50)


def test_hosted_tools_without_a_bound_get_the_one_of_the_hold():
    assert sent(read(tools=[SEARCH]))["max_tool_calls"] == HOSTED_CALLS_MAX
    assert sent(read(tools=[SEARCH], max_tool_calls=3))["max_tool_calls"] == 3
    assert "max_tool_calls" not in sent(read(tools=[FUNCTION]))
    assert "max_tool_calls" not in sent(read(tools=[SEARCH, FUNCTION]), drop_tools=["web_search"])


def test_dropped_tools():
    namespace = {"type": "namespace", "name": "n", "tools": [FUNCTION, SEARCH]}
    call = read(tools=[SEARCH, FUNCTION, namespace, {"type": "file_search"}], tool_choice="auto")
    body = sent(call, drop_tools=["web_search"])
    assert body["tools"] == [FUNCTION, {**namespace, "tools": [FUNCTION]}, {"type": "file_search"}]
    assert body["tool_choice"] == "auto"


def test_no_choice_is_left_among_no_tools():
    call = read(tools=[SEARCH], tool_choice="auto", parallel_tool_calls=True, max_tool_calls=3)
    assert sent(call, drop_tools=["web_search"]).keys() == ASK.keys()


def test_unknown_fields_are_dropped_where_the_channel_says_so():
    body = sent(read(client_metadata={}, temperature=1), drop_unknown=True)
    assert body.keys() == ASK.keys() | {"temperature"}
    assert body.keys() <= KNOWN
