"""Names and ids that every provider takes."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from hoptrio.protocols.convert.naming import ToolName, call_id, joined_name, names_by_join

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
TAKEN = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", fullmatch=True)


@given(TAKEN)
def test_what_all_take_is_left_alone(name):
    assert joined_name(name) == name
    assert call_id(name) == name


@given(TEXTS, TEXTS)
def test_anything_becomes_what_all_take_and_always_the_same(name, namespace):
    assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", joined_name(name, namespace))
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", call_id(name))
    assert joined_name(name, namespace) == joined_name(name, namespace)


@given(st.lists(TEXTS, unique=True, max_size=5))
def test_different_ids_stay_different(ids):
    assert len({call_id(each) for each in ids}) == len(ids)


def test_long_names_that_begin_alike_stay_different():
    assert len({joined_name("tool" * 30 + end) for end in "abc"}) == 3


def test_the_way_back_tells_what_the_client_calls_it():
    names = [ToolName("run"), ToolName("spawn", "agents"), ToolName("patch", custom=True), ToolName("9.lives")]
    table = names_by_join(names)
    assert table["agents__spawn"] == ToolName("spawn", "agents")
    assert list(table.values()) == names
