"""Faults of other gateways in what they did to bytes: keep-alives, line ends, cuts inside characters, large events."""

from __future__ import annotations

import json

import pytest
import trio

from tests.contract.test_cells import payloads
from tests.support.harness import BODIES, CHAT_SILENT, gateway, settings
from tests.support.provider import END, SSE_HEAD, Cut, Pause, chunk, plain, sse
from tests.support.streams import CHAT, GEMINI, MESSAGES, RESPONSES, SAMPLES, data, named

each_sample = pytest.mark.parametrize("sample", list(SAMPLES.values()), ids=SAMPLES)


async def relayed(sample, script, **options):
    """What a client gets of `script`, and the record of it."""
    async with gateway(script, **options) as world:
        response = await world.call(sample.kind)
        return response, await world.record(response)


async def test_case_01_a_keepalive_behind_an_id_is_no_empty_event(autojump_clock):
    """The Python SDK dispatches an empty event at a lone comment once it has seen an id."""
    script = sse(b"id: 1\n" + CHAT.events[0], Pause(12), *CHAT.events[1:])
    response, _ = await relayed(CHAT, script)
    assert b"id:" not in response.body
    assert len(response.keepalives) == 1
    assert all(json.loads(each) for each in response.data[:-1])


async def test_case_04_a_keepalive_of_messages_is_a_comment_and_no_forged_ping(autojump_clock):
    script = sse(*MESSAGES.opening, Pause(40), *MESSAGES.events[len(MESSAGES.opening) :])
    response, _ = await relayed(MESSAGES, script)
    assert len(response.keepalives) >= 3
    assert response.data == payloads(*MESSAGES.events)


@each_sample
@pytest.mark.parametrize("contract", ["hopbase", "hoptrio"])
async def test_case_08_a_keepalive_is_body_bytes_and_never_an_interim_response(sample, contract, autojump_clock):
    if (sample.kind, contract) == ("gemini", "hopbase"):
        return  # not offered
    response, _ = await relayed(sample, [Pause(35), *sse(*sample.events)], contract=contract)
    assert response.raw.count(b"HTTP/1.1 ") == 1
    assert b"HTTP/1.1 1" not in response.raw
    assert len(response.pieces) >= 3


@each_sample
async def test_case_10_comments_of_the_provider_never_reach_the_client(sample, autojump_clock):
    noise = b": OPENROUTER PROCESSING\n\n"
    script = sse(noise, *[each for event in sample.events for each in (event, noise, Pause(1))])
    response, record = await relayed(sample, script)
    assert b"OPENROUTER" not in response.body
    assert response.data == payloads(*sample.events)
    assert record.state == "captured"


@each_sample
@pytest.mark.parametrize("end", [b"\r\n", b"\r", b"\n"], ids=["CRLF", "CR", "LF"])
async def test_case_81_and_82_any_line_end_and_any_cut_give_the_same_events(sample, end, autojump_clock):
    whole = b"".join(sample.events).replace(b"\n", end)
    script = [SSE_HEAD, *[chunk(whole[i : i + 1]) for i in range(len(whole))], END]
    response, record = await relayed(sample, script)
    assert response.body == b"".join(sample.events)
    assert record.charge_nanos == sample.charge_nanos


@pytest.mark.parametrize("cut", [1, 2, 3, None])
async def test_case_85_a_byte_order_mark_is_stripped_even_if_it_is_cut(cut, autojump_clock):
    whole = b"\xef\xbb\xbf" + b"".join(CHAT.events)
    pieces = [whole] if cut is None else [whole[:cut], whole[cut:]]
    response, record = await relayed(CHAT, [SSE_HEAD, *map(chunk, pieces), END])
    assert response.data == payloads(*CHAT.events)
    assert record.state == "captured"


async def test_case_80_text_cut_inside_its_characters_arrives_byte_for_byte(autojump_clock):
    event = 'data: {"choices":[{"index":0,"delta":{"content":"你好😀"},"finish_reason":null}]}\n\n'.encode()
    for at in range(1, len(event)):
        script = [
            SSE_HEAD,
            chunk(event[:at]),
            Pause(0.1),
            chunk(event[at:]),
            *map(chunk, CHAT.closing),
            chunk(b"data: [DONE]\n\n"),
            END,
        ]
        response, _ = await relayed(CHAT, script)
        assert response.data[0] == payloads(event)[0]


async def test_case_87_gemini_without_alt_sse_is_one_json_array(autojump_clock):
    async with gateway(sse(*GEMINI.events)) as world:
        response = await world.call("gemini_array")
    assert response.headers["content-type"] == "application/json"
    assert response.json == [json.loads(each) for each in payloads(*GEMINI.events)]


async def test_case_88_an_image_of_six_megabytes_in_one_event_arrives_whole(autojump_clock):
    image = data({"choices": [{"index": 0, "delta": {"content": "A" * 6_000_000}, "finish_reason": None}]})
    pieces = [chunk(image[i : i + 50_000]) for i in range(0, len(image), 50_000)]
    script = [SSE_HEAD, chunk(CHAT.opening[0]), *pieces, *map(chunk, [*CHAT.closing, *CHAT.terminal]), END]
    response, record = await relayed(CHAT, script)
    assert response.data == payloads(*CHAT.opening, image, *CHAT.closing, *CHAT.terminal)
    assert record.state == "captured"


async def test_case_90_azures_first_chunk_is_forwarded_and_is_neither_progress_nor_an_end(autojump_clock):
    azure = data({"choices": [], "id": "", "model": "", "prompt_filter_results": [{"prompt_index": 0}]})
    response, record = await relayed(CHAT, sse(azure, *CHAT.events))
    assert response.data == payloads(azure, *CHAT.events)
    assert record.state == "captured"
    start = trio.current_time()
    response, record = await relayed(CHAT, sse(*[each for _ in range(300) for each in (azure, Pause(1))]))
    assert (record.reason, round(trio.current_time() - start, -1)) == ("stalled", 120)


def tool_delta(index, **function):
    return data(
        {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": index, **function}]}, "finish_reason": None}]}
    )


TOOL_FINISH = data({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})


async def test_case_40_tool_arguments_arrive_byte_for_byte_or_the_stream_fails(autojump_clock):
    deltas = [
        tool_delta(0, id="call_1", type="function", function={"name": "sh", "arguments": ""}),
        *(tool_delta(0, function={"arguments": piece}) for piece in ('{"cmd":', '"rm -r ', "/tmp/é", '"}')),
    ]
    raw = [deltas[0], deltas[1].replace(b"data: ", b"data:"), *deltas[2:]]
    whole = b"".join([*raw, TOOL_FINISH, CHAT.closing[1], *CHAT.terminal])
    inside = whole.index(b"\\u00e9") + 2
    response, record = await relayed(CHAT, [SSE_HEAD, chunk(whole[:inside]), chunk(whole[inside:]), END])
    assert response.data[: len(deltas)] == payloads(*deltas)
    assert (record.state, response.clean) == ("captured", True)
    cut = b"".join(raw)[:-5]
    response, record = await relayed(CHAT, [SSE_HEAD, chunk(cut), END])
    assert (record.state, response.clean) == ("released", False)
    assert response.data[:-1] == payloads(*deltas[:-1])
    assert "error" in json.loads(response.data[-1])


async def test_case_91_interleaved_calls_without_ids_and_indexes_are_relayed_as_they_came(autojump_clock):
    calls = [
        tool_delta(0, id="a", function={"name": "f", "arguments": "{"}),
        tool_delta(1, id="b", function={"name": "g", "arguments": "["}),
        data({"choices": [{"index": 0, "delta": {"tool_calls": [{"function": {"arguments": "}"}}]}}]}),
        tool_delta(1, function={"arguments": "]"}),
    ]
    events = [*calls, TOOL_FINISH, CHAT.closing[1], *CHAT.terminal]
    response, record = await relayed(CHAT, sse(*events))
    assert response.data == payloads(*events)
    assert record.state == "captured"


@pytest.mark.parametrize("sample", [RESPONSES, MESSAGES], ids=["responses", "messages"])
async def test_case_92_a_type_with_a_line_end_cannot_forge_an_event(sample, autojump_clock):
    forged = data({"type": "x\ndata: {}\n\nevent: forged"})
    response, _ = await relayed(sample, sse(*sample.opening, forged, *sample.events[len(sample.opening) :]))
    assert b"\nevent: forged" not in response.body
    assert payloads(forged)[0] in response.data


@each_sample
async def test_case_34_a_page_of_html_with_200_is_a_502_and_never_relayed(sample, autojump_clock):
    page = b"<!doctype html><html>Just a moment...</html>"
    for content_type in (b"text/html", b"text/event-stream", b"application/json"):
        response, record = await relayed(sample, plain(200, page, content_type))
        assert response.status == 502
        assert b"moment" not in response.body
        assert (record.state, record.charge_nanos) == ("released", 0)


async def test_case_35_an_anthropic_error_without_its_name_is_a_failure_and_gets_its_name(autojump_clock):
    bare = data({"type": "error", "error": {"type": "overloaded_error", "message": "boom"}})
    response, record = await relayed(MESSAGES, sse(*MESSAGES.opening, *MESSAGES.answer, bare))
    assert response.blocks[-1] == named(json.loads(payloads(bare)[0])).strip()
    assert (record.state, record.reason, response.clean) == ("released", "provider_error", False)
    assert b"message_stop" not in response.body


@each_sample
async def test_case_37_a_provider_that_dies_is_asked_once_and_nothing_is_said_twice(sample, autojump_clock):
    first = sample.opening or sample.answer[:1]
    async with gateway(sse(*first, Cut(), end=False)) as world:
        response = await world.call(sample.kind)
        await trio.sleep(30)
        assert len(world.provider.seen) == 1
        assert len(response.data) == len(set(response.data))


@each_sample
async def test_case_97_a_stream_says_that_nobody_may_buffer_or_change_it(sample, autojump_clock):
    async with gateway(sse(*sample.events)) as world:
        for kind in [sample.kind, *(["gemini_array"] if sample is GEMINI else [])]:
            response = await world.call(kind)
            assert response.headers["x-accel-buffering"] == "no"
            assert response.headers["cache-control"] == "no-cache, no-transform"
            expected = "application/json" if kind == "gemini_array" else "text/event-stream; charset=utf-8"
            assert response.headers["content-type"] == expected


async def test_case_65_a_plain_call_gets_no_stream_options(autojump_clock):
    async with gateway(plain(200, json.dumps(CHAT.body).encode())) as world:
        await world.call("chat", {**CHAT_SILENT, "stream": False})
        assert "stream_options" not in json.loads(world.provider.seen[0].body)


async def test_case_65_a_channel_that_refuses_stream_options_gets_none_and_is_still_settled(autojump_clock):
    config = settings()
    config["channels"]["one"]["include_usage"] = "never"
    async with gateway(sse(*CHAT.events), config=config) as world:
        response = await world.call("chat", BODIES["chat"])
        assert "stream_options" not in json.loads(world.provider.seen[0].body)
        assert response.data == payloads(*CHAT.events)
        assert (await world.record(response)).charge_nanos == CHAT.charge_nanos


async def test_usage_that_a_provider_gives_unasked_is_withheld_from_a_client_that_did_not_ask(autojump_clock):
    config = settings()
    config["channels"]["one"]["include_usage"] = "never"
    async with gateway(sse(*CHAT.events), config=config) as world:
        response = await world.call("chat", CHAT_SILENT)
        assert response.data == payloads(*CHAT.opening, *CHAT.answer, CHAT.closing[0], *CHAT.terminal)
        assert (await world.record(response)).charge_nanos == CHAT.charge_nanos
