"""Gemini requests: paths and raw bodies to calls, refusals, and upstream bodies."""

from __future__ import annotations

import json

import pytest

from hoptrio.errors import BadRequest, NotFound
from hoptrio.protocols.events import Framing, Protocol
from hoptrio.protocols.gemini.request import encode, parse, path

ASK = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
STREAM = "/v1beta/models/m:streamGenerateContent"
FUNCTIONS = {"functionDeclarations": [{"name": "f"}]}


def read(target=STREAM, *, query=None, **changes):
    return parse(target, query or {}, {}, json.dumps({**ASK, **changes}).encode())


def sent(call, *, output_limit=None, drop_unknown=False, drop_tools=()):
    body = encode(
        call,
        model="upstream-m",
        output_limit=output_limit,
        ask_usage=True,
        drop_unknown=drop_unknown,
        drop_tools=frozenset(drop_tools),
    )
    return json.loads(body)


def user(*parts):
    return {"contents": [{"role": "user", "parts": list(parts)}]}


def test_a_plain_request():
    call = read(query={"alt": "sse"})
    assert (call.protocol, call.model, call.stream, call.framing) == (Protocol.GEMINI, "m", True, Framing.SSE)
    assert (call.output_limit, call.choices, call.tier, call.tier_open) == (None, 1, None, False)
    assert not call.opaque_input


@pytest.mark.parametrize(
    ("target", "model", "stream"),
    [
        ("/v1beta/models/gemini-2.5-pro:generateContent", "gemini-2.5-pro", False),
        ("/v1/models/gemini-2.5-pro:streamGenerateContent", "gemini-2.5-pro", True),
        ("/v1beta/models/models/gemini-2.5-pro:generateContent", "gemini-2.5-pro", False),
        ("/v1beta/tunedModels/mine:generateContent", "tunedModels/mine", False),
        ("/v1beta/models/tunedModels/mine:generateContent", "tunedModels/mine", False),
        ("/v1beta/models/vendor/model:free:generateContent", "vendor/model:free", False),
    ],
)
def test_paths(target, model, stream):
    call = read(target)
    assert (call.model, call.stream) == (model, stream)


@pytest.mark.parametrize(
    "target",
    [
        "/v1beta/models/m",
        "/v1beta/models/m:",
        "/v1beta/models/:generateContent",
        "/v1beta/models/m:deleteEverything",
        "/v1beta/models/m:generatecontent",
        "/v2/models/m:generateContent",
        "/v1beta/models/m:generateContent/x",
    ],
)
def test_other_paths_are_not_found(target):
    with pytest.raises(NotFound):
        read(target)


@pytest.mark.parametrize(
    ("verb", "query", "framing"),
    [
        ("streamGenerateContent", {"alt": "sse"}, Framing.SSE),
        ("streamGenerateContent", {}, Framing.JSON_ARRAY),
        ("streamGenerateContent", {"alt": "json"}, Framing.JSON_ARRAY),
        ("generateContent", {}, Framing.JSON),
        ("generateContent", {"alt": "sse"}, Framing.JSON),
    ],
)
def test_case_87_the_framing_is_what_alt_says(verb, query, framing):
    assert read(f"/v1beta/models/m:{verb}", query=query).framing is framing


def test_another_alt_is_refused():
    with pytest.raises(BadRequest) as caught:
        read(query={"alt": "proto"})
    assert caught.value.param == "alt"


@pytest.mark.parametrize(
    ("changes", "limit", "candidates"),
    [
        ({"generationConfig": {"maxOutputTokens": 5, "candidateCount": 2}}, 5, 2),
        ({"generation_config": {"max_output_tokens": 5, "candidate_count": 2}}, 5, 2),
        ({"generationConfig": {"maxOutputTokens": 5, "max_output_tokens": 9}}, 9, 1),
        ({"generationConfig": {"maxOutputTokens": 5}, "generation_config": {"maxOutputTokens": 7}}, 7, 1),
        ({"generationConfig": {"maxOutputTokens": None}}, None, 1),
    ],
)
def test_the_largest_spelling_counts(changes, limit, candidates):
    call = read(**changes)
    assert (call.output_limit, call.choices) == (limit, candidates)


REFUSED = [
    ({"contents": None}, "contents", "missing_required_parameter"),
    ({"contents": "hi"}, "contents", "invalid_type"),
    ({"contents": ["hi"]}, "contents[0]", "invalid_type"),
    (user("hi"), "contents[0].parts[0]", "invalid_type"),
    ({"contents": [{"parts": 5}]}, "contents[0].parts", "invalid_type"),
    ({"generationConfig": []}, "generationConfig", "invalid_type"),
    ({"generationConfig": {"maxOutputTokens": "5"}}, "generationConfig.maxOutputTokens", "invalid_type"),
    ({"generation_config": {"max_output_tokens": 0}}, "generationConfig.max_output_tokens", "invalid_value"),
    ({"generationConfig": {"candidateCount": True}}, "generationConfig.candidateCount", "invalid_type"),
    ({"generation_config": {"candidate_count": 10**30}}, "generationConfig.candidate_count", "invalid_value"),
    ({"systemInstruction": 5}, "systemInstruction", "invalid_type"),
    ({"tools": {}}, "tools", "invalid_type"),
    ({"tools": ["googleSearch"]}, "tools[0]", "invalid_type"),
    ({"tools": [{"google search": {}}]}, "tools[0]", "invalid_value"),
    ({"toolConfig": "ANY"}, "toolConfig", "invalid_type"),
    (
        {"generationConfig": {"responseModalities": ["AUDIO"]}},
        "generationConfig.responseModalities",
        "unsupported_parameter",
    ),
    (
        {"generation_config": {"response_modalities": ["audio"]}},
        "generationConfig.response_modalities",
        "unsupported_parameter",
    ),
    ({"generationConfig": {"responseModalities": [3]}}, "generationConfig.responseModalities", "unsupported_parameter"),
    (
        {"generationConfig": {"responseModalities": ["IMAGE", "AUDIO"]}},
        "generationConfig.responseModalities",
        "unsupported_parameter",
    ),
    ({"serviceTier": 3}, "serviceTier", "invalid_type"),
    ({"generationConfig": {"speechConfig": {}}}, "generationConfig.speechConfig", "unsupported_parameter"),
    ({"generationConfig": {"routing_config": {}}}, "generationConfig.routingConfig", "unsupported_parameter"),
    (user({"inlineData": {"mimeType": "audio/mp3"}}), "contents[0].parts[0].inlineData", "unsupported_parameter"),
    (user({"file_data": {"mime_type": "Audio/wav"}}), "contents[0].parts[0].file_data", "unsupported_parameter"),
]


@pytest.mark.parametrize(("changes", "param", "code"), REFUSED, ids=[str(changes) for changes, _, _ in REFUSED])
def test_a_wrong_shape_is_refused_and_named(changes, param, code):
    with pytest.raises(BadRequest) as caught:
        read(**changes)
    assert (caught.value.param, caught.value.code) == (param, code)


PLAIN = [
    user({"text": "hi"}),
    user({"text": "hm", "thought": True, "thought_signature": "AA"}),
    user({"functionCall": {"name": "f"}}, {"function_response": {"name": "f", "response": {}}}),
    {"contents": [{"parts": {"text": "a lone part"}}]},
    {"contents": []},
    {"contents": [{"role": "user"}]},
    {"systemInstruction": {"parts": [{"text": "be brief"}]}},
    {"system_instruction": "be brief"},
    {"tools": [FUNCTIONS]},
]
OPAQUE = [
    user({"inlineData": {"mimeType": "image/png", "data": "AA"}}),
    user({"inline_data": {"mime_type": "image/png", "data": "AA"}}),
    user({"fileData": {"fileUri": "https://www.youtube.com/watch?v=1"}}),
    user({"text": "hi", "videoMetadata": {}}),
    user({"functionResponse": {"name": "f", "parts": [{"inlineData": {}}]}}),
    user({"functionResponse": 5}),
    user({"toolResponse": {}}),
    user({"ofTomorrow": 1}),
    {"contents": [{"parts": {"inlineData": {}}}]},
    {"systemInstruction": {"parts": [{"inlineData": {}}]}},
]


@pytest.mark.parametrize("changes", PLAIN, ids=str)
def test_text_is_bounded_by_its_bytes(changes):
    assert not read(**changes).opaque_input


@pytest.mark.parametrize("changes", OPAQUE, ids=str)
def test_anything_else_is_opaque(changes):
    call = read(**changes)
    assert call.opaque_input
    assert not call.foreign_param


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"cachedContent": "cachedContents/1"}, "cachedContent"),
        ({"cached_content": "cachedContents/1"}, "cached_content"),
        ({"generationConfig": {"continuationToken": "AA"}}, "generationConfig.continuationToken"),
        (
            user({"fileData": {"fileUri": "https://generativelanguage.googleapis.com/v1beta/files/1"}}),
            "contents[0].parts[0].fileData.fileUri",
        ),
        (user({"file_data": {"file_uri": "gs://bucket/a.png"}}), "contents[0].parts[0].file_data.file_uri"),
        (user({"fileData": {"fileUri": 5}}), "contents[0].parts[0].fileData.fileUri"),
        ({"tools": [{"fileSearch": {"fileSearchStoreNames": ["fileSearchStores/1"]}}]}, "tools[0].fileSearch"),
    ],
    ids=str,
)
def test_files_and_caches_are_foreign(changes, param):
    call = read(**changes)
    assert call.foreign_param == param
    assert call.opaque_input


@pytest.mark.parametrize(
    "changes", [{"cachedContent": 1}, {"cached_content": {}}, {"generationConfig": {"continuationToken": 1}}], ids=str
)
def test_an_id_that_is_none_is_a_400(changes):
    with pytest.raises(BadRequest) as found:
        read(**changes)
    assert found.value.code == "invalid_type"
    assert found.value.param.rpartition(".")[2] in str(changes)


@pytest.mark.parametrize(
    ("tools", "hosted"),
    [
        ([FUNCTIONS, {"computerUse": {}}], ()),
        ([{"googleSearch": {}, **FUNCTIONS}], ("google_search",)),
        ([{"google_search": {}}, {"urlContext": {}}], ("google_search", "url_context")),
        ([{"googleSearchRetrieval": {}}], ("google_search",)),
        ([{"codeExecution": {}, "googleSearch": None}], ("code_execution",)),
        ([{"mcpServers": []}], ("mcp",)),
    ],
)
def test_hosted_tools(tools, hosted):
    assert read(tools=tools).hosted_tools == hosted


@pytest.mark.parametrize(
    ("config", "optional"),
    [
        (None, True),
        ({}, True),
        ({"functionCallingConfig": {}}, True),
        ({"function_calling_config": {"mode": "auto"}}, True),
        ({"functionCallingConfig": {"mode": "ANY"}}, False),
    ],
)
def test_tools_are_optional_where_the_model_chooses(config, optional):
    assert read(toolConfig=config).tools_optional is optional


@pytest.mark.parametrize(
    ("changes", "tier"),
    [
        ({"serviceTier": "SERVICE_TIER_UNSPECIFIED"}, None),
        ({"serviceTier": "standard"}, None),
        ({"service_tier": "PRIORITY"}, "priority"),
        ({"serviceTier": "flex"}, "flex"),
    ],
)
def test_tiers(changes, tier):
    assert read(**changes).tier == tier


# -- upstream ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("m", "models/m"),
        ("tunedModels/mine", "tunedModels/mine"),
        ("models/m", "models/m"),
        ("a b?c#d:e", "models/a%20b%3Fc%23d%3Ae"),
    ],
)
def test_a_stream_is_always_asked_for_as_sse(model, name):
    assert path(read(), model) == f"/v1beta/{name}:streamGenerateContent?alt=sse"
    assert path(read("/v1/models/m:generateContent"), model) == f"/v1beta/{name}:generateContent"


def test_the_upstream_body_is_the_callers_without_a_model():
    extra = {"safetySettings": [], "of_tomorrow": {"a": 1}, "generation_config": {"temperature": 1}}
    assert sent(read(model="models/other", **extra)) == {**ASK, **extra}


def test_every_spelling_above_the_limit_is_lowered():
    call = read(
        generationConfig={"maxOutputTokens": 100, "max_output_tokens": 7, "topK": 1},
        generation_config={"max_output_tokens": 90},
    )
    body = sent(call, output_limit=50)
    assert body["generationConfig"] == {"maxOutputTokens": 50, "max_output_tokens": 7, "topK": 1}
    assert body["generation_config"] == {"max_output_tokens": 50}


def test_no_limit_is_added():
    assert sent(read(generationConfig={"topK": 1}), output_limit=50)["generationConfig"] == {"topK": 1}


def test_dropped_tools():
    call = read(tools=[{"googleSearch": {}, **FUNCTIONS}, {"google_search": {}}], toolConfig={})
    assert sent(call, drop_tools=["google_search"]) == {**ASK, "tools": [FUNCTIONS], "toolConfig": {}}


def test_no_config_is_left_for_no_tools():
    assert sent(read(tools=[{"googleSearch": {}}], tool_config={}), drop_tools=["google_search"]) == ASK


def test_unknown_fields_are_dropped_where_the_channel_says_so():
    body = sent(read(ofTomorrow=1, system_instruction="be brief", toolConfig={}), drop_unknown=True)
    assert body.keys() == {"contents", "system_instruction", "toolConfig"}


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"generationConfig": {"responseModalities": ["IMAGE"]}}, "generationConfig.responseModalities"),
        ({"generationConfig": {"responseModalities": ["TEXT", "image"]}}, "generationConfig.responseModalities"),
        ({"generation_config": {"response_modalities": ["Image"]}}, "generationConfig.response_modalities"),
        ({"generationConfig": {"responseModalities": ["TEXT"]}}, ""),
        ({"generationConfig": {"responseModalities": []}}, ""),
        ({}, ""),
    ],
    ids=str,
)
def test_what_asks_for_images_is_named(changes, param):
    assert read(**changes).image_param == param
