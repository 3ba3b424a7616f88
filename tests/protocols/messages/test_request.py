"""Anthropic Messages requests: raw bodies to calls, refusals, and upstream bodies."""

from __future__ import annotations

import json

import pytest

from hoptrio.errors import BadRequest
from hoptrio.limits import HOSTED_CALLS_MAX, QUOTE_BUILTIN_TOOL_TOKENS, QUOTE_TOOLS_TOKENS
from hoptrio.protocols.events import Framing, Protocol
from hoptrio.protocols.messages.request import KNOWN, encode, parse, path

ASK = {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}]}
CLIENT_TOOL = {"name": "f", "input_schema": {"type": "object"}}
SEARCH = {"type": "web_search_20250305", "name": "web_search"}
HOUR = {"type": "ephemeral", "ttl": "1h"}


def read(*, query=None, headers=None, **changes):
    return parse("/v1/messages", query or {}, headers or {}, json.dumps({**ASK, **changes}).encode())


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


def user(*blocks):
    return {"messages": [{"role": "user", "content": list(blocks)}]}


def test_a_plain_request():
    call = read(stream=True)
    assert (call.protocol, call.model, call.stream, call.framing) == (Protocol.MESSAGES, "m", True, Framing.SSE)
    assert (call.output_limit, call.choices, call.tier, call.tier_open) == (100, 1, None, True)
    assert not call.opaque_input
    assert not call.long_cache
    assert read().framing is Framing.JSON


REFUSED = [
    ({"model": None}, "model", "missing_required_parameter"),
    ({"max_tokens": None}, "max_tokens", "missing_required_parameter"),
    ({"max_tokens": 0}, "max_tokens", "invalid_value"),
    ({"max_tokens": "100"}, "max_tokens", "invalid_type"),
    ({"max_tokens": True}, "max_tokens", "invalid_type"),
    ({"messages": None}, "messages", "missing_required_parameter"),
    ({"messages": {}}, "messages", "invalid_type"),
    ({"messages": ["hi"]}, "messages[0]", "invalid_type"),
    (user("hi"), "messages[0].content[0]", "invalid_type"),
    ({"system": ["hi"]}, "system[0]", "invalid_type"),
    ({"stream": "yes"}, "stream", "invalid_type"),
    ({"tools": {}}, "tools", "invalid_type"),
    ({"tools": [{"type": 1}]}, "tools[0].type", "invalid_value"),
    ({"tools": [{**SEARCH, "max_uses": 0}]}, "tools[0].max_uses", "invalid_value"),
    ({"tools": [{**SEARCH, "max_uses": 10**30}]}, "tools[0].max_uses", "invalid_value"),
    ({"tool_choice": "auto"}, "tool_choice", "invalid_type"),
    ({"thinking": {"type": "enabled", "budget_tokens": "1"}}, "thinking.budget_tokens", "invalid_type"),
    ({"thread": {"type": "continue", "previous_message_id": 1}}, "thread.previous_message_id", "invalid_value"),
    ({"fallbacks": [{"model": "other"}]}, "fallbacks", "unsupported_parameter"),
    ({"fallbacks": "default"}, "fallbacks", "unsupported_parameter"),
    ({"inference_geo": "us"}, "inference_geo", "unsupported_parameter"),
    (
        {"billing_policy": {"type": "billing_policy", "bill_to": "user_profile"}},
        "billing_policy",
        "unsupported_parameter",
    ),
    (
        user({"type": "tool_addition", "tool": {"type": "tool_definition", "definition": SEARCH}}),
        "messages[0].content[0].tool",
        "unsupported_parameter",
    ),
]


@pytest.mark.parametrize(("changes", "param", "code"), REFUSED, ids=[str(changes) for changes, _, _ in REFUSED])
def test_a_wrong_shape_is_refused_and_named(changes, param, code):
    with pytest.raises(BadRequest) as caught:
        read(**changes)
    assert (caught.value.param, caught.value.code) == (param, code)


@pytest.mark.parametrize(
    "betas",
    [
        "context-1m-2025-08-07",
        "claude-code-20250219, context-1m-2025-08-07",
        "CONTEXT-1M-2025-08-07",
        "tools-1,\t Context-1m-2025-08-07 ,x",
    ],
)
def test_a_long_context_beta_is_refused(betas):
    with pytest.raises(BadRequest) as caught:
        read(headers={"anthropic-beta": betas})
    assert (caught.value.param, caught.value.code) == ("anthropic-beta", "unsupported_parameter")


@pytest.mark.parametrize("name", ["anthropic_beta", "betas"])
def test_so_it_is_in_the_body(name):
    read(**{name: ["tools-1"]})
    with pytest.raises(BadRequest) as caught:
        read(**{name: ["tools-1", "Context-1m-2025-08-07"]})
    assert (caught.value.param, caught.value.code) == (name, "unsupported_parameter")


def test_harmless_values_of_priced_fields_pass():
    call = read(
        inference_geo="global",
        fallbacks=[],
        service_tier="standard_only",
        speed="standard",
        context_management={"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    )
    assert (call.tier, call.tier_open) == (None, False)


def test_fast_mode_is_a_tier():
    call = read(speed="fast")
    assert (call.tier, call.tier_param) == ("fast", "speed")


PLAIN = [
    user({"type": "text", "text": "hi"}),
    user({"type": "tool_result", "tool_use_id": "t", "content": "text"}),
    user({"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "text"}]}),
    user({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "text"}}),
    user({"type": "document", "source": {"type": "text", "data": "text"}, "citations": {"enabled": False}}),
    user({"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "text"}]}),
    user({"type": "redacted_thinking", "data": "AA"}, {"type": "server_tool_use", "id": "s", "input": {}}),
    user({"type": "tool_addition", "tool": {"type": "tool_reference", "name": "f"}}),
    {"system": [{"type": "text", "text": "be brief"}]},
    {"context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}},
    {"tools": [CLIENT_TOOL]},
    {"tools": [{"type": "bash_20250124", "name": "bash"}]},
]
OPAQUE = [
    user({"type": "image", "source": {"type": "base64", "data": "AA"}}),
    user({"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}),
    user({"type": "document", "source": {"type": "text", "data": "text"}, "citations": {"enabled": True}}),
    user({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AA"}}),
    user({"type": "document", "source": {"type": "content", "content": [{"type": "image"}]}}),
    user({"type": "document"}),
    user({"type": "tool_result", "content": [{"type": "image", "source": {"type": "base64"}}]}),
    user({"type": "web_search_tool_result", "content": [{"encrypted_content": "AA"}]}),
    user({"type": "compaction", "encrypted_content": "AA"}),
    user({"type": "of tomorrow"}),
    user({"type": None}),
    {"messages": [{"role": "user", "content": 7}]},
    {"system": {"type": "text", "text": "hi"}},
    {"compaction": {"type": "enabled"}},
    {"context_management": {"edits": [{"type": "clear_thinking_20251015"}, {"type": "compact_20260112"}]}},
    {"tools": [{"type": "computer_20250124", "name": "computer"}]},
    {"tools": [{"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}]},
]


@pytest.mark.parametrize("changes", PLAIN, ids=str)
def test_text_is_bounded_by_its_bytes(changes):
    assert not read(**changes).opaque_input


@pytest.mark.parametrize("changes", OPAQUE, ids=str)
def test_anything_else_is_opaque(changes):
    assert read(**changes).opaque_input


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        (
            user({"type": "image", "source": {"type": "file", "file_id": "file_1"}}),
            "messages[0].content[0].source.file_id",
        ),
        (user({"type": "container_upload", "file_id": "file_1"}), "messages[0].content[0].file_id"),
        ({"container": "container_1"}, "container"),
    ],
    ids=str,
)
def test_files_and_containers_are_foreign(changes, param):
    call = read(**changes)
    assert call.foreign_param == param
    assert call.opaque_input


def test_a_continued_thread_names_an_answer():
    call = read(thread={"type": "continue", "previous_message_id": "msg_1"})
    assert (call.provider_ids, call.opaque_input) == (("msg_1",), True)


@pytest.mark.parametrize("changes", [{"container": 1}, {"container": ["c"]}], ids=str)
def test_an_id_that_is_none_is_a_400(changes):
    with pytest.raises(BadRequest) as found:
        read(**changes)
    assert found.value.code == "invalid_type"
    assert found.value.param.rpartition(".")[2] in str(changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"cache_control": HOUR},
        {"system": [{"type": "text", "text": "s", "cache_control": HOUR}]},
        {"tools": [{**CLIENT_TOOL, "cache_control": HOUR}]},
        user({"type": "text", "text": "hi", "cache_control": HOUR}),
        user({"type": "tool_result", "content": [{"type": "text", "text": "x", "cache_control": HOUR}]}),
    ],
    ids=str,
)
def test_a_cache_entry_of_an_hour_is_noted(changes):
    assert read(**changes).long_cache


def test_a_cache_entry_of_five_minutes_is_not():
    assert not read(cache_control={"type": "ephemeral", "ttl": "5m"}).long_cache


@pytest.mark.parametrize(
    ("tools", "hosted", "calls_max"),
    [
        ([CLIENT_TOOL, {"type": "custom", "name": "f"}], (), {}),
        ([SEARCH], ("web_search",), {}),
        ([{**SEARCH, "max_uses": 3}], ("web_search",), {"web_search": 3}),
        ([{**SEARCH, "max_uses": 3}, {**SEARCH, "max_uses": 4}], ("web_search",), {"web_search": 7}),
        ([{**SEARCH, "max_uses": 3}, SEARCH], ("web_search",), {}),
        ([SEARCH, {**SEARCH, "max_uses": 3}], ("web_search",), {}),
        ([{"type": "code_execution_20260120"}, {"type": "mcp_toolset"}], ("code_execution", "mcp"), {}),
        ([{"type": "memory_20250818"}, {"type": "text_editor_20250728"}], (), {}),
    ],
)
def test_hosted_tools(tools, hosted, calls_max):
    call = read(tools=tools)
    assert (call.hosted_tools, call.hosted_calls_max) == (hosted, calls_max)


def test_mcp_servers_are_a_hosted_tool():
    assert read(mcp_servers=[{"type": "url", "url": "https://example.com"}]).hosted_tools == ("mcp",)


@pytest.mark.parametrize(("choice", "optional"), [(None, True), ({"type": "auto"}, True), ({"type": "any"}, False)])
def test_tools_are_optional_where_the_model_chooses(choice, optional):
    assert read(tools=[SEARCH], tool_choice=choice).tools_optional is optional


def test_tools_with_a_schema_of_the_provider_add_input():
    call = read(tools=[{"type": "bash_20250124"}, {"type": "text_editor_20250728"}])
    assert call.added_input_tokens == 2 * QUOTE_BUILTIN_TOOL_TOKENS + QUOTE_TOOLS_TOKENS


# -- upstream ---------------------------------------------------------------------------------------------------------


def test_version_and_betas_are_relayed():
    headers = {"anthropic-version": "2026-10-21", "anthropic-beta": "a,b", "x-api-key": "secret"}
    assert read(headers=headers).headers == (("anthropic-version", "2026-10-21"), ("anthropic-beta", "a,b"))


def test_a_caller_without_a_version_gets_the_first():
    assert read().headers == (("anthropic-version", "2023-06-01"),)


@pytest.mark.parametrize(
    ("query", "target"),
    [
        ({}, "/v1/messages"),
        ({"beta": "true"}, "/v1/messages?beta=true"),
        ({"beta": "x&y=z", "key": "secret"}, "/v1/messages"),
    ],
)
def test_the_beta_query_is_relayed(query, target):
    assert path(read(query=query), "upstream-m") == target


def test_the_upstream_body_is_the_callers_but_for_the_model():
    extra = {"temperature": 0.5, "top_k": 3, "metadata": {"user_id": "{}"}, "of_tomorrow": [1]}
    assert sent(read(**extra)) == {**ASK, **extra, "model": "upstream-m"}


def test_max_tokens_is_lowered():
    assert sent(read(), output_limit=50)["max_tokens"] == 50
    assert sent(read(), output_limit=500)["max_tokens"] == 100


def test_a_thinking_budget_stays_below_the_lowered_limit():
    call = read(max_tokens=32_000, thinking={"type": "enabled", "budget_tokens": 31_999})
    body = sent(call, output_limit=8_000)
    assert (body["max_tokens"], body["thinking"]) == (8_000, {"type": "enabled", "budget_tokens": 7_999})


def test_a_thinking_budget_above_max_tokens_is_output_too():
    assert read(thinking={"type": "enabled", "budget_tokens": 5_000}).output_limit == 5_000


def test_a_hosted_tool_without_a_bound_gets_the_one_of_the_hold():
    tools = [SEARCH, {**SEARCH, "max_uses": 3}, {"type": "code_execution_20260120"}, CLIENT_TOOL]
    assert sent(read(tools=tools))["tools"] == [{**SEARCH, "max_uses": HOSTED_CALLS_MAX}, *tools[1:]]


def test_dropped_tools():
    call = read(tools=[SEARCH, CLIENT_TOOL, {"type": "mcp_toolset"}], mcp_servers=[{"type": "url"}])
    body = sent(call, drop_tools=["web_search", "mcp"])
    assert body["tools"] == [CLIENT_TOOL]
    assert "mcp_servers" not in body


def test_no_choice_is_left_among_no_tools():
    call = read(tools=[SEARCH], tool_choice={"type": "auto"})
    assert sent(call, drop_tools=["web_search"]).keys() == ASK.keys()


def test_unknown_fields_are_dropped_where_the_channel_says_so():
    body = sent(read(of_tomorrow=1, temperature=1), drop_unknown=True)
    assert body.keys() == ASK.keys() | {"temperature"}
    assert body.keys() <= KNOWN
