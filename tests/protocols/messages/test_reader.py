"""Messages streams and answers: what each event is, what completes a stream, what its usage is."""

from __future__ import annotations

import json

import pytest

from hoptrio.contract import Reason
from hoptrio.errors import UpstreamFailed, UpstreamOverloaded
from hoptrio.protocols.events import Call, Counts, Framing, Kind, Protocol, SseEvent
from hoptrio.protocols.messages.reader import read, reader

CALL = Call(protocol=Protocol.MESSAGES, model="m", stream=True, framing=Framing.SSE, body={})
START = {"type": "message_start", "message": {"content": [], "usage": {"input_tokens": 25, "output_tokens": 1}}}
TEXT = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}}
DELTA = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 14}}
STOP = {"type": "message_stop"}


def event(value, name=None):
    """As a provider sends it: the name is the type unless said otherwise."""
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return SseEvent(json.loads(data).get("type", "").encode() if name is None else name, data)


def stream(*values):
    found = reader(CALL, hide_usage=False)
    return found, [found.feed(event(value)) for value in values]


def kind_of(value, name=None):
    return reader(CALL, hide_usage=False).feed(event(value, name)).kind


def block_delta(**delta):
    return {"type": "content_block_delta", "index": 0, "delta": delta}


# -- the bytes -------------------------------------------------------------------------------------------------------


def test_data_is_forwarded_byte_for_byte_under_its_type():
    data = b'{"type": "content_block_delta",  "delta":{"type":"text_delta","text":"\\u00e9"}}       '
    step = reader(CALL, hide_usage=False).feed(SseEvent(b"content_block_delta", data))
    assert step.wire == b"event: content_block_delta\ndata: " + data + b"\n\n"


@pytest.mark.parametrize("kind", [b"content_block_delta", b"message_delta"])
def test_bytes_that_are_no_text_where_nobody_looks_are_forwarded(kind):
    data = b'{"type": "%b", "delt\xf2": {"x": 1}}' % kind
    step = reader(CALL, hide_usage=False).feed(SseEvent(kind, data))
    assert step.wire == b"event: %b\ndata: %b\n\n" % (kind, data)


def test_a_missing_event_name_is_added():
    step = reader(CALL, hide_usage=False).feed(event(TEXT, b""))
    assert step.wire.startswith(b"event: content_block_delta\ndata: ")


def test_the_event_name_is_the_type_even_if_the_provider_says_otherwise():
    step = reader(CALL, hide_usage=False).feed(event(TEXT, b"message"))
    assert step.wire.startswith(b"event: content_block_delta\n")


def test_a_new_type_is_forwarded_under_its_own_name():
    step = reader(CALL, hide_usage=False).feed(event({"type": "thought_budget.changed"}, b""))
    assert step.wire == b'event: thought_budget.changed\ndata: {"type": "thought_budget.changed"}\n\n'
    assert step.kind is Kind.QUIET


def test_case_92_a_type_cannot_smuggle_a_line_into_the_stream():
    data = b'{"type":"x\\ndata: {}"}'
    assert reader(CALL, hide_usage=False).feed(SseEvent(b"", data)).wire == b"data: " + data + b"\n\n"
    assert reader(CALL, hide_usage=False).feed(SseEvent(b"x", data)).wire == b"event: x\ndata: " + data + b"\n\n"


def test_done_belongs_to_chat_and_is_dropped():
    step = reader(CALL, hide_usage=False).feed(SseEvent(b"", b"[DONE] "))
    assert step == (Kind.QUIET, b"")


@pytest.mark.parametrize("data", [b'{"type":"content_block_delta"', b"\xff\xfe", b"[" * 100_000, b"[]", b"7"])
def test_what_is_not_an_object_is_forwarded_unchanged_and_moves_nothing(data):
    step = reader(CALL, hide_usage=False).feed(SseEvent(b"content_block_delta", data))
    assert step == (Kind.QUIET, b"event: content_block_delta\ndata: " + data + b"\n\n")


# -- progress --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        TEXT,
        block_delta(type="input_json_delta", partial_json='{"x":'),
        block_delta(type="thinking_delta", thinking="hm"),
        block_delta(type="thinking_delta", thinking="", estimated_tokens=8),
        block_delta(type="signature_delta", signature="c2ln"),
        block_delta(type="citations_delta", citation={"cited_text": "a"}),
        block_delta(type="compaction_delta", content="summary"),
        block_delta(type="text_delta", text="", something_new="x"),
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_start", "message": {"content": [{"type": "tool_use"}], "usage": {}}},
    ],
)
def test_what_moves_the_answer(value):
    found, steps = stream(value)
    expected = Kind.QUIET if "something_new" in str(value) else Kind.ANSWER
    assert steps[0].kind is expected
    assert found.answered is (expected is Kind.ANSWER)


@pytest.mark.parametrize(
    "value",
    [
        {"type": "ping"},
        block_delta(type="text_delta", text=""),
        block_delta(type="input_json_delta", partial_json=""),
        block_delta(type="thinking_delta", thinking=""),
        block_delta(type="citations_delta", citation=None),
        {"type": "content_block_delta", "index": 0},
        {"type": "content_block_start", "index": 0},
        DELTA,
        {"type": "something_new", "text": "x"},
    ],
)
def test_case_14_what_does_not_move_the_answer(value):
    found, steps = stream(value)
    assert steps[0].kind is Kind.QUIET
    assert not found.answered


def test_an_opening_is_no_progress():
    assert kind_of(START) is Kind.OPENING


def test_estimated_tokens_count_only_while_they_grow():
    thinking = [block_delta(type="thinking_delta", thinking="", estimated_tokens=n) for n in (5, 5, 9, 7)]
    _, steps = stream(*thinking)
    assert [step.kind for step in steps] == [Kind.ANSWER, Kind.QUIET, Kind.ANSWER, Kind.QUIET]


def test_a_delta_of_an_unknown_make_counts_by_what_it_brings():
    assert kind_of(block_delta(type="text_delta", text={"parts": ["x"]})) is Kind.ANSWER
    assert kind_of(block_delta(type="text_delta", text=None)) is Kind.QUIET


# -- the end ---------------------------------------------------------------------------------------------------------


def test_a_stop_reason_and_message_stop_complete_a_stream():
    found, steps = stream(START, TEXT, DELTA, STOP)
    assert [step.kind for step in steps] == [Kind.OPENING, Kind.ANSWER, Kind.QUIET, Kind.TERMINAL]
    assert found.patience_s == 0
    assert found.finish(clean=False) == (True, b"")
    assert found.counts is not None
    assert (found.counts.input, found.counts.output) == (25, 14)


@pytest.mark.parametrize(
    "values",
    [
        (),
        (START, TEXT),
        (START, TEXT, DELTA),
        (START, TEXT, STOP),
        (START, TEXT, {"type": "message_delta", "delta": {"stop_reason": None}, "usage": {"output_tokens": 5}}, STOP),
    ],
)
def test_anything_less_is_not_complete_and_no_evidence(values):
    found, _ = stream(*values)
    assert not found.finish(clean=True).complete
    assert found.counts is None


def test_a_message_that_starts_with_its_stop_reason_is_complete_but_no_evidence():
    """Code execution calls a tool of the client: the whole answer is inside ``message_start``."""
    call = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}
    whole = {**START["message"], "content": [call], "stop_reason": "tool_use"}
    found, steps = stream({**START, "message": whole}, STOP)
    assert [step.kind for step in steps] == [Kind.ANSWER, Kind.TERMINAL]
    assert found.finish(clean=True).complete
    assert found.counts is None


def test_a_stop_reason_counts_even_in_a_delta_of_an_unknown_make():
    odd = {"type": "message_delta", "delta": {"stop_reason": "end_turn", "text": 5}, "usage": {"output_tokens": 3}}
    found, _ = stream(START, odd, STOP)
    assert found.finish(clean=True).complete
    assert found.counts is not None


def test_case_54_the_placeholder_of_message_start_is_never_output():
    found, _ = stream(START, TEXT)
    assert found.counts is None
    found, _ = stream(START, {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, STOP)
    assert found.finish(clean=True).complete
    assert found.counts is None


# -- usage -----------------------------------------------------------------------------------------------------------


def usage_of(start, *deltas):
    values = [{"type": "message_start", "message": {"content": [], "usage": start}}]
    values += [{"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": delta} for delta in deltas]
    found, _ = stream(*values, STOP)
    return found.counts


def test_case_57_later_numbers_are_set_and_never_added():
    start = {"input_tokens": 9, "cache_read_input_tokens": 1, "output_tokens": 1}
    counts = usage_of(start, {"input_tokens": 9, "cache_read_input_tokens": 1, "output_tokens": 14})
    assert (counts.input, counts.cached, counts.output) == (9, 1, 14)


def test_a_null_keeps_the_earlier_number():
    counts = usage_of({"input_tokens": 9, "cache_read_input_tokens": 4}, {"input_tokens": None, "output_tokens": 2})
    assert (counts.input, counts.cached, counts.output) == (9, 4, 2)


def test_usage_may_come_only_at_the_end():
    counts = usage_of({"input_tokens": 0, "output_tokens": 0}, {"input_tokens": 2, "output_tokens": 14})
    assert (counts.input, counts.output) == (2, 14)


def test_cache_writes_are_split_by_lifetime():
    split = {"ephemeral_5m_input_tokens": 30, "ephemeral_1h_input_tokens": 7}
    counts = usage_of(
        {"input_tokens": 1, "cache_creation_input_tokens": 37, "cache_creation": split}, {"output_tokens": 1}
    )
    assert (counts.cache_write, counts.cache_write_1h) == (37, 7)
    counts = usage_of({"input_tokens": 1, "cache_creation": split}, {"output_tokens": 1})
    assert (counts.cache_write, counts.cache_write_1h) == (37, 7)


def test_hosted_tools_thinking_and_tier_are_reported():
    counts = usage_of(
        {"input_tokens": 1, "service_tier": "priority"},
        {
            "output_tokens": 9,
            "output_tokens_details": {"thinking_tokens": 5},
            "server_tool_use": {"web_search_requests": 2, "web_fetch_requests": 0},
        },
    )
    assert (counts.reasoning, counts.tool_calls, counts.tier) == (5, {"web_search": 2}, "priority")


@pytest.mark.parametrize(
    ("reported", "tier"),
    [
        ({"service_tier": "standard", "speed": "standard"}, None),
        ({"service_tier": "standard", "speed": "fast"}, "fast"),
        ({"service_tier": None}, None),
        ({"service_tier": 7}, None),
    ],
)
def test_the_standard_tier_is_none(reported, tier):
    assert usage_of({"input_tokens": 1, **reported}, {"output_tokens": 1}).tier == tier


def test_compaction_is_added_since_the_totals_leave_it_out():
    compaction = {"type": "compaction", "input_tokens": 1_000, "output_tokens": 50, "cache_read_input_tokens": 6}
    message = {"type": "message", "input_tokens": 20, "output_tokens": 9}
    counts = usage_of(
        {"input_tokens": 20}, {"input_tokens": 20, "output_tokens": 9, "iterations": [compaction, message]}
    )
    assert (counts.input, counts.output, counts.cached) == (1_020, 59, 6)


def test_an_advisor_is_another_models_and_counts_as_a_call():
    advisor = {"type": "advisor_message", "input_tokens": 2_728, "output_tokens": 3_880}
    counts = usage_of({"input_tokens": 20}, {"output_tokens": 9, "iterations": [advisor]})
    assert (counts.input, counts.output, counts.tool_calls) == (20, 9, {"advisor": 1})


@pytest.mark.parametrize("bad", [-1, 1.5, "7", 2**63, True, [3], {}])
def test_case_67_a_count_that_is_no_count_is_no_evidence(bad):
    assert usage_of({"input_tokens": 25}, {"output_tokens": bad}) is None
    assert usage_of({"input_tokens": bad}, {"output_tokens": 5}) is None
    assert usage_of({"input_tokens": 25}, {"output_tokens": 5}, {"output_tokens": bad}) is None


def test_a_bad_usage_does_not_hide_the_end():
    found, _ = stream(START, {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": "n/a"}, STOP)
    assert found.finish(clean=True).complete
    assert found.counts is None


def test_the_usage_is_kept_as_received():
    found = reader(CALL, hide_usage=False)
    found.feed(SseEvent(b"", b'{"type":"message_start","message":{"usage":{"input_tokens" : 1}}}'))
    found.feed(SseEvent(b"", b'{"type":"message_delta","delta":{"stop_reason":"x"},"usage":{"output_tokens": 2}}'))
    found.feed(event(STOP))
    assert found.counts is not None
    assert found.counts.raw == b'{"message_start":{"input_tokens" : 1},"message_delta":{"output_tokens": 2}}'


# -- errors ----------------------------------------------------------------------------------------------------------

OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}


def test_case_32_an_error_event_ends_the_stream():
    found, steps = stream(START, TEXT, OVERLOADED)
    assert steps[-1] == (Kind.FAILURE, b"event: error\ndata: " + json.dumps(OVERLOADED).encode() + b"\n\n")
    assert found.patience_s == 0
    assert found.error is not None
    assert (found.error.status, found.error.type, found.error.message) == (529, "overloaded_error", "Overloaded")
    assert not found.finish(clean=True).complete


def test_case_35_an_error_is_recognised_without_its_event_name():
    step = reader(CALL, hide_usage=False).feed(event(OVERLOADED, b""))
    assert step.kind is Kind.FAILURE
    assert step.wire.startswith(b"event: error\ndata: ")


@pytest.mark.parametrize(
    ("found", "status"),
    [
        (SseEvent(b"", b'{"error":{"message":"no","code":503}}'), 503),
        (SseEvent(b"", b'{"error":"no"}'), 502),
        (SseEvent(b"", b'[{"error":{"code":429}}]'), 429),
        (SseEvent(b"error", b"Bad gateway"), 502),
        (SseEvent(b"error", b'{"type":"error","message":"no"}'), 502),
        (SseEvent(b"", b'{"error":{"type":"rate_limit_error"}}', stray=True), 429),
    ],
)
def test_foreign_error_shapes_are_errors(found, status):
    one = reader(CALL, hide_usage=False)
    step = one.feed(found)
    assert step == (Kind.FAILURE, b"event: error\ndata: " + found.data + b"\n\n")
    assert one.error is not None
    assert one.error.status == status


def test_a_stray_object_that_is_no_error_is_no_event():
    one = reader(CALL, hide_usage=False)
    assert one.feed(SseEvent(b"", json.dumps(STOP).encode(), stray=True)) == (Kind.QUIET, b"")
    assert one.patience_s is None


def test_an_interrupted_stream_is_told_in_the_contracts_words():
    wire = reader(CALL, hide_usage=False).failure(Reason.TRUNCATED, UpstreamFailed("x"))
    assert wire == (
        b"event: error\n"
        b'data: {"type":"error","error":{"type":"api_error","message":"Response stream interrupted, please retry"}}\n\n'
    )


def test_other_failures_say_their_code():
    wire = reader(CALL, hide_usage=False).failure(Reason.STALLED, UpstreamOverloaded("busy"))
    assert wire.startswith(b"event: error\ndata: ")
    assert json.loads(wire.split(b"data: ")[1]) == {
        "type": "error",
        "error": {"type": "overloaded_error", "message": "server_is_overloaded: busy"},
    }


# -- whole answers ---------------------------------------------------------------------------------------------------


def test_a_whole_answer_has_its_usage():
    body = b'{"type":"message","content":[],"usage":{"input_tokens":3,"cache_read_input_tokens":2,"output_tokens":7}}'
    assert read(CALL, body).counts == Counts(
        input=3, cached=2, output=7, raw=b'{"input_tokens":3,"cache_read_input_tokens":2,"output_tokens":7}'
    )


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"input_tokens":5}', b'{"usage":null}', b'{"usage":{}}'])
def test_a_whole_answer_without_usage_has_none(body):
    answer = read(CALL, body)
    assert answer.counts is None
    assert answer.error is None


def test_an_error_inside_a_200_is_an_error():
    answer = read(CALL, json.dumps(OVERLOADED).encode())
    assert answer.error is not None
    assert answer.error.status == 529


def test_the_usage_beside_an_error_is_reported_and_no_evidence():
    body = {"type": "message", "usage": {"input_tokens": 3, "output_tokens": 7}, "error": {"type": "api_error"}}
    answer = read(CALL, json.dumps(body).encode())
    assert answer.error is not None
    assert answer.counts is None
    assert answer.reported is not None
    assert (answer.reported.input, answer.reported.output) == (3, 7)
