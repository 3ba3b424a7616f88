"""Every way to answer and to fail, in every protocol, as steps: no socket and no clock."""

from __future__ import annotations

import json
import zlib
from itertools import islice

import pytest

from hoptrio.protocols.events import Protocol
from hoptrio.simulator.provider import SimulatedProvider
from hoptrio.simulator.steps import Cut, End, Hang, Head, Raw, Reset, Send, Sleep
from tests.support.performing import body_of, data_of, pauses_of, perform, request, text_of, usage_of

TERMINALS = {
    Protocol.CHAT: b"data: [DONE]\n\n",
    Protocol.RESPONSES: b"event: response.completed\n",
    Protocol.MESSAGES: b"event: message_stop\n",
    Protocol.GEMINI: b'"finishReason":"STOP"',
}
ERRORS = {
    Protocol.CHAT: '"error":{"message"',
    Protocol.RESPONSES: "event: error\n",
    Protocol.MESSAGES: "event: error\n",
    Protocol.GEMINI: 'data: {"error":{"code":503',
}
OPENING_EVENTS = {Protocol.CHAT: 1, Protocol.RESPONSES: 2, Protocol.MESSAGES: 2, Protocol.GEMINI: 0}

every_protocol = pytest.mark.parametrize("protocol", Protocol)


def sends(steps):
    return [step.data for step in steps if isinstance(step, Send)]


def pieces(protocol, body):
    """How many of the pieces `text` makes are in `body`."""
    return len(text_of(protocol, data_of(body)))


@every_protocol
def test_a_stream_has_its_pieces_its_terminal_and_a_clean_end(protocol):
    steps = perform(protocol, "sim: text=abcdef events=6 pace=0")
    assert steps[0].status == 200
    assert isinstance(steps[-1], End)
    assert text_of(protocol, data_of(body_of(steps))) == "abcdef"
    assert TERMINALS[protocol] in body_of(steps)


@every_protocol
def test_every_event_is_one_write(protocol):
    writes = sends(perform(protocol, "sim: events=3 tools=1 reasoning=1"))
    assert all(write.endswith(b"\n\n") and write.count(b"\n\n") == 1 for write in writes)


@every_protocol
def test_pieces_are_paced_and_delays_come_first(protocol):
    steps = perform(protocol, "sim: events=3 pace=20ms head_delay=2 delay=5")
    assert pauses_of(steps) == [2.0, 5.0, 0.02, 0.02]
    assert isinstance(steps[0], Sleep)
    assert isinstance(steps[1], Head)


@pytest.mark.parametrize(
    ("protocol", "usage"),
    [
        (
            Protocol.CHAT,
            {
                "prompt_tokens": 50,
                "completion_tokens": 5,
                "total_tokens": 55,
                "prompt_tokens_details": {"cached_tokens": 20},
                "completion_tokens_details": {"reasoning_tokens": 2},
            },
        ),
        (
            Protocol.RESPONSES,
            {
                "input_tokens": 50,
                "input_tokens_details": {"cached_tokens": 20, "cache_write_tokens": 0},
                "output_tokens": 5,
                "output_tokens_details": {"reasoning_tokens": 2},
                "total_tokens": 55,
            },
        ),
        (
            Protocol.MESSAGES,
            {
                "input_tokens": 30,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 20,
                "output_tokens": 5,
            },
        ),
        (
            Protocol.GEMINI,
            {
                "promptTokenCount": 50,
                "candidatesTokenCount": 3,
                "totalTokenCount": 55,
                "cachedContentTokenCount": 20,
                "thoughtsTokenCount": 2,
            },
        ),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
def test_usage_has_the_arithmetic_of_its_protocol(protocol, usage, stream):
    body = body_of(perform(protocol, "sim: events=3 reasoning=2 input=50 cached=20", stream=stream))
    assert usage_of(protocol, data_of(body) if stream else [json.loads(body)]) == usage


@every_protocol
def test_without_usage_no_number_is_sent(protocol):
    data = data_of(body_of(perform(protocol, "sim: events=3 usage=none")))
    assert usage_of(protocol, data) is None


@every_protocol
@pytest.mark.parametrize(("kind", "count"), [("zero", 0), ("negative", -1), ("huge", 2**63), ("string", "0")])
def test_wrong_usage_reaches_the_stream(protocol, kind, count):
    usage = usage_of(protocol, data_of(body_of(perform(protocol, f"sim: events=1 input=0 usage={kind}"))))
    assert next(iter(usage.values())) == count


def test_chat_usage_can_come_on_the_finish_chunk_on_every_chunk_or_twice():
    def usages(kind):
        data = data_of(body_of(perform(Protocol.CHAT, f"sim: events=3 usage={kind}")))
        return [(len(each["choices"]), bool(each["usage"])) for each in data[:-1]]

    assert usages("finish") == [(1, False)] * 4 + [(1, True)]
    assert usages("running") == [(1, False)] + [(1, True)] * 4 + [(0, True)]
    assert usages("twice") == [(1, False)] * 5 + [(0, True)] * 2


def test_a_chat_stream_that_was_not_asked_has_no_usage_member():
    body = body_of(perform(Protocol.CHAT, "sim: events=2", stream_options=None))
    assert b"usage" not in body


def test_messages_usage_twice_is_two_deltas():
    body = body_of(perform(Protocol.MESSAGES, "sim: events=1 usage=twice"))
    assert body.count(b"event: message_delta") == 2


def test_gemini_usage_can_come_behind_the_finish_reason():
    data = data_of(body_of(perform(Protocol.GEMINI, "sim: events=1 usage=late")))
    assert [("candidates" in each, "usageMetadata" in each) for each in data[-2:]] == [(True, False), (False, True)]


def test_gemini_can_block_a_prompt():
    steps = perform(Protocol.GEMINI, "sim: finish=block")
    assert [each["promptFeedback"]["blockReason"] for each in data_of(body_of(steps))] == ["SAFETY"]


@pytest.mark.parametrize(
    ("protocol", "shown"),
    [
        (Protocol.CHAT, b'"finish_reason":"length"'),
        (Protocol.RESPONSES, b"event: response.incomplete\n"),
        (Protocol.MESSAGES, b'"stop_reason":"max_tokens"'),
        (Protocol.GEMINI, b'"finishReason":"MAX_TOKENS"'),
    ],
)
def test_a_finish_for_length_is_shown(protocol, shown):
    assert shown in body_of(perform(protocol, "sim: events=1 finish=length"))


def test_chat_choices_interleave():
    data = data_of(body_of(perform(Protocol.CHAT, "sim: events=2", n=2)))
    assert [choice["index"] for each in data[:-1] for choice in each["choices"]] == [0, 1] * 4


@every_protocol
def test_a_status_is_the_protocol_s_own_refusal(protocol):
    steps = perform(protocol, "sim: fail=status:429 retry_after=7")
    assert steps[0].status == 429
    assert dict(steps[0].headers)["retry-after"] == "7"
    assert "error" in json.loads(body_of(steps))


@every_protocol
@pytest.mark.parametrize(
    ("kind", "steps"),
    [("no-head", [Hang()]), ("close", [Cut()]), ("not-http", [Raw(b"SSH-2.0-simulated\r\n"), Cut()])],
)
def test_no_head(protocol, kind, steps):
    assert perform(protocol, f"sim: fail={kind}") == steps


@every_protocol
@pytest.mark.parametrize(
    ("kind", "content_type", "start"),
    [
        ("html", "text/html; charset=utf-8", b"<!doctype"),
        ("json-error", "application/json", b"{"),
        ("empty", "text/event-stream", b""),
    ],
)
def test_something_else_with_200(protocol, kind, content_type, start):
    steps = perform(protocol, f"sim: fail={kind}")
    assert (steps[0].status, dict(steps[0].headers)["content-type"]) == (200, content_type)
    assert body_of(steps).startswith(start)
    assert isinstance(steps[-1], End)


@every_protocol
@pytest.mark.parametrize(("kind", "ending"), [("cut", Cut()), ("reset", Reset()), ("silence", Hang()), ("end", End())])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_stream_can_stop_after_any_piece(protocol, kind, ending, count):
    steps = perform(protocol, f"sim: text=abcdef events=6 fail={kind}@{count}")
    assert steps[-1] == ending
    assert pieces(protocol, body_of(steps)) == count
    assert TERMINALS[protocol] not in body_of(steps)


@every_protocol
def test_a_stream_can_stop_after_its_opening_events(protocol):
    assert len(sends(perform(protocol, "sim: fail=cut@open"))) == OPENING_EVENTS[protocol]


@every_protocol
def test_a_stream_can_stop_just_before_and_just_after_its_terminal(protocol):
    whole = body_of(perform(protocol, "sim: events=2 input=9"))
    before, after = (body_of(perform(protocol, f"sim: events=2 input=9 fail=cut@{when}")) for when in ("end", "done"))
    assert after == whole
    assert TERMINALS[protocol] not in before
    assert whole.startswith(before)


@every_protocol
def test_too_few_pieces_fail_before_the_terminal(protocol):
    steps = perform(protocol, "sim: events=2 fail=cut@9")
    assert isinstance(steps[-1], Cut)
    assert TERMINALS[protocol] not in body_of(steps)


@every_protocol
def test_a_cut_can_fall_inside_an_event(protocol):
    steps = perform(protocol, "sim: events=4 input=9 fail=inside@2")
    whole = sends(perform(protocol, "sim: events=4 input=9"))
    *events, half = sends(steps)
    assert isinstance(steps[-1], Cut)
    assert whole[: len(events)] == events
    assert whole[len(events)].startswith(half)
    assert not half.endswith(b"\n\n")


@every_protocol
@pytest.mark.parametrize("when", ["0", "2", "end"])
def test_an_error_event_ends_the_stream(protocol, when):
    steps = perform(protocol, f"sim: events=4 fail=error@{when}")
    assert isinstance(steps[-1], End)
    assert ERRORS[protocol] in sends(steps)[-1].decode()
    assert TERMINALS[protocol] not in body_of(steps)


@every_protocol
@pytest.mark.parametrize(("after", "ending"), [("cut", Cut()), ("reset", Reset()), ("silence", Hang()), ("end", End())])
def test_what_follows_an_error(protocol, after, ending):
    assert perform(protocol, f"sim: fail=error after={after}")[-1] == ending


def test_done_can_follow_an_error():
    assert data_of(body_of(perform(Protocol.CHAT, "sim: fail=error after=done")))[-1] == "[DONE]"


def test_usage_can_come_before_an_error():
    data = data_of(body_of(perform(Protocol.CHAT, "sim: fail=error@end")))
    assert "error" in data[-1]
    assert data[-2]["usage"]["total_tokens"] > 0


def test_a_response_can_fail_with_and_without_usage():
    for kind, used in (("failed", False), ("failed-usage", True)):
        data = data_of(body_of(perform(Protocol.RESPONSES, f"sim: fail={kind}:rate_limit_exceeded@2")))
        assert data[-1]["type"] == "response.failed"
        assert data[-1]["response"]["error"]["code"] == "rate_limit_exceeded"
        assert bool(data[-1]["response"]["usage"]) is used


@pytest.mark.parametrize("when", ["0", "open", "1", "2", "end"])
def test_error_and_failed_number_on_without_a_gap(when):
    data = data_of(body_of(perform(Protocol.RESPONSES, f"sim: events=3 fail=error@{when} after=failed")))
    assert [each["type"] for each in data[-2:]] == ["error", "response.failed"]
    assert [each["sequence_number"] for each in data] == list(range(len(data)))


def test_a_gemini_error_can_stand_outside_the_events():
    body = body_of(perform(Protocol.GEMINI, "sim: fail=stray-error@1"))
    assert body.endswith(b"}\n")
    assert b'\n\n{"error":{"code":503' in body


@every_protocol
def test_comments_for_ever(protocol):
    provider = SimulatedProvider()
    target, body = request(protocol, "sim: fail=comments@0 every=5")
    steps = list(islice(provider.respond(provider.saw("POST", target, (), body), body), 7))
    assert steps[1:] == [Sleep(5.0), Send(b": simulated\n\n")] * 3


@pytest.mark.parametrize(
    ("protocol", "ping"),
    [
        (Protocol.CHAT, b": simulated\n\n"),
        (Protocol.RESPONSES, b"event: keepalive\n"),
        (Protocol.MESSAGES, b"event: ping\n"),
        (Protocol.GEMINI, b'data: {"modelVersion":"sim-small"'),
    ],
)
def test_pings_for_ever(protocol, ping):
    provider = SimulatedProvider()
    target, body = request(protocol, "sim: fail=pings@1")
    steps = list(islice(provider.respond(provider.saw("POST", target, (), body), body), 20))
    assert all(write.startswith(ping) for write in sends(steps)[-4:])


@every_protocol
def test_something_can_stand_between_the_pieces(protocol):
    body = body_of(perform(protocol, "sim: text=abc events=3 between=comment"))
    assert body.count(b": simulated\n\n") == 3
    assert text_of(protocol, data_of(body)) == "abc"


def test_a_missing_terminal_and_a_missing_finish():
    chat = body_of(perform(Protocol.CHAT, "sim: fail=no-terminal"))
    assert b'"finish_reason":"stop"' in chat
    assert b"[DONE]" not in chat
    chat = body_of(perform(Protocol.CHAT, "sim: fail=no-finish"))
    assert b'"finish_reason":"stop"' not in chat
    assert chat.endswith(b"data: [DONE]\n\n")
    messages = body_of(perform(Protocol.MESSAGES, "sim: fail=no-finish"))
    assert b"message_delta" not in messages
    assert b"message_stop" in messages


@every_protocol
@pytest.mark.parametrize("fail", ["no-terminal", "no-finish"])
def test_an_omission_ends_cleanly(protocol, fail):
    assert isinstance(perform(protocol, f"sim: fail={fail}")[-1], End)


def test_the_json_array_of_gemini():
    provider = SimulatedProvider()
    _, body = request(Protocol.GEMINI, "sim: text=abc events=3")
    seen = provider.saw("POST", "/v1beta/models/m:streamGenerateContent", (), body)
    steps = list(provider.respond(seen, body))
    chunks = json.loads(body_of(steps))
    assert dict(steps[0].headers)["content-type"] == "application/json"
    assert text_of(Protocol.GEMINI, chunks) == "abc"


@every_protocol
def test_not_streaming_is_one_body_of_known_length(protocol):
    steps = perform(protocol, "sim: events=4 pace=1", stream=False)
    assert pauses_of(steps) == [4.0]
    head = next(step for step in steps if isinstance(step, Head))
    assert head.length == len(body_of(steps))
    json.loads(body_of(steps))


@every_protocol
@pytest.mark.parametrize(("kind", "ending"), [("cut", Cut()), ("reset", Reset()), ("silence", Hang()), ("end", End())])
def test_not_streaming_half_a_body(protocol, kind, ending):
    steps = perform(protocol, f"sim: fail={kind}", stream=False)
    assert steps[-1] == ending
    with pytest.raises(ValueError):
        json.loads(body_of(steps))


@every_protocol
def test_not_streaming_an_error_is_a_status(protocol):
    head = next(step for step in perform(protocol, "sim: fail=error", stream=False) if isinstance(step, Head))
    assert head.status == 500


@every_protocol
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("label", ["gzip", "gzip-unlabelled"])
def test_gzip(protocol, stream, label):
    plain = body_of(perform(protocol, "sim: events=3 input=9", stream=stream))
    steps = perform(protocol, f"sim: events=3 input=9 wire={label}", stream=stream)
    head = next(step for step in steps if isinstance(step, Head))
    assert dict(head.headers).get("content-encoding") == ("gzip" if label == "gzip" else None)
    packed = body_of(steps)
    assert zlib.decompressobj(wbits=31).decompress(packed) == plain


def test_a_custom_tool_of_a_namespace_is_called_as_such():
    tools = [{"type": "namespace", "name": "box", "tools": [{"type": "custom", "name": "exec"}]}]
    script = """sim: events=0 tool=box__exec args='{"input":"let x = 1"}'"""
    events = data_of(body_of(perform(Protocol.RESPONSES, script, tools=tools)))
    pieces = [event["delta"] for event in events if event["type"] == "response.custom_tool_call_input.delta"]
    [item] = events[-1]["response"]["output"]
    assert "".join(pieces) == item["input"] == "let x = 1"
    assert (item["type"], item["namespace"], item["name"]) == ("custom_tool_call", "box", "exec")
