"""The contract page's section "The hold", each sentence end to end: what is frozen, refused, lowered, dropped."""

from __future__ import annotations

import json

import pytest
import trio

from hoptrio.config import build
from tests.support.harness import (
    BODIES,
    CHAT_SILENT,
    GEMINI,
    MESSAGES,
    PATHS,
    PRICES,
    RESPONSES,
    channels,
    gateway,
    settings,
)
from tests.support.provider import Pause, plain, sse
from tests.support.raw import POST_PATHS, assert_nothing_held, assert_shape, post
from tests.support.streams import CHAT, SAMPLES

PLAIN = {
    "chat": {**CHAT_SILENT, "stream": False},
    "responses": {**RESPONSES, "stream": False},
    "messages": {**MESSAGES, "stream": False},
    "gemini": GEMINI,
}
#: Tokens added to the bytes of a body.
MARGIN = 64
IMAGE = "data:image/png;base64,AAAA"


async def held(kind, changes, *, prices=None, sample=None):
    """(the hold in billionths, the body that was sent upstream) of one call."""
    config = settings(models={"m": PRICES | (prices or {})})
    async with gateway(plain(200, json.dumps(SAMPLES[kind].body).encode()), config=config) as world:
        response = await post(world, kind, {**PLAIN[kind], **changes})
        assert response.status == 200, response.body
        record = await world.record(response)
        assert record.charge_nanos <= record.hold_nanos
        return record.hold_nanos, world.provider.seen[0].body


# -- the bound of the input --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", list(PLAIN))
async def test_plain_text_is_held_for_by_the_bytes_that_go_upstream(kind, autojump_clock):
    text = "é😀" * 20
    changes = {
        "chat": {"messages": [{"role": "user", "content": text}]},
        "responses": {"input": text},
        "messages": {"messages": [{"role": "user", "content": text}]},
        "gemini": {"contents": [{"parts": [{"text": text}]}]},
    }[kind]
    hold, sent = await held(kind, changes)
    output = 50 if kind == "messages" else 100
    assert hold == (len(sent) + MARGIN) * 1000 + output * 2000
    assert len(sent) > 120


OPAQUE = {
    "image": (
        "chat",
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": IMAGE}}]}]},
    ),
    "file": ("chat", {"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_data": "AAAA"}}]}]}),
    "input image": (
        "responses",
        {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": IMAGE}]}]},
    ),
    "image block": (
        "messages",
        {"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "https://x"}}]}]},
    ),
    "document": (
        "messages",
        {"messages": [{"role": "user", "content": [{"type": "document", "source": {"type": "base64", "data": "AA"}}]}]},
    ),
    "inline data": ("gemini", {"contents": [{"parts": [{"inlineData": {"mimeType": "image/png", "data": "AA"}}]}]}),
}


@pytest.mark.parametrize("name", OPAQUE)
async def test_what_is_not_plain_text_is_held_for_by_the_models_maximum(name, autojump_clock):
    kind, changes = OPAQUE[name]
    hold, _ = await held(kind, changes)
    assert hold == 1000 * 1000 + (50 if kind == "messages" else 100) * 2000


async def test_no_text_is_held_for_beyond_the_models_maximum(autojump_clock):
    hold, _ = await held("chat", {"messages": [{"role": "user", "content": "x" * 5000}]})
    assert hold == 1000 * 1000 + 100 * 2000


async def test_an_own_earlier_answer_is_held_for_by_the_models_maximum(autojump_clock):
    async with gateway(plain(200, json.dumps(SAMPLES["responses"].body).encode())) as world:
        await post(world, "responses", PLAIN["responses"])
        response = await post(world, "responses", {**PLAIN["responses"], "previous_response_id": "resp_1"})
        assert (await world.record(response)).hold_nanos == 1000 * 1000 + 100 * 2000


@pytest.mark.parametrize(("prices", "dearest"), [({"cache_write": "3"}, 3000), ({"cached_input": "5"}, 5000)])
async def test_the_dearest_input_price_that_a_request_can_meet_is_held_for(prices, dearest, autojump_clock):
    hold, sent = await held("chat", {}, prices=prices)
    assert hold == (len(sent) + MARGIN) * dearest + 100 * 2000


async def test_a_cache_entry_of_an_hour_is_held_for_at_its_own_price(autojump_clock):
    hour = [
        {
            "role": "user",
            "content": [{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
        }
    ]
    hold, sent = await held("messages", {"messages": hour}, prices={"cache_write_1h": "9"})
    assert hold == (len(sent) + MARGIN) * 9000 + 50 * 2000


# -- the bound of the output -------------------------------------------------------------------------------------------

OUTPUTS = [
    ("chat", {}, 100),
    ("chat", {"max_tokens": 7}, 7),
    ("chat", {"max_tokens": 7, "max_completion_tokens": 9}, 9),
    ("chat", {"max_tokens": 10**12}, 100),
    ("chat", {"max_tokens": 10**30}, 100),
    ("responses", {"max_output_tokens": 10**30}, 100),
    ("gemini", {"generationConfig": {"maxOutputTokens": 10**30}}, 100),
    ("chat", {"max_tokens": 7, "n": 3}, 21),
    ("chat", {"n": 3}, 300),
    ("responses", {"max_output_tokens": 7}, 7),
    ("messages", {"max_tokens": 7}, 7),
    ("messages", {"max_tokens": 10**12}, 100),
    ("gemini", {"generationConfig": {"maxOutputTokens": 7, "candidateCount": 2}}, 14),
    ("gemini", {"generation_config": {"max_output_tokens": 7}, "generationConfig": {"maxOutputTokens": 9}}, 9),
]


@pytest.mark.parametrize(("kind", "changes", "bound"), OUTPUTS)
async def test_the_largest_limit_is_held_for_lowered_to_the_models_times_the_choices(
    kind, changes, bound, autojump_clock
):
    """Case 70."""
    hold, sent = await held(kind, changes)
    assert hold == (len(sent) + MARGIN) * 1000 + bound * 2000
    assert b"1000000000000" not in sent


# -- amounts -----------------------------------------------------------------------------------------------------------


async def test_a_charge_is_rounded_up_once_and_a_suppliers_share_down(autojump_clock):
    """Five tokens of 0.0003 a million and seven of 0.0001: 2.2 billionths."""
    config = settings(models={"m": PRICES | {"input": "0.0003", "output": "0.0001"}})
    config["channels"]["one"] |= {"supplier": "owner", "revenue_share": "0.5"}
    async with gateway(sse(*CHAT.events), config=config) as world:
        record = await world.record(await world.call("chat"))
        report = await world.ledger.audit()
        owner = await world.ledger.account("owner")
    assert record.charge_nanos == 3
    assert (report.ok, report.supplier_nanos, report.platform_nanos, owner.balance_nanos) == (True, 1, 2, 1)


async def test_no_evidence_is_no_revenue(autojump_clock):
    config = settings()
    config["channels"]["one"] |= {"supplier": "owner", "revenue_share": "0.5"}
    async with gateway(sse(*CHAT.opening, *CHAT.answer, CHAT.closing[0], *CHAT.terminal), config=config) as world:
        await world.call("chat")
        report = await world.ledger.audit()
    assert (report.ok, report.supplier_nanos, report.captured_nanos) == (True, 0, 0)


# -- what changes the price --------------------------------------------------------------------------------------------

UNSOLD = [
    ("chat", {"service_tier": "priority"}, "service_tier"),
    ("chat", {"service_tier": "flex"}, "service_tier"),
    ("chat", {"speed": "fast"}, "speed"),
    ("chat", {"audio": {"voice": "x"}}, "audio"),
    ("chat", {"modalities": ["text", "audio"]}, "modalities"),
    ("chat", {"models": ["a", "b"]}, "models"),
    ("chat", {"background": True}, "background"),
    ("messages", {"background": True}, "background"),
    ("responses", {"service_tier": "priority"}, "service_tier"),
    ("responses", {"background": True}, "background"),
    ("responses", {"models": ["a"]}, "models"),
    ("messages", {"speed": "fast"}, "speed"),
    ("messages", {"fallbacks": [{"model": "x"}]}, "fallbacks"),
    ("messages", {"inference_geo": "us"}, "inference_geo"),
    ("gemini", {"serviceTier": "priority"}, "serviceTier"),
    ("gemini", {"generationConfig": {"speechConfig": {}}}, "generationConfig.speechConfig"),
    ("gemini", {"generationConfig": {"responseModalities": ["AUDIO"]}}, "generationConfig.responseModalities"),
    ("gemini", {"generationConfig": {"responseModalities": ["IMAGE"]}}, "generationConfig.responseModalities"),
    ("gemini", {"generationConfig": {"responseModalities": ["TEXT", "image"]}}, "generationConfig.responseModalities"),
    ("gemini", {"generation_config": {"response_modalities": ["Image"]}}, "generationConfig.response_modalities"),
]


@pytest.mark.parametrize(("kind", "changes", "param"), UNSOLD)
async def test_a_field_that_changes_the_price_is_refused_unless_it_is_priced(kind, changes, param, autojump_clock):
    async with gateway(plain(200, b"{}")) as world:
        response = await post(world, kind, {**PLAIN[kind], **changes})
        assert_shape(response, kind, 400, "unsupported_parameter")
        assert f"'{param}'" in response.json["error"]["message"]
        assert not world.provider.seen
        await assert_nothing_held(world)


@pytest.mark.parametrize(
    "lines",
    [
        {"anthropic-beta": "tools-1,context-1m-2025-08-07"},
        {"anthropic-beta": "CONTEXT-1M-2025-08-07"},
        {"anthropic-beta": "tools-1 ,\t Context-1m-2025-08-07 "},
        {"anthropic-beta": "tools-1", "Anthropic-Beta": "context-1M-2025-08-07"},
    ],
    ids=str,
)
async def test_a_beta_of_long_context_is_refused(lines, autojump_clock):
    async with gateway(plain(200, b"{}")) as world:
        response = await post(world, "messages", PLAIN["messages"], headers=lines)
        assert_shape(response, "messages", 400, "unsupported_parameter")
        assert not world.provider.seen
        await assert_nothing_held(world)


@pytest.mark.parametrize("protocol", ["gemini", "responses"])
async def test_images_in_an_answer_are_refused_on_any_channel(protocol, autojump_clock):
    config = channels("one", protocols=[protocol])
    async with gateway(plain(200, b"{}"), config=config) as world:
        asked = {**GEMINI, "generationConfig": {"responseModalities": ["TEXT", "IMAGE"]}}
        for path in (PATHS["gemini"], PATHS["gemini_array"], POST_PATHS["gemini"]):
            response = await world.call("gemini", asked, path=path)
            assert_shape(response, "gemini", 400, "unsupported_parameter")
        assert not world.provider.seen
        await assert_nothing_held(world)


async def test_images_in_an_answer_are_held_for_and_charged_where_they_have_a_price(autojump_clock):
    picture = {"inlineData": {"mimeType": "image/png", "data": "QUJD"}}
    body = {**SAMPLES["gemini"].body, "candidates": [{"content": {"parts": [picture]}, "finishReason": "STOP"}]}
    config = settings(models={"m": PRICES | {"image": "0.04", "makes": "text"}})
    asked = {**GEMINI, "generationConfig": {"responseModalities": ["TEXT", "IMAGE"]}}
    image_nanos = 40_000_000
    async with gateway(plain(200, json.dumps(body).encode()), config=config) as world:
        response = await post(world, "gemini", asked)
        record = await world.record(response)
        sent = world.provider.seen[0].body
    assert response.status == 200
    assert record.hold_nanos == (len(sent) + MARGIN) * 1000 + 100 * 2000 + image_nanos
    assert record.charge_nanos == SAMPLES["gemini"].charge_nanos + image_nanos
    assert record.flags == ()


STANDARD = [
    ("chat", {"service_tier": "default"}),
    ("chat", {"service_tier": "auto"}),
    ("chat", {"speed": "standard"}),
    ("responses", {"service_tier": "default", "background": False}),
    ("messages", {"service_tier": "standard_only"}),
    ("gemini", {"serviceTier": "standard"}),
]


@pytest.mark.parametrize(("kind", "changes"), STANDARD)
async def test_values_that_select_the_standard_price_pass(kind, changes, autojump_clock):
    _, sent = await held(kind, changes)
    assert changes.items() <= json.loads(sent).items()


TIERED = settings(models={"m": PRICES | {"tiers": {"priority": {"input": "10", "output": "20"}}}})


@pytest.mark.parametrize(("reported", "charge"), [("priority", 190_000), ("default", 19_000), (None, 19_000)])
async def test_the_tier_that_is_reported_back_sets_the_price(reported, charge, autojump_clock):
    body = {**CHAT.body, **({"service_tier": reported} if reported else {})}
    async with gateway(plain(200, json.dumps(body).encode()), config=TIERED) as world:
        response = await post(world, "chat", {**PLAIN["chat"], "service_tier": "priority"})
        record = await world.record(response)
        sent = len(world.provider.seen[0].body)
    assert record.hold_nanos == (sent + MARGIN) * 10_000 + 100 * 20_000
    assert record.charge_nanos == charge


# -- hosted tools, unknown fields --------------------------------------------------------------------------------------

SEARCH = {
    "chat": {"web_search_options": {}},
    "responses": {"tools": [{"type": "web_search"}]},
    "messages": {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
    "gemini": {"tools": [{"googleSearch": {}}]},
}
FORCED = {
    "chat": {"tool_choice": "required"},
    "responses": {"tool_choice": "required"},
    "messages": {"tool_choice": {"type": "any"}},
    "gemini": {"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}},
}


@pytest.mark.parametrize("kind", list(SEARCH))
async def test_a_hosted_tool_without_a_price_is_dropped_and_a_header_says_so(kind, autojump_clock):
    async with gateway(plain(200, json.dumps(SAMPLES[kind].body).encode())) as world:
        response = await post(world, kind, {**PLAIN[kind], **SEARCH[kind]})
        assert response.status == 200
        assert "search" in response.headers["x-hoptrio-dropped-tools"]
        assert b"earch" not in world.provider.seen[0].body


@pytest.mark.parametrize("kind", list(SEARCH))
async def test_a_stream_says_so_too(kind, autojump_clock):
    async with gateway(sse(*SAMPLES[kind].events)) as world:
        response = await world.call(kind, {**BODIES[kind], **SEARCH[kind]}, path=PATHS[kind])
        assert "search" in response.headers["x-hoptrio-dropped-tools"]


@pytest.mark.parametrize("kind", list(SEARCH))
async def test_a_hosted_tool_without_a_price_that_must_be_called_is_refused(kind, autojump_clock):
    async with gateway(plain(200, b"{}")) as world:
        response = await post(world, kind, {**PLAIN[kind], **SEARCH[kind], **FORCED[kind]})
        assert_shape(response, kind, 400, "unsupported_parameter")
        await assert_nothing_held(world)


async def test_a_priced_hosted_tool_is_held_for_by_its_calls_and_charged_by_those_made(autojump_clock):
    config = settings(models={"m": PRICES | {"tools": {"web_search": "0.01"}}})
    body = {**SAMPLES["responses"].body}
    body["output"] = [{"type": "web_search_call", "id": "ws_1", "status": "completed"}, *body["output"]]
    async with gateway(plain(200, json.dumps(body).encode()), config=config) as world:
        request = {**PLAIN["responses"], **SEARCH["responses"], "max_tool_calls": 3}
        response = await post(world, "responses", request)
        record = await world.record(response)
        assert "x-hoptrio-dropped-tools" not in response.headers
    assert record.hold_nanos == 1000 * 1000 + 100 * 2000 + 3 * 10**7
    assert record.charge_nanos == 19_000 + 10**7


@pytest.mark.parametrize("kind", list(PLAIN))
async def test_unknown_fields_are_dropped_where_the_channel_says_so(kind, autojump_clock):
    config = settings()
    config["channels"]["one"]["unknown_fields"] = "drop"
    async with gateway(plain(200, json.dumps(SAMPLES[kind].body).encode()), config=config) as world:
        assert (await post(world, kind, {**PLAIN[kind], "my_own": 1})).status == 200
        assert "my_own" not in json.loads(world.provider.seen[0].body)


@pytest.mark.parametrize("kind", list(PLAIN))
async def test_a_hold_comes_before_the_first_byte_goes_upstream(kind, autojump_clock, monkeypatch):
    async with gateway(plain(200, json.dumps(SAMPLES[kind].body).encode())) as world:
        place, seen = world.ledger.place, []

        async def watched(hold):
            seen.append(len(world.provider.seen))
            return await place(hold)

        monkeypatch.setattr(world.ledger, "place", watched)
        assert (await post(world, kind, PLAIN[kind], target=POST_PATHS[kind])).status == 200
        assert (seen, len(world.provider.seen)) == ([0], 1)


async def test_prices_are_those_of_the_hold_though_the_config_changes_meanwhile(autojump_clock):
    dearer = build(settings(models={"m": PRICES | {"input": "100", "output": "200"}}))
    async with gateway(sse(CHAT.events[0], Pause(5), *CHAT.events[1:])) as world:
        client = await world.start("chat")
        await trio.sleep(1)
        world.gateway.catalogue = dearer.catalogue
        assert (await world.record(await client.read())).charge_nanos == CHAT.charge_nanos
