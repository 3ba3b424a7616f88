"""A body as a client's parser reads it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hoptrio.conform.wire import read
from tests.support.standard_sse import standard

LINES = st.sampled_from([b"data: a", b"data:b", b"event: e", b"id: 1", b": hb", b"", b"retry: 5", b"x"])
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


def reading(body):
    return read([(0.0, body)])


@given(st.lists(st.tuples(LINES, ENDS), max_size=30), st.integers(0, 200))
def test_it_reads_what_the_standard_reads_however_it_is_cut(lines, at):
    body = b"".join(line + end for line, end in lines)
    found = read([(1.0, body[:at]), (2.0, body[at:])])
    assert [(event.name, event.data) for event in found.events] == [(each.name, each.data) for each in standard(body)]


def test_an_event_has_the_time_of_its_last_byte():
    found = read([(1.0, b"data: a\n\nda"), (2.0, b"ta: b\n"), (3.0, b"\n")])
    assert [(event.data, event.at_s) for event in found.events] == [(b"a", 1.0), (b"b", 3.0)]


def test_what_no_blank_line_ends_is_not_dispatched():
    assert reading(b"data: a\n").events == ()


def test_comments_and_fields_are_told_apart():
    found = reading(b": hb\n\nid: 1\nretry: 5\ndata: a\n\n")
    assert (found.comments, found.fields) == ((b"hb",), {b"id", b"retry"})


def test_case_01_a_comment_behind_an_id_is_an_event_without_data_to_a_popular_parser():
    assert reading(b": hb\n\nid: 1\ndata: a\n\n").empty_events == 0
    assert reading(b"id: 1\ndata: a\n\n: hb\n\n").empty_events == 1


def test_case_85_a_byte_order_mark_is_noted_and_hides_nothing():
    found = reading(b"\xef\xbb\xbfdata: a\n\n")
    assert (found.bom, [event.data for event in found.events]) == (True, [b"a"])
