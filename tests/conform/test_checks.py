"""Each check says what is wrong with an answer that is made to be wrong, and nothing of one that is right."""

from __future__ import annotations

import json

import pytest

from hoptrio.conform.case import Trial
from hoptrio.conform.checks import additions, endings, failures, provider, relaying
from hoptrio.conform.settings import Settings
from hoptrio.conform.upstream import Asked
from hoptrio.conform.verdict import Verdict
from hoptrio.conform.wire import Ending, Wire, read
from hoptrio.protocols.events import Protocol
from hoptrio.simulator.seen import Seen
from tests.support.streams import CHAT, GEMINI, MESSAGES, RESPONSES, SAMPLES, data, named

SETTINGS = Settings()
each_sample = pytest.mark.parametrize("sample", list(SAMPLES.values()), ids=SAMPLES)


def asked(*events, outcome="ended", body=b"{}"):
    made = Asked(Seen(1, "POST", "/v1/chat/completions", (), body))
    made.seen.outcome = outcome
    made.sent = list(events)
    made.sent_s = [0.3 * at for at in range(len(made.sent))]
    return made


def trial(sample, *events, ending=Ending.CLEAN, status=200, ended_s=1.0, sent=None, headers=None, **more):
    """An answer of these events (or (time, bytes) pairs), to a request for which the provider sent `sent`."""
    pieces = tuple(each if isinstance(each, tuple) else (0.5, each) for each in events)
    wire = Wire(
        status=status,
        headers=headers or {},
        pieces=pieces,
        ending=ending,
        ended_s=ended_s,
        reading=read(pieces),
        interim=more.pop("interim", ()),
    )
    channel = more.pop("channel", Protocol(sample.kind))
    theirs = more.pop("asked", None)
    theirs = (asked(*(sample.events if sent is None else sent), **more),) if theirs is None else theirs
    return Trial(protocol=Protocol(sample.kind), channel=channel, settings=SETTINGS, wire=wire, asked=theirs)


def verdict(found):
    return Verdict.PASS if found is None else found.verdict


def said(found):
    return "" if found is None else found.words


@each_sample
def test_a_whole_answer_is_complete_and_no_break(sample):
    whole = trial(sample, *sample.events)
    assert endings.complete(whole) is None
    assert relaying.relayed(whole) is None
    assert endings.no_error(whole) is None
    assert verdict(endings.broken(whole)) is Verdict.FAIL


@each_sample
def test_half_an_answer_is_broken_if_the_connection_or_an_error_says_so_and_only_then(sample):
    half = [*sample.opening, *sample.answer]
    assert endings.broken(trial(sample, *half, ending=Ending.TRUNCATED)) is None
    assert endings.broken(trial(sample, *half, ending=Ending.RESET)) is None
    assert endings.broken(trial(sample, *half, sample.error)) is None
    assert endings.broken(trial(sample, status=502)) is None
    assert said(endings.broken(trial(sample, *half))) == "a broken stream ended like a complete one"
    assert "still open" in said(endings.broken(trial(sample, *half, ending=Ending.OPEN)))


@each_sample
def test_case_27_a_terminal_behind_an_error_is_a_fault(sample):
    told = trial(sample, *sample.opening, *sample.answer, sample.error, *sample.terminal)
    assert said(endings.no_terminal(told)) == "a broken stream got a terminal behind its error"


@each_sample
def test_a_complete_stream_that_is_cut_or_told_as_an_error_is_a_fault(sample):
    assert "ended truncated" in said(endings.complete(trial(sample, *sample.events, ending=Ending.TRUNCATED)))
    assert "as an error" in said(endings.complete(trial(sample, *sample.events, sample.error)))
    assert said(endings.complete(trial(sample, status=503))) == "answered 503"


@each_sample
def test_an_answer_that_lost_a_piece_is_a_fault_and_one_that_is_written_anew_a_note(sample):
    lost = [each for each in sample.events if each is not sample.answer[-1]]
    assert "the answer was changed" in said(relaying.relayed(trial(sample, *lost)))
    anew = [each.replace(b'"id":', b'"id": ').replace(b'"index":', b'"index": ') for each in sample.events]
    found = relaying.relayed(trial(sample, *anew))
    assert (found.verdict, found.words) == (Verdict.PASS, relaying.WRITTEN_ANEW)


@each_sample
def test_what_came_before_a_failure_has_to_arrive(sample):
    sent = [*sample.opening, *sample.answer]
    assert relaying.relayed_so_far(trial(sample, *sent, sample.error, sent=sent)) is None
    assert "changed" in said(relaying.relayed_so_far(trial(sample, *sent[:-1], sample.error, sent=sent)))
    assert "was lost: answered 502" in said(relaying.relayed_so_far(trial(sample, status=502, sent=sent)))


def test_case_05_a_stall_is_open_at_the_end_or_ended_in_time():
    assert endings.stalled(trial(CHAT, ending=Ending.TRUNCATED, ended_s=121)) is None
    assert verdict(endings.stalled(trial(CHAT, ending=Ending.OPEN, ended_s=160))) is Verdict.FAIL
    assert verdict(endings.stalled(trial(CHAT, ending=Ending.TRUNCATED, ended_s=10))) is Verdict.POLICY
    assert verdict(endings.stalled(trial(CHAT, ending=Ending.CLEAN, ended_s=121))) is Verdict.FAIL


@pytest.mark.parametrize(
    ("ended_s", "ending", "expected"),
    [
        (601, Ending.TRUNCATED, Verdict.PASS),
        (601, Ending.CLEAN, Verdict.FAIL),
        (300, Ending.TRUNCATED, Verdict.FAIL),
        (640, Ending.CLEAN, Verdict.POLICY),
    ],
)
def test_case_18_a_steady_stream_ends_at_the_deadline_and_visibly(ended_s, ending, expected):
    cut = trial(CHAT, *CHAT.opening, *CHAT.answer, ending=ending, ended_s=ended_s)
    assert verdict(endings.deadline_kept(cut)) is expected


def test_case_17_an_error_and_an_open_stream():
    within = endings.ended_within(endings.CLOSE_S)
    assert within(trial(CHAT, (1.0, CHAT.error), ended_s=1.5)) is None
    assert "4.0 s after its failure" in said(within(trial(CHAT, (1.0, CHAT.error), ended_s=5.0)))
    assert verdict(within(trial(CHAT, (1.0, CHAT.answer[0]), ending=Ending.OPEN))) is Verdict.FAIL


def test_case_11_a_silence_with_keepalives_without_and_with_too_few():
    check = additions.kept_alive(SETTINGS.long_idle_s)
    beats = [(float(at), b": hb\n\n") for at in (10, 20)]
    assert check(trial(CHAT, (0.0, CHAT.answer[0]), *beats, (25.0, CHAT.answer[1]))) is None
    assert verdict(check(trial(CHAT, (0.0, CHAT.answer[0]), (25.0, CHAT.answer[1])))) is Verdict.POLICY
    assert verdict(check(trial(CHAT, (0.0, CHAT.answer[0]), beats[1], (25.0, CHAT.answer[1])))) is Verdict.FAIL


def test_case_04_what_comes_in_a_silence_is_a_comment_or_forged():
    ping, chunk = named({"type": "ping"}), CHAT.opening[0]
    check = additions.no_forged_events
    assert check(trial(CHAT, (0.0, CHAT.answer[0]), (10.0, b": hb\n\n"), (14.0, CHAT.answer[1]))) is None
    assert verdict(check(trial(CHAT, (0.0, CHAT.answer[0]), (10.0, chunk), (14.0, CHAT.answer[1])))) is Verdict.FAIL
    assert verdict(check(trial(MESSAGES, (0.0, MESSAGES.opening[0]), (10.0, ping)))) is Verdict.POLICY
    assert verdict(check(trial(GEMINI, (0.0, GEMINI.answer[0]), (10.0, b": hb\n\n")))) is Verdict.FAIL


def test_case_10_a_comment_of_the_provider_as_comment_and_as_data():
    noise = b": PROCESSING\n\n"
    sent = [noise, *CHAT.events]
    assert additions.no_noise(trial(CHAT, *CHAT.events, sent=sent)) is None
    assert verdict(additions.no_noise(trial(CHAT, noise, *CHAT.events, sent=sent))) is Verdict.POLICY
    assert verdict(additions.no_noise(trial(GEMINI, noise, *GEMINI.events, sent=[noise]))) is Verdict.FAIL
    assert verdict(additions.no_noise(trial(CHAT, b"data: PROCESSING\n\n", sent=sent))) is Verdict.FAIL


def test_case_08_an_interim_response_is_a_fault():
    assert additions.no_interim(trial(CHAT, *CHAT.events)) is None
    assert said(additions.no_interim(trial(CHAT, *CHAT.events, interim=(102,)))) == "an interim 102 was sent"


def test_case_22_a_chunk_that_nobody_sent_is_invented():
    sent = CHAT.opening
    assert additions.nothing_invented(trial(CHAT, *sent, CHAT.error, sent=sent)) is None
    assert said(additions.nothing_invented(trial(CHAT, *sent, *CHAT.terminal, sent=sent))) == "output was invented"
    assert said(additions.nothing_invented(trial(CHAT, *CHAT.answer, sent=sent))) == "output was invented"


def test_case_30_a_failed_response_is_the_next_event_of_its_own_response():
    begun = [*RESPONSES.opening, *RESPONSES.answer]
    value = {"type": "response.failed", "sequence_number": 6}
    response = {"id": "resp_1", "error": {"code": "server_error", "message": "boom"}}
    good = named(value | {"response": response})
    assert failures.failed_response_goes_on(trial(RESPONSES, *begun, good)) is None
    for wrong, words in [
        (named(value | {"response": response | {"id": "resp_2"}}), "of another response"),
        (named(value | {"response": response, "sequence_number": 9}), "not the next sequence number"),
        (named(value | {"response": response | {"error": {"code": "oops"}}}), "a code that clients do not know"),
        (named({"type": "error", "message": "boom"}), "an error event that clients ignore"),
    ]:
        assert words in said(failures.failed_response_goes_on(trial(RESPONSES, *begun, wrong)))
    cut = trial(RESPONSES, *begun, ending=Ending.TRUNCATED)
    assert verdict(failures.failed_response_goes_on(cut)) is Verdict.POLICY


def test_case_28_an_error_has_the_shape_of_its_protocol():
    assert failures.error_is_whole(trial(CHAT, CHAT.error)) is None
    assert failures.error_is_whole(trial(MESSAGES, MESSAGES.error)) is None
    unnamed = MESSAGES.error.partition(b"\n")[2]
    assert "lacks its name" in said(failures.error_is_whole(trial(MESSAGES, unnamed)))
    assert "no message" in said(failures.error_is_whole(trial(CHAT, data({"error": "boom"}))))
    words = data({"error": {"code": "503", "message": "boom"}})
    assert "no integer" in said(failures.error_is_whole(trial(GEMINI, words)))
    assert "told twice" in said(failures.error_is_whole(trial(CHAT, CHAT.error, CHAT.error)))


@each_sample
def test_case_32_the_providers_error_arrives_once(sample):
    sent = [*sample.opening, sample.error]
    assert failures.forwarded_failure(trial(sample, *sent, sent=sent)) is None
    twice = trial(sample, *sent, sample.error, sent=sent)
    assert said(failures.forwarded_failure(twice)) == "the failure was told twice"
    lost = trial(sample, *sample.opening, sent=sent)
    assert said(failures.forwarded_failure(lost)) == "the provider's error was lost"
    cut = trial(sample, *sample.opening, sent=sent, ending=Ending.TRUNCATED)
    assert verdict(failures.forwarded_failure(cut)) is Verdict.POLICY


def test_case_32_an_error_event_of_responses_may_be_followed_by_the_failed_response():
    error = named({"type": "error", "code": "server_error", "message": "boom"})
    assert failures.forwarded_failure(trial(RESPONSES, error, RESPONSES.error, sent=[error])) is None


def test_case_34_a_page_is_refused_or_relayed():
    page = b"<html>"
    assert failures.refused_page(trial(CHAT, status=502)) is None
    assert said(failures.refused_page(trial(CHAT, page))) == "the page was relayed"
    assert verdict(failures.refused_page(trial(CHAT, CHAT.error))) is Verdict.POLICY
    assert verdict(failures.refused_page(trial(CHAT, *CHAT.terminal))) is Verdict.FAIL


def test_case_37_a_second_beginning_is_a_fault():
    assert relaying.one_opening(trial(MESSAGES, *MESSAGES.opening)) is None
    again = MESSAGES.opening[0].replace(b"msg_1", b"msg_2")
    assert said(relaying.one_opening(trial(MESSAGES, *MESSAGES.opening, again))) == "the answer began 2 times"


def test_case_41_a_text_that_is_wiped_is_a_fault():
    assert relaying.text_is_whole(trial(RESPONSES, *RESPONSES.events)) is None
    wiped = [each.replace(b'"text":"Hello","logprobs"', b'"text":"","logprobs"') for each in RESPONSES.events]
    assert "not the sum of its deltas" in said(relaying.text_is_whole(trial(RESPONSES, *wiped)))


def test_case_84_a_last_event_is_decided_one_way_or_the_other():
    bare = RESPONSES.terminal[0].rstrip(b"\n")
    sent = [*RESPONSES.events[:-1], bare]
    check = relaying.last_event_decided
    assert check(trial(RESPONSES, *RESPONSES.events, sent=sent)) is None
    failed = trial(RESPONSES, *RESPONSES.events[:-1], ending=Ending.TRUNCATED, sent=sent)
    assert verdict(check(failed)) is Verdict.POLICY
    assert "the terminal was lost" in said(check(trial(RESPONSES, *RESPONSES.events[:-1], sent=sent)))


def test_case_87_an_array_is_one_json_value_with_all_that_was_said():
    values = [json.loads(each[6:]) for each in GEMINI.events]
    body = json.dumps(values).encode()
    check = relaying.array_is_json
    assert check(trial(GEMINI, body)) is None
    assert "no JSON array" in said(check(trial(GEMINI, *GEMINI.events)))
    assert "changed" in said(check(trial(GEMINI, json.dumps(values[1:]).encode())))
    assert verdict(check(trial(GEMINI, status=400))) is Verdict.POLICY


def test_case_92_a_forged_event_is_seen():
    assert additions.no_smuggled_event(trial(MESSAGES, *MESSAGES.events)) is None
    forged = b"event: x\ndata: {}\n\nevent: forged\ndata: 1\n\n"
    assert verdict(additions.no_smuggled_event(trial(MESSAGES, forged))) is Verdict.FAIL


def test_case_97_buffering_and_missing_headers_are_seen():
    headers = {"x-accel-buffering": "no", "cache-control": "no-cache, no-transform"}
    spread = [(at * 0.3, event) for at, event in enumerate(CHAT.events)]
    check = relaying.unbuffered
    assert check(trial(CHAT, *spread, headers=headers)) is None
    assert "events sent over 1.5 s came within 0.0 s" in said(check(trial(CHAT, *CHAT.events, headers=headers)))
    assert verdict(check(trial(CHAT, *spread, headers={"cache-control": "no-cache"}))) is Verdict.FAIL
    lax = headers | {"cache-control": "no-cache"}
    assert verdict(check(trial(CHAT, *spread, headers=lax))) is Verdict.POLICY


def test_case_65_usage_that_nobody_asked_for_is_seen():
    bare = [*CHAT.opening, *CHAT.answer, CHAT.closing[0], *CHAT.terminal]
    assert additions.usage_withheld(trial(CHAT, *bare)) is None
    assert verdict(additions.usage_withheld(trial(CHAT, *CHAT.events))) is Verdict.FAIL
    assert additions.usage_withheld(trial(CHAT, status=400, asked=())) is None


def test_case_61_usage_on_a_chunk_with_choices_is_seen():
    assert additions.usage_chunk_is_bare(trial(CHAT, *CHAT.events)) is None
    full = data({"choices": [{"index": 0, "delta": {}}], "usage": {"total_tokens": 1}})
    assert verdict(additions.usage_chunk_is_bare(trial(CHAT, full))) is Verdict.FAIL
    assert verdict(additions.usage_chunk_is_bare(trial(CHAT, *CHAT.terminal))) is Verdict.FAIL


def test_case_74_a_turn_goes_to_the_model_that_it_names():
    assert provider.asked_its_channel(trial(CHAT)) is None
    assert verdict(provider.asked_its_channel(trial(RESPONSES, channel=Protocol.RESPONSES))) is Verdict.FAIL


def test_case_20_a_second_request_is_a_fault():
    assert provider.asked_once(trial(CHAT)) is None
    assert said(provider.asked_once(trial(CHAT, asked=(asked(), asked())))) == "the provider was asked 2 times"


@pytest.mark.parametrize(
    ("outcome", "expected"), [("ended", Verdict.PASS), ("client_gone", Verdict.POLICY), ("open", Verdict.FAIL)]
)
def test_case_45_a_provider_is_read_to_its_end_or_left_or_held_up(outcome, expected):
    left = trial(CHAT, ending=Ending.LEFT, outcome=outcome)
    assert verdict(provider.drained(left)) is verdict(provider.drained_unread(left)) is expected


def test_case_70_a_limit_beyond_any_models_is_lowered():
    lowered, wish = b'{"max_tokens":100000}', b'{"max_tokens":%d}' % provider.FANTASY
    assert provider.limit_lowered(trial(CHAT, *CHAT.events, body=lowered)) is None
    assert verdict(provider.limit_lowered(trial(CHAT, *CHAT.events, body=wish))) is Verdict.POLICY
    assert provider.limit_lowered(trial(CHAT, status=402, asked=())) is None


def test_case_75_an_id_of_somebody_else_is_refused_or_passed_on():
    assert provider.stranger_refused(trial(RESPONSES, status=404, asked=())) is None
    assert verdict(provider.stranger_refused(trial(RESPONSES, *RESPONSES.events))) is Verdict.POLICY


@each_sample
@pytest.mark.parametrize("body", [b"data: 1\n\n", b"data: [1]\n\n", b'data: {"error":1,"delta":2,"response":3}\n\n'])
def test_no_answer_is_too_strange_for_a_check(sample, body):
    strange = trial(sample, body, body)
    for room in (additions, endings, failures, provider, relaying):
        for name in room.__all__:
            check = getattr(room, name)
            if callable(check) and name not in ("ended_within", "kept_alive", "compare"):
                check(strange)
