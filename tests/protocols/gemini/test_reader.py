"""Gemini streams and answers: what each event is, what completes a stream, what its usage is."""

from __future__ import annotations

import json

import msgspec
import pytest

from hoptrio.contract import Reason
from hoptrio.errors import UpstreamFailed, UpstreamOverloaded
from hoptrio.limits import GEMINI_TAIL_S
from hoptrio.protocols.events import Call, Framing, Kind, Protocol, SseEvent
from hoptrio.protocols.gemini.reader import read, reader


def call(framing=Framing.SSE):
    return Call(protocol=Protocol.GEMINI, model="m", stream=True, framing=framing, body={})


def chunk(*parts, finish=None, usage=None, index=None, **members):
    candidate = {"content": {"parts": list(parts), "role": "model"}}
    if finish:
        candidate["finishReason"] = finish
    if index is not None:
        candidate["index"] = index
    if usage is not None:
        members["usageMetadata"] = usage
    return {"candidates": [candidate], **members}


def event(value):
    return SseEvent(b"", value if isinstance(value, bytes) else json.dumps(value).encode())


def stream(*values, framing=Framing.SSE):
    found = reader(call(framing), hide_usage=False)
    return found, [found.feed(event(value)) for value in values]


HELLO = chunk({"text": "Hello"})
STOP = chunk({"text": "."}, finish="STOP", usage={"promptTokenCount": 5, "candidatesTokenCount": 4})


# -- the bytes -------------------------------------------------------------------------------------------------------


def test_data_is_forwarded_byte_for_byte_and_nothing_else():
    data = b'{"candidates": [{"content": {"parts": [{"text": "\\u00e9"}]}}] }'
    step = reader(call(), hide_usage=False).feed(SseEvent(b"message", data))
    assert step == (Kind.ANSWER, b"data: " + data + b"\n\n")


def test_done_belongs_to_chat_and_is_dropped():
    assert reader(call(), hide_usage=False).feed(SseEvent(b"", b" [DONE]")) == (Kind.QUIET, b"")


@pytest.mark.parametrize("data", [b'{"candidates":[', b"\xff", b"[" * 100_000, b"[]", b'"x"'])
def test_what_is_not_an_object_is_forwarded_unchanged_and_moves_nothing(data):
    assert reader(call(), hide_usage=False).feed(SseEvent(b"", data)) == (Kind.QUIET, b"data: " + data + b"\n\n")


# -- progress --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "part",
    [
        {"text": "x"},
        {"text": "hm", "thought": True},
        {"text": "", "thoughtSignature": "c2ln"},
        {"functionCall": {"name": "f", "args": {}}},
        {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
        {"executableCode": {"code": "1"}},
        {"aPartOfTheFuture": {"x": 1}},
    ],
)
def test_what_moves_the_answer(part):
    found, steps = stream(chunk(part))
    assert steps[0].kind is Kind.ANSWER
    assert found.answered


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"responseId": "r", "modelVersion": "m"},
        chunk(),
        chunk({"text": ""}),
        chunk({}),
        chunk({"text": "", "thought": True}),
        {"candidates": [{"content": {}}]},
        {"candidates": [{"content": {"parts": "odd"}}]},
        {"usageMetadata": {"trafficType": "ON_DEMAND"}},
    ],
)
def test_case_14_what_does_not_move_the_answer(value):
    _, steps = stream(value, HELLO, value)
    assert [step.kind for step in steps] == [Kind.OPENING, Kind.ANSWER, Kind.QUIET]


def test_growing_thoughts_are_progress_without_a_text():
    _, steps = stream(*({"usageMetadata": {"promptTokenCount": 5, "thoughtsTokenCount": n}} for n in (3, 3, 9)))
    assert [step.kind for step in steps] == [Kind.ANSWER, Kind.QUIET, Kind.ANSWER]


# -- the end ---------------------------------------------------------------------------------------------------------


def test_a_finish_reason_may_be_the_end():
    found, steps = stream(HELLO, STOP)
    assert [step.kind for step in steps] == [Kind.ANSWER, Kind.TERMINAL]
    assert found.patience_s == GEMINI_TAIL_S
    assert found.finish(clean=False) == (True, b"")
    assert found.counts is not None


def test_after_a_finish_reason_every_event_may_be_the_last():
    usage = {"usageMetadata": {"promptTokenCount": 5, "candidatesTokenCount": 9}}
    found, steps = stream(STOP, HELLO, b"{", usage)
    assert [step.kind for step in steps] == [Kind.TERMINAL] * 4
    assert found.counts is not None
    assert found.counts.output == 9


def test_no_candidate_may_be_left_unfinished():
    first, second = chunk({"text": "a"}, index=0), chunk({"text": "b"}, index=1)
    found, steps = stream(first, second, chunk(finish="STOP", index=0, usage={"promptTokenCount": 1}))
    assert steps[-1].kind is Kind.TERMINAL
    assert found.patience_s is None
    assert found.counts is None
    assert not found.finish(clean=True).complete
    found.feed(event(chunk(finish="MAX_TOKENS", index=1)))
    assert found.patience_s == GEMINI_TAIL_S
    assert found.counts is not None
    assert found.finish(clean=True).complete


def test_a_blocked_prompt_is_a_complete_answer():
    found, steps = stream({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 5}})
    assert steps[0].kind is Kind.TERMINAL
    assert not found.answered
    assert found.finish(clean=True).complete
    assert found.counts is not None
    assert (found.counts.input, found.counts.output) == (5, 0)


@pytest.mark.parametrize(
    "values",
    [
        (),
        (HELLO,),
        (chunk({"text": "x"}, finish="FINISH_REASON_UNSPECIFIED"),),
        ({"promptFeedback": {"safetyRatings": []}},),
        ({"promptFeedback": {"blockReason": "BLOCK_REASON_UNSPECIFIED"}},),
    ],
)
def test_anything_less_is_not_complete(values):
    found, _ = stream(*values)
    assert not found.finish(clean=True).complete
    assert found.patience_s is None


# -- usage -----------------------------------------------------------------------------------------------------------


def usage_of(*usages):
    found, _ = stream(*(chunk({"text": "x"}, usage=usage, finish="STOP") for usage in usages))
    return found.counts


def test_case_64_every_count_is_read():
    raw = {
        "promptTokenCount": 41,
        "cachedContentTokenCount": 8,
        "candidatesTokenCount": 5,
        "thoughtsTokenCount": 343,
        "toolUsePromptTokenCount": 7,
        "totalTokenCount": 396,
    }
    counts = usage_of(raw)
    assert (counts.input, counts.cached, counts.output, counts.reasoning) == (41, 8, 5, 343)
    assert (counts.tool_input, counts.total, json.loads(counts.raw)) == (7, 396, raw)


def test_the_last_usage_counts():
    assert usage_of({"promptTokenCount": 5, "candidatesTokenCount": 9}, {"promptTokenCount": 5}).output == 0


def test_an_object_without_counts_reports_nothing():
    counts = usage_of({"promptTokenCount": 5, "candidatesTokenCount": 9}, {"trafficType": "ON_DEMAND"})
    assert (counts.input, counts.output) == (5, 9)


@pytest.mark.parametrize(
    "bad",
    [
        {"candidatesTokenCount": 5},
        {"promptTokenCount": -1},
        {"promptTokenCount": 1.5},
        {"promptTokenCount": "5"},
        {"promptTokenCount": 2**63},
        {"promptTokenCount": 5, "thoughtsTokenCount": -1},
        "none",
    ],
)
def test_case_67_a_count_that_is_no_count_is_no_evidence(bad):
    found, _ = stream(chunk(usage={"promptTokenCount": 5}), chunk({"text": "x"}, finish="STOP", usage=bad))
    assert found.counts is None
    assert found.finish(clean=True).complete


def test_usage_is_read_beside_candidates_of_an_unknown_make():
    found, _ = stream(STOP, {"candidates": "odd", "usageMetadata": {"promptTokenCount": 6}})
    assert found.counts is not None
    assert found.counts.input == 6


@pytest.mark.parametrize(
    ("reported", "tier"),
    [
        ({"trafficType": "ON_DEMAND"}, None),
        ({"trafficType": "PROVISIONED_THROUGHPUT"}, None),
        ({"trafficType": "ON_DEMAND_FLEX"}, "flex"),
        ({"serviceTier": "standard"}, None),
        ({"serviceTier": "priority"}, "priority"),
        ({"serviceTier": 3}, None),
    ],
)
def test_a_tier_is_reported_only_if_it_changes_the_price(reported, tier):
    assert usage_of({"promptTokenCount": 1, **reported}).tier == tier


def test_web_searches_are_counted_by_the_query():
    def grounded(*queries):
        candidate = {"finishReason": "STOP", "groundingMetadata": {"webSearchQueries": list(queries)}}
        return {"candidates": [candidate], "usageMetadata": {"promptTokenCount": 1}}

    found, _ = stream(grounded("a"), grounded("a", "b"), grounded())
    assert found.counts is not None
    assert found.counts.tool_calls == {"google_search": 2}


# -- errors ----------------------------------------------------------------------------------------------------------

ERROR = {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}


def test_an_error_event_ends_the_stream_even_after_a_finish_reason():
    found, steps = stream(STOP, ERROR)
    assert steps[-1] == (Kind.FAILURE, b"data: " + json.dumps(ERROR).encode() + b"\n\n")
    assert found.patience_s == 0
    assert found.counts is None
    assert found.error is not None
    assert (found.error.status, found.error.type) == (503, "UNAVAILABLE")
    assert not found.finish(clean=True).complete


def test_an_error_outside_data_is_one_and_is_put_on_one_line():
    one = reader(call(), hide_usage=False)
    step = one.feed(SseEvent(b"", json.dumps(ERROR, indent=2).encode(), stray=True))
    assert step.kind is Kind.FAILURE
    assert step.wire == b'data: {"error":{"code":503,"message":"overloaded","status":"UNAVAILABLE"}}\n\n'


def test_a_stray_object_that_is_no_error_is_no_event():
    one = reader(call(), hide_usage=False)
    assert one.feed(SseEvent(b"", json.dumps(STOP).encode(), stray=True)) == (Kind.QUIET, b"")
    assert not one.finish(clean=True).complete


@pytest.mark.parametrize(
    ("value", "status"),
    [
        ({"error": {"status": "RESOURCE_EXHAUSTED"}}, 429),
        ({"error": {"code": "429"}}, 429),
        ({"error": "no"}, 502),
        ([ERROR], 503),
    ],
)
def test_other_error_shapes_are_errors(value, status):
    found, steps = stream(value)
    assert steps[0].kind is Kind.FAILURE
    assert found.error is not None
    assert found.error.status == status


def test_our_own_error_has_an_integer_code():
    wire = reader(call(), hide_usage=False).failure(Reason.STALLED, UpstreamOverloaded("busy"))
    assert wire == (b'data: {"error":{"code":503,"message":"server_is_overloaded: busy","status":"UNAVAILABLE"}}\n\n')


# -- the JSON array --------------------------------------------------------------------------------------------------


def test_case_87_the_array_holds_the_same_bytes():
    found, steps = stream(HELLO, STOP, framing=Framing.JSON_ARRAY)
    body = b"".join(step.wire for step in steps) + found.finish(clean=True).wire
    assert body == b"[" + json.dumps(HELLO).encode() + b",\r\n" + json.dumps(STOP).encode() + b"]"


def test_an_incomplete_array_is_never_closed():
    found, _ = stream(HELLO, framing=Framing.JSON_ARRAY)
    assert found.finish(clean=True) == (False, b"")


def test_our_own_error_is_an_element():
    found, steps = stream(HELLO, framing=Framing.JSON_ARRAY)
    wire = found.failure(Reason.TRUNCATED, UpstreamFailed("cut"))
    assert json.loads(steps[0].wire + wire + b"]")[1]["error"]["code"] == 502


def test_our_own_error_takes_the_place_of_the_event_held_back():
    found, _ = stream(STOP, framing=Framing.JSON_ARRAY)
    wire = found.failure(Reason.INTERNAL, UpstreamFailed("late"))
    assert json.loads(wire + b"]")[0]["error"]["code"] == 502


def test_a_providers_error_is_an_element_behind_the_event_held_back():
    _, steps = stream(STOP, ERROR, framing=Framing.JSON_ARRAY)
    assert json.loads(b"".join(step.wire for step in steps) + b"]") == [STOP, ERROR]


# -- whole answers ---------------------------------------------------------------------------------------------------


def test_a_whole_answer_has_its_usage():
    answer = read(call(), json.dumps(STOP).encode())
    assert answer.counts is not None
    assert (answer.counts.input, answer.counts.output) == (5, 4)


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"totalTokens":5}', b'{"usageMetadata":{}}'])
def test_a_whole_answer_without_usage_has_none(body):
    answer = read(call(), body)
    assert answer.counts is None
    assert answer.error is None


def test_an_error_inside_a_200_is_an_error():
    answer = read(call(), json.dumps([ERROR]).encode())
    assert answer.error is not None
    assert answer.error.status == 503


def test_the_usage_beside_an_error_is_reported_and_no_evidence():
    answer = read(call(), json.dumps(STOP | ERROR).encode())
    assert answer.error is not None
    assert answer.counts is None
    assert answer.reported is not None
    assert (answer.reported.input, answer.reported.output) == (5, 4)


# -- images ----------------------------------------------------------------------------------------------------------

PICTURE = {"inlineData": {"mimeType": "image/png", "data": "QUJD"}}
PICTURES = [
    ([PICTURE], 1),
    ([{"text": "Here:"}, PICTURE, PICTURE], 2),
    ([{"inline_data": {"mimeType": "IMAGE/webp", "data": "QUJD"}}], 1),
    ([{**PICTURE, "thought": True}], 0),
    ([{"inlineData": {"mimeType": "text/csv", "data": "QUJD"}}], 0),
    ([{"inlineData": 5}], 0),
    ([{"text": "Hello"}], 0),
]


@pytest.mark.parametrize(("parts", "images"), PICTURES, ids=str)
def test_images_are_counted_for_a_model_with_a_price_by_the_image(parts, images):
    sold = msgspec.structs.replace(call(), by_image=True)
    last = STOP | {"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]}
    found = reader(sold, hide_usage=False)
    for each in (HELLO, chunk(PICTURE), last):
        found.feed(event(each))
    assert found.counts is not None
    assert (found.counts.input, found.counts.images) == (5, images + 1)
    whole = read(sold, json.dumps(last).encode()).counts
    assert whole is not None
    assert whole.images == images


def test_images_are_not_counted_for_any_other_model():
    found, _ = stream(chunk(PICTURE), STOP)
    assert found.counts is not None
    assert found.counts.images is None
