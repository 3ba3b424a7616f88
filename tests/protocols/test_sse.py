"""The splitter: the standard's grammar, every way to cut a body into reads, and what goes beyond the standard."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptrio.limits import EVENT_LARGE_BYTES
from hoptrio.protocols.events import SseEvent
from hoptrio.protocols.sse import KEEPALIVE, Splitter, data_event, named_event
from tests.support.standard_sse import standard

ENDS = {"lf": b"\n", "crlf": b"\r\n", "cr": b"\r"}


def split(*reads, **options):
    splitter = Splitter(**options)
    return [event for read in reads for event in splitter.feed(read)] + splitter.finish()


def bytewise(body):
    return [body[at : at + 1] for at in range(len(body))]


def both_ways(body):
    """The events of a body read whole, which must be those of a body read byte by byte."""
    events = split(body)
    assert split(*bytewise(body)) == events
    return events


def datas(body):
    return [event.data for event in both_ways(body)]


def test_an_event_is_its_data():
    assert both_ways(b"data: one\n\ndata: two\n\n") == [SseEvent(b"", b"one"), SseEvent(b"", b"two")]


def test_an_event_has_a_name():
    assert both_ways(b"event: ping\ndata: {}\n\n") == [SseEvent(b"ping", b"{}")]
    assert both_ways(b"data: {}\nevent: ping\n\n") == [SseEvent(b"ping", b"{}")]


def test_a_name_does_not_outlive_its_event():
    assert both_ways(b"event: a\n\ndata: x\n\n") == [SseEvent(b"", b"x")]


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_case_81_every_line_end_gives_the_same_events(end):
    body = b"event: a\ndata: 1\ndata: 2\n\n: c\n\ndata: 3\n\n".replace(b"\n", end)
    assert both_ways(body) == [SseEvent(b"a", b"1\n2"), SseEvent(b"", b"3")]


def test_case_81_mixed_line_ends_give_the_same_events():
    assert datas(b"data: 1\n\r\ndata: 2\r\n\ndata: 3\r\rdata: 4\r\n\r\n") == [b"1", b"2", b"3", b"4"]


def test_case_82_a_cut_between_cr_and_lf_is_no_blank_line():
    assert split(b"data: 1\r", b"\ndata: 2\r", b"\n\r", b"\n") == [SseEvent(b"", b"1\n2")]


def test_an_empty_read_between_cr_and_lf_changes_nothing():
    assert split(b"data: 1\r", b"", b"\ndata: 2\r\n\r\n") == [SseEvent(b"", b"1\n2")]


def test_a_lone_cr_ends_its_line_at_once():
    assert Splitter().feed(b"data: 1\r\r") == [SseEvent(b"", b"1")]


def test_case_85_a_byte_order_mark_is_dropped_once():
    assert datas(b"\xef\xbb\xbfdata: 1\n\n") == [b"1"]
    assert datas(b"\xef\xbb\xbf\xef\xbb\xbfdata: 1\n\n") == []
    assert datas(b"data: \xef\xbb\xbf1\n\n") == [b"\xef\xbb\xbf1"]


def test_case_80_text_cut_inside_a_character_is_whole_again():
    data = json.dumps({"t": "你好😀"}, ensure_ascii=False).encode()
    assert datas(b"data: " + data + b"\n\n") == [data]


def test_case_40_data_may_lack_its_space_and_loses_one_only():
    assert datas(b"data:1\n\ndata: 2\n\ndata:  3\n\ndata:\n\n") == [b"1", b"2", b" 3", b""]


def test_data_over_several_lines_is_joined():
    assert datas(b'data: {"a":\ndata: 1}\n\ndata: x\ndata\ndata: y\n\n') == [b'{"a":\n1}', b"x\n\ny"]


def test_case_10_comments_are_nothing():
    assert datas(b": OPENROUTER PROCESSING\n\n:\n\n: a\ndata: 1\n: b\n\n: c\n") == [b"1"]


def test_case_01_id_and_retry_are_nothing():
    assert datas(b"id: 1\n\nretry: 1000\n\nid: 2\ndata: 1\nretry: 5\n\n") == [b"1"]


def test_a_name_without_data_dispatches_nothing():
    assert both_ways(b"event: x\n\n\n\n\ndata: 1\n\n") == [SseEvent(b"", b"1")]


def test_unknown_fields_are_nothing():
    assert datas(b"foo: bar\nbaz\ndata: 1\n\ndatax: 2\n\n") == [b"1"]


def test_other_line_separators_are_text():
    data = "a\u2028b\u0085c\x0bd".encode()
    assert datas(b"data: " + data + b"\n\n") == [data]


def test_case_84_a_whole_last_event_counts_without_its_blank_line():
    assert datas(b'data: 1\n\ndata: {"a":1}\n') == [b"1", b'{"a":1}']
    assert datas(b'data: {"a":1}') == [b'{"a":1}']
    assert both_ways(b"event: x\ndata: [DONE]") == [SseEvent(b"x", b"[DONE]")]


def test_case_84_a_last_event_that_was_cut_is_dropped():
    assert datas(b'data: 1\n\ndata: {"a":') == [b"1"]
    assert datas(b"data: 1\n\ndata: [DON") == [b"1"]
    assert datas(b"data: 1\n\nevent: x\n") == [b"1"]


def test_an_object_printed_raw_is_a_stray_event():
    assert both_ways(b'data: 1\n\n{"error":{"code":1}}\n\n') == [
        SseEvent(b"", b"1"),
        SseEvent(b"", b'{"error":{"code":1}}', stray=True),
    ]


def test_an_object_printed_over_several_lines_is_one_stray_event():
    pretty = b'{\n  "error": {\n    "data": "x",\n    "code": 499\n  }\n}'
    assert both_ways(b"data: 1\n\n" + pretty + b"\n")[1:] == [SseEvent(b"", pretty, stray=True)]


def test_an_object_behind_an_error_field_is_a_stray_event():
    assert both_ways(b'error: {"detail":"x"}\n\n') == [SseEvent(b"", b'{"detail":"x"}', stray=True)]


def test_a_stray_object_beside_data_loses_neither():
    assert both_ways(b'data: 1\n{"error":1}\n\n') == [SseEvent(b"", b"1"), SseEvent(b"", b'{"error":1}', stray=True)]


def test_what_only_looks_like_an_object_is_nothing():
    assert both_ways(b'{"error":\n\n{not json}\n\nerror: text\n\n') == []


def test_case_88_an_event_of_megabytes_passes():
    image = b'{"b64":"' + b"A" * (6 << 20) + b'"}'
    body = b"data: " + image + b"\n\n"
    reads = [body[at : at + 65536] for at in range(0, len(body), 65536)]
    assert split(*reads) == [SseEvent(b"", image)]


@pytest.mark.parametrize("reads", [[b"data: " + b"x" * 100 + b"\n\n"], [b"data: ", b"x" * 60, b"x" * 60, b"\n\n"]])
def test_case_88_an_event_over_the_limit_is_a_flag_and_frees_its_bytes(reads):
    splitter = Splitter(event_bytes_max=64)
    assert splitter.feed(b"data: 1\n\n") == [SseEvent(b"", b"1")]
    assert [event for read in reads for event in splitter.feed(read)] == []
    assert splitter.too_large
    assert splitter.feed(b"data: 2\n\n") == []
    assert splitter.finish() == []


def test_many_small_events_in_one_read_are_not_too_large():
    splitter = Splitter(event_bytes_max=64)
    assert len(splitter.feed(b"data: 12345\n\n" * 100)) == 100
    assert not splitter.too_large


def test_a_large_unfinished_event_shows_its_growth():
    splitter = Splitter()
    splitter.feed(b"data: " + b"x" * EVENT_LARGE_BYTES)
    before = splitter.partial_bytes
    splitter.feed(b"x" * 1000)
    assert splitter.partial_bytes == before + 1000
    splitter.feed(b"\n\n")
    assert splitter.partial_bytes == 0


def test_case_14_neither_pings_nor_comments_ever_show_growth():
    splitter = Splitter()
    seen = set()
    for _ in range(2000):
        for read in (b": hb\n", b"\n", b": " + b"x" * 100, b"\n", b"event: ping\n", b"data: {}\n\n"):
            splitter.feed(read)
            seen.add(splitter.partial_bytes)
    assert seen == {0}


def test_a_comment_inside_a_large_event_is_not_growth():
    splitter = Splitter()
    splitter.feed(b"data: " + b"x" * EVENT_LARGE_BYTES + b"\n")
    before = splitter.partial_bytes
    splitter.feed(b": hb")
    assert splitter.partial_bytes == before
    splitter.feed(b" hb\n: hb\n")
    assert splitter.partial_bytes == before


def test_an_event_is_written_as_it_was_read():
    assert data_event(b"{}") == b"data: {}\n\n"
    assert data_event(b"a\nb") == b"data: a\ndata: b\n\n"
    assert named_event(b"x", b"a\nb") == b"event: x\ndata: a\ndata: b\n\n"
    assert split(KEEPALIVE, named_event(b"x", b"a\n\nb"), KEEPALIVE) == [SseEvent(b"x", b"a\n\nb")]


events = st.lists(
    st.tuples(
        st.sampled_from([b"", b"ping", b"a.b"]),
        st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), min_size=1).map(str.encode),
        st.sampled_from([b"", b": c\n", b"id: 1\n", b"retry: 1\n", b"\n", b": c\n\n"]),
    ),
    max_size=8,
)


@given(events, st.sampled_from(sorted(ENDS)), st.lists(st.integers(0, 400), max_size=8), st.booleans())
def test_any_cuts_and_line_ends_give_the_same_events(written, end, places, mark):
    body = b"".join(
        noise + (b"event: " + name + b"\n" if name else b"") + b"data: " + data + b"\n\n"
        for name, data, noise in written
    ).replace(b"\n", ENDS[end])
    body = (b"\xef\xbb\xbf" if mark else b"") + body
    cuts = sorted({min(place, len(body)) for place in places} | {0, len(body)})
    reads = [body[start:stop] for start, stop in pairwise(cuts)]
    splitter = Splitter()
    found = [event for read in reads for event in splitter.feed(read)]
    assert found == [SseEvent(name, data) for name, data, _ in written]
    assert splitter.finish() == []


@given(st.lists(st.sampled_from([b"data: x", b"event: e", b": c", b"id", b"\n", b"\r", b"\r\n", b"\n\n"]), max_size=30))
def test_any_soup_of_lines_is_read_as_the_standard_reads_it(parts):
    body = b"".join(parts)
    splitter = Splitter()
    whole = splitter.feed(body)
    assert whole == standard(body)
    other = Splitter()
    assert [event for read in bytewise(body) for event in other.feed(read)] == whole
