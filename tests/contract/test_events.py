"""The contract page's "Exceptions to 6", "Evidence per protocol" and "Error events", each sentence end to end."""

from __future__ import annotations

import json

import pytest
import trio

from tests.contract.test_cells import payloads
from tests.support.harness import CHAT_SILENT, gateway, settings
from tests.support.provider import Cut, Hang, Pause, plain, sse
from tests.support.streams import CHAT, GEMINI, MESSAGES, RESPONSES, SAMPLES, data, named

each_sample = pytest.mark.parametrize("sample", list(SAMPLES.values()), ids=SAMPLES)
EVENT = settings(contracts={"mixed": {"preset": "hoptrio", "failure": "event"}})


async def played(sample, events, body=None, **options):
    """What a client saw of a provider that sent `events`, and the record of it."""
    async with gateway(sse(*events), **options) as world:
        response = await world.call(sample.kind, body)
        return response, await world.record(response)


def value_of(event):
    """The JSON of an event."""
    return json.loads(event.split(b"data: ", 1)[1])


def retold(event, **changes):
    """The event with members of its object replaced."""
    head, _, rest = event.partition(b"data: ")
    return head + data({**json.loads(rest), **changes})


# -- exceptions to "events are not touched" ----------------------------------------------------------------------------


@each_sample
async def test_a_ids_retries_and_comments_are_not_forwarded(sample, autojump_clock):
    """Cases 1 and 10."""
    dressed = [b": OPENROUTER PROCESSING\n\nid: %d\nretry: 10\n" % i + event for i, event in enumerate(sample.events)]
    response, record = await played(sample, dressed)
    assert response.data == payloads(*sample.events)
    assert record.state == "captured"
    lines = response.body.split(b"\n")
    assert not any(line.startswith((b"id", b"retry", b":")) for line in lines)
    assert b"OPENROUTER" not in response.body


@pytest.mark.parametrize("sample", [CHAT, GEMINI], ids=["chat", "gemini"])
async def test_b_chat_and_gemini_events_never_carry_a_name(sample, autojump_clock):
    response, _ = await played(sample, [b"event: delta\n" + event for event in sample.events])
    assert b"event:" not in response.body
    assert response.data == payloads(*sample.events)


@pytest.mark.parametrize("sample", [RESPONSES, MESSAGES], ids=["responses", "messages"])
@pytest.mark.parametrize("name", [b"", b"event: wrong\n"], ids=["left out", "wrong"])
async def test_b_responses_and_messages_events_always_carry_their_type(sample, name, autojump_clock):
    events = [name + b"data: " + event.split(b"data: ", 1)[1] for event in sample.events]
    response, record = await played(sample, events)
    assert response.body == b"".join(sample.events)
    assert record.state == "captured"


@pytest.mark.parametrize("sample", [RESPONSES, MESSAGES, GEMINI], ids=lambda sample: sample.kind)
async def test_c_done_is_dropped_where_it_does_not_belong(sample, autojump_clock):
    response, record = await played(sample, [sample.events[0], CHAT.terminal[0], *sample.events[1:], CHAT.terminal[0]])
    assert response.data == payloads(*sample.events)
    assert (record.state, response.clean) == ("captured", True)


async def test_case_24_c_done_is_supplied_where_a_complete_chat_stream_lacks_it(autojump_clock):
    response, record = await played(CHAT, CHAT.events[:-1])
    assert response.data == payloads(*CHAT.events)
    assert (record.state, record.evidence, response.clean) == ("captured", "sse_terminal", True)


async def test_d_usage_that_was_not_asked_for_is_cut_from_every_chunk_and_nothing_else_is(autojump_clock):
    usage = b'"usage":{"prompt_tokens":5,"completion_tokens":7,"total_tokens":12}'
    head = b'data: {"id": "c",  "choices":[{"index":0,"delta":{"content":"\\u00e9 \\"usage\\" "},"finish_reason":'
    running = head + b"null}] , " + usage + b', "x_groq":{"usage":{"queue_time":1}} }\n\n'
    finish = head + b'"stop"}],"usage":null}\n\n'
    last = b'data: {"choices":[],' + usage + b"}\n\n"
    response, record = await played(CHAT, [running, finish, last, CHAT.terminal[0]], CHAT_SILENT)
    shown = [running.replace(b", " + usage, b""), finish.replace(b',"usage":null', b""), CHAT.terminal[0]]
    assert response.data == payloads(*shown)
    assert record.charge_nanos == 19_000


async def test_d_a_vendor_member_is_no_evidence(autojump_clock):
    groq = retold(CHAT.closing[0], x_groq={"usage": {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}})
    response, record = await played(CHAT, [*CHAT.opening, *CHAT.answer, groq, *CHAT.terminal])
    assert (record.state, record.reason) == ("released", "no_evidence")
    assert payloads(groq)[0] in response.data


async def test_case_60_usage_comes_where_the_provider_put_it(autojump_clock):
    """On the finish chunk, with choices: found, and left there."""
    finish = retold(CHAT.closing[0], usage={"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12})
    events = [*CHAT.opening, *CHAT.answer, finish, *CHAT.terminal]
    response, record = await played(CHAT, events)
    assert response.data == payloads(*events)
    assert record.charge_nanos == 19_000


# -- evidence: chat ----------------------------------------------------------------------------------------------------


def chat_usage(prompt, completion, total, **more):
    return data(
        {
            "choices": [],
            "usage": {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total} | more,
        }
    )


START = [*CHAT.opening, *CHAT.answer, CHAT.closing[0]]


@pytest.mark.parametrize(
    ("usages", "charge"),
    [
        ([(5, 7, 12), (5, 8, 13)], 21_000),
        ([(5, 7, 12), (0, 0, 0)], 19_000),
        ([(5, 7, 12), (-1, 7, 6)], 19_000),
        ([(0, 0, 0), (5, 7, 12)], 19_000),
        ([(0, 0, 0)], 0),
    ],
    ids=["last", "zero behind one that counts", "invalid behind a valid one", "zero before", "zero alone"],
)
async def test_case_52_chat_takes_the_last_valid_usage_above_zero_once(usages, charge, autojump_clock):
    _, record = await played(CHAT, [*START, *(chat_usage(*each) for each in usages), *CHAT.terminal])
    assert (record.state, record.charge_nanos) == ("captured", charge)


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": -5, "completion_tokens": 7, "total_tokens": 2},
        {"prompt_tokens": 5.5, "completion_tokens": 7, "total_tokens": 12},
        {"prompt_tokens": "5", "completion_tokens": "7", "total_tokens": "12"},
        {"prompt_tokens": 2**63, "completion_tokens": 7, "total_tokens": 2**63 + 7},
        {"prompt_tokens": None, "completion_tokens": 7, "total_tokens": 7},
        {"total_tokens": 12},
        {},
    ],
    ids=["negative", "float", "string", "2 to the 63rd", "null", "total alone", "empty"],
)
async def test_case_67_what_is_no_count_is_no_evidence(usage, autojump_clock):
    async with gateway(sse(*START, data({"choices": [], "usage": usage}), *CHAT.terminal)) as world:
        record = await world.record(await world.call("chat"))
        assert (record.state, record.reason, record.charge_nanos) == ("released", "no_evidence", 0)
        assert (await world.ledger.audit()).balance_nanos == 1000 * 10**9


async def test_chat_with_done_needs_no_finish_reason(autojump_clock):
    _, record = await played(CHAT, [*CHAT.opening, *CHAT.answer, CHAT.closing[1], *CHAT.terminal])
    assert record.state == "captured"


TWO = [data({"choices": [{"index": i, "delta": {"content": "x"}, "finish_reason": None}]}) for i in range(2)]


def finished(index):
    return data({"choices": [{"index": index, "delta": {}, "finish_reason": "stop"}]})


async def test_chat_without_done_needs_a_finish_reason_on_every_choice(autojump_clock):
    _, half = await played(CHAT, [*TWO, finished(0), chat_usage(5, 7, 12)])
    _, whole = await played(CHAT, [*TWO, finished(0), finished(1), chat_usage(5, 7, 12)])
    assert (half.state, half.reason, whole.state) == ("released", "truncated", "captured")


async def test_case_25_chat_without_done_needs_a_clean_end(autojump_clock):
    async with gateway(sse(*CHAT.events[:-1], Cut(), end=False)) as world:
        response = await world.call("chat")
        record = await world.record(response)
    assert (record.state, record.reason, response.clean) == ("released", "truncated", False)


async def test_case_27_chat_is_never_complete_after_an_error(autojump_clock):
    response, record = await played(CHAT, [*CHAT.opening, *CHAT.answer, CHAT.error, *CHAT.closing, *CHAT.terminal])
    assert (record.state, record.reason) == ("released", "provider_error")
    assert response.data == payloads(*CHAT.opening, *CHAT.answer, CHAT.error)


# -- evidence: responses, messages -------------------------------------------------------------------------------------


async def test_case_55_an_incomplete_response_is_evidence_too(autojump_clock):
    response = {**value_of(RESPONSES.terminal[0])["response"], "status": "incomplete"}
    response["incomplete_details"] = {"reason": "max_output_tokens"}
    incomplete = named({"type": "response.incomplete", "sequence_number": 9, "response": response})
    seen, record = await played(RESPONSES, [*RESPONSES.events[:-1], incomplete])
    assert (record.state, record.charge_nanos, seen.clean) == ("captured", RESPONSES.charge_nanos, True)
    assert seen.data[-1:] == payloads(incomplete)


async def test_case_47_responses_without_a_terminal_are_released_however_much_usage_came(autojump_clock):
    running = retold(
        RESPONSES.opening[1], response={**value_of(RESPONSES.terminal[0])["response"], "status": "in_progress"}
    )
    seen, record = await played(RESPONSES, [RESPONSES.opening[0], running, *RESPONSES.answer, *RESPONSES.closing])
    assert (record.state, record.reason, seen.clean) == ("released", "truncated", False)


async def test_case_57_messages_usage_is_set_and_never_added(autojump_clock):
    start = value_of(MESSAGES.opening[0])
    start["message"]["usage"] = {"input_tokens": 9, "cache_read_input_tokens": 1, "output_tokens": 1}
    usage = {"input_tokens": 9, "cache_read_input_tokens": 1, "output_tokens": 7}
    delta = retold(MESSAGES.closing[1], usage=usage)
    events = [named(start), *MESSAGES.answer, MESSAGES.closing[0], delta, *MESSAGES.terminal]
    _, record = await played(MESSAGES, events)
    used = json.loads(record.usage)
    assert (used["input_tokens"], used["cached_input_tokens"], used["output_tokens"]) == (9, 1, 7)
    assert record.charge_nanos == 9_000 + 1_000 + 14_000


async def test_case_54_messages_output_comes_only_from_a_message_delta(autojump_clock):
    """The placeholder of message_start, and a stream that has everything but the delta's usage."""
    delta = named({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}})
    events = [*MESSAGES.opening, *MESSAGES.answer, MESSAGES.closing[0], delta, *MESSAGES.terminal]
    response, record = await played(MESSAGES, events)
    assert (record.state, record.reason, response.clean) == ("released", "no_evidence", True)


async def test_messages_need_a_stop_reason_and_then_message_stop(autojump_clock):
    no_reason = retold(MESSAGES.closing[1], delta={"stop_reason": None})
    _, without_reason = await played(MESSAGES, [*MESSAGES.events[:-2], no_reason, *MESSAGES.terminal])
    _, without_stop = await played(MESSAGES, MESSAGES.events[:-1])
    assert without_reason.state == without_stop.state == "released"


# -- evidence: gemini --------------------------------------------------------------------------------------------------


def gemini(text="", finish=None, usage=None, index=0):
    candidate = {"content": {"role": "model", "parts": [{"text": text}]}, "index": index}
    value = {"candidates": [candidate | ({"finishReason": finish} if finish else {})]}
    return data(value | ({"usageMetadata": usage} if usage is not None else {}))


async def test_case_64_gemini_counts_candidates_and_thoughts_and_tool_prompts(autojump_clock):
    usage = {"promptTokenCount": 41, "candidatesTokenCount": 5, "thoughtsTokenCount": 9, "toolUsePromptTokenCount": 3}
    _, record = await played(GEMINI, [gemini("x", "STOP", usage | {"totalTokenCount": 58})])
    used = json.loads(record.usage)
    assert (used["input_tokens"], used["output_tokens"], used["reasoning_tokens"]) == (44, 14, 9)
    assert record.charge_nanos == 44_000 + 28_000


async def test_gemini_takes_the_last_of_its_cumulative_counts(autojump_clock):
    first = {"promptTokenCount": 5, "candidatesTokenCount": 2, "totalTokenCount": 7}
    last = {"promptTokenCount": 5, "candidatesTokenCount": 7, "totalTokenCount": 12}
    _, record = await played(GEMINI, [gemini("x", usage=first), gemini("y", usage=first), gemini("", "STOP", last)])
    assert record.charge_nanos == 19_000


@pytest.mark.parametrize(
    ("usage", "state"), [({"promptTokenCount": 5}, "captured"), ({"candidatesTokenCount": 7}, "released")]
)
async def test_gemini_needs_the_prompts_count_and_takes_other_absent_ones_for_zero(usage, state, autojump_clock):
    _, record = await played(GEMINI, [gemini("x", "STOP", usage)])
    assert record.state == state


async def test_gemini_needs_a_finish_reason_on_every_candidate(autojump_clock):
    usage = {"promptTokenCount": 5, "candidatesTokenCount": 7, "totalTokenCount": 12}
    half = [gemini("x"), gemini("y", index=1), gemini("", "STOP", usage)]
    response, record = await played(GEMINI, half)
    assert (record.state, record.reason, response.clean) == ("released", "truncated", False)
    _, whole = await played(GEMINI, [*half, gemini("", "STOP", usage, index=1)])
    assert whole.state == "captured"


async def test_a_blocked_gemini_prompt_is_a_complete_answer(autojump_clock):
    blocked = data({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 5}})
    response, record = await played(GEMINI, [blocked])
    assert (response.status, response.clean, response.data) == (200, True, payloads(blocked))
    assert (record.state, record.charge_nanos) == ("captured", 5_000)


async def test_a_gemini_error_outside_data_is_an_error(autojump_clock):
    stray = b'{"error": {"code": 503,\n "message": "boom", "status": "UNAVAILABLE"}}\n\n'
    response, record = await played(GEMINI, [*GEMINI.answer, stray])
    assert (record.state, record.reason, response.clean) == ("released", "provider_error", False)
    assert json.loads(response.data[-1])["error"]["code"] == 503


async def test_the_arrays_bracket_is_held_back_until_the_settlement(autojump_clock, monkeypatch):
    async with gateway(sse(*GEMINI.events)) as world:
        settle = world.ledger.settle

        async def slow(resolution):
            await trio.sleep(2)
            return await settle(resolution)

        monkeypatch.setattr(world.ledger, "settle", slow)
        start = trio.current_time()
        response = await world.call("gemini_array")
    late = b"".join(piece for at, piece in response.pieces if at - start >= 2)
    assert late.rstrip().endswith(b"]")
    assert b"finishReason" in late
    assert b"finishReason" not in b"".join(piece for at, piece in response.pieces if at - start < 2)


# -- evidence: every protocol ------------------------------------------------------------------------------------------


async def test_where_reasoning_explains_the_gap_the_output_is_total_less_input(autojump_clock):
    usage = chat_usage(5, 7, 15, completion_tokens_details={"reasoning_tokens": 3})
    _, record = await played(CHAT, [*START, usage, *CHAT.terminal])
    assert (record.charge_nanos, record.flags) == (5_000 + 20_000, ())


async def test_any_other_mismatch_is_charged_by_component_and_flagged(autojump_clock):
    _, record = await played(CHAT, [*START, chat_usage(5, 7, 99), *CHAT.terminal])
    assert (record.charge_nanos, record.flags) == (19_000, ("mismatch",))


async def test_usage_beyond_the_hold_takes_the_hold_and_is_flagged(autojump_clock):
    async with gateway(sse(*START, chat_usage(10**6, 10**6, 2 * 10**6), *CHAT.terminal)) as world:
        record = await world.record(await world.call("chat"))
        report = await world.ledger.audit()
    assert (record.state, record.charge_nanos) == ("captured", record.hold_nanos)
    assert "clamped" in record.flags
    assert report.ok


async def test_a_capture_is_bounded_by_component(autojump_clock):
    """Much input and little output is not paid out of what was held for output."""
    body = {**CHAT_SILENT, "stream_options": {"include_usage": True}, "max_tokens": 100}
    async with gateway(sse(*START, chat_usage(10**6, 1, 10**6 + 1), *CHAT.terminal)) as world:
        record = await world.record(await world.call("chat", body))
        sent = len(world.provider.seen[0].body)
    assert record.charge_nanos == (sent + 64) * 1000 + 2000
    assert "clamped" in record.flags


async def test_an_explicit_zero_with_visible_output_is_captured_and_suspect(autojump_clock):
    _, record = await played(CHAT, [*START, chat_usage(0, 0, 0), *CHAT.terminal])
    assert (record.state, record.charge_nanos, record.flags) == ("captured", 0, ("suspect",))


@each_sample
async def test_the_usage_object_is_kept_as_it_was_received(sample, autojump_clock):
    _, record = await played(sample, sample.events)
    assert any(number in record.raw_usage for number in ("7", "3"))
    assert json.loads(record.raw_usage)


@each_sample
async def test_case_84_a_last_event_without_its_blank_line_counts_and_is_forwarded_whole(sample, autojump_clock):
    cut = sample.events[-1].removesuffix(b"\n")
    for end in (cut, cut.removesuffix(b"\n")):
        response, record = await played(sample, [*sample.events[:-1], end])
        assert (record.state, response.clean) == ("captured", True)
        assert response.data == payloads(*sample.events)
        assert response.body.endswith(b"\n\n")


@each_sample
async def test_case_84_half_a_last_event_counts_for_nothing(sample, autojump_clock):
    last = CHAT.closing[0] if sample is CHAT else sample.events[-1]  # without [DONE] a chat stream may be complete
    before = sample.events[: sample.events.index(last)]
    half = last[: len(last) // 2]
    response, record = await played(sample, [*before, half])
    assert (record.state, record.reason, response.clean) == ("released", "truncated", False)
    assert response.data[:-1] == payloads(*before)


async def test_case_58_cached_input_beside_the_prompt_is_never_negative(autojump_clock):
    details = {"prompt_tokens_details": {"cached_tokens": 500}}
    body = {**CHAT_SILENT, "stream_options": {"include_usage": True}}
    body["messages"] = [{"role": "user", "content": "x" * 900}]
    response, record = await played(CHAT, [*START, chat_usage(40, 7, 547, **details), *CHAT.terminal], body)
    used = json.loads(record.usage)
    assert (used["input_tokens"], used["cached_input_tokens"], used["output_tokens"]) == (40, 500, 7)
    assert (record.charge_nanos, response.clean) == (40_000 + 500_000 + 14_000, True)


async def test_cached_input_inside_the_prompt_is_taken_out_of_it(autojump_clock):
    cached = chat_usage(5, 7, 12, prompt_tokens_details={"cached_tokens": 4})
    config = settings(
        models={
            "m": {
                "input": "1",
                "cached_input": "0.1",
                "output": "2",
                "max_input_tokens": 1000,
                "max_output_tokens": 100,
            }
        }
    )
    _, record = await played(CHAT, [*START, cached, *CHAT.terminal], config=config)
    assert record.charge_nanos == 1_000 + 4 * 100 + 14_000


# -- error events ------------------------------------------------------------------------------------------------------


async def test_our_chat_error_event_has_every_key(autojump_clock):
    async with gateway(sse(*CHAT.opening, CHAT.answer[0], Cut(), end=False)) as world:
        response = await world.call("chat")
    assert response.blocks[-1].startswith(b'data: {"error":{')
    assert set(json.loads(response.data[-1])["error"]) == {"message", "type", "param", "code"}


async def test_our_response_failed_comes_after_a_response_created_of_ours_if_there_was_none(autojump_clock):
    async with gateway([Pause(15), *plain(500, b"{}")], config=EVENT, contract="mixed") as world:
        response = await world.call("responses")
    created, failed = (json.loads(each) for each in response.data)
    assert (created["type"], failed["type"]) == ("response.created", "response.failed")
    assert failed["sequence_number"] == created["sequence_number"] + 1
    assert failed["response"]["id"] == created["response"]["id"]
    assert failed["response"]["error"]["code"] in {"rate_limit_exceeded", "server_error", "invalid_prompt"}


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (429, b'{"error":{"message":"slow down","code":"rate_limit_exceeded"}}', "rate_limit_exceeded"),
        (500, b"{}", "server_error"),
        (400, b'{"error":{"message":"no","type":"invalid_request_error"}}', "invalid_prompt"),
    ],
)
async def test_our_response_failed_has_one_of_three_codes(status, body, code, autojump_clock):
    async with gateway([Pause(15), *plain(status, body)]) as world:
        response = await world.call("responses")
    assert json.loads(response.data[-1])["response"]["error"]["code"] == code


async def test_our_messages_error_event_has_a_name_and_says_its_code(autojump_clock):
    async with gateway(sse(*MESSAGES.opening, MESSAGES.answer[0], Hang())) as world:
        response = await world.call("messages")
    assert response.blocks[-1].startswith(b"event: error\ndata: ")
    error = json.loads(response.data[-1])
    assert set(error) == {"type", "error"}
    assert error["error"]["message"].startswith("upstream_timeout: ")


async def test_our_gemini_error_event_has_an_integer_code_and_a_status(autojump_clock):
    async with gateway(sse(*GEMINI.answer, Hang())) as world:
        response = await world.call("gemini")
    error = json.loads(response.data[-1])["error"]
    assert (error["code"], error["status"]) == (504, "DEADLINE_EXCEEDED")
