"""Raw JSON members: emptiness, and a member cut out of an object with nothing else changed."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoptrio.protocols.members import ABSENT, cut_member, cut_usage, is_filled, is_object, loads, split_members


@pytest.mark.parametrize("value", [b"null", b'""', b"[]", b"{}", b"false", b"0"])
def test_an_empty_value_says_nothing(value):
    assert not is_filled(msgspec.Raw(value))


@pytest.mark.parametrize("value", [b'"a"', b'" "', b"[0]", b'{"a":1}', b"true", b"1", b'"null"'])
def test_a_value_says_something(value):
    assert is_filled(msgspec.Raw(value))


def test_an_absent_member_says_nothing():
    assert not is_filled(ABSENT)


@pytest.mark.parametrize("data", [b"", b"[]", b'{"a":1', b'{"a":1}}', b"nope", b'{"a":' + b"[" * 100_000])
def test_what_is_no_object(data):
    assert not is_object(data)
    assert split_members(data) == {}


def test_half_a_surrogate_pair_hides_no_member():
    data = rb'{"text":"\ud83d","usage":{"a":1}}'
    assert is_object(data)
    assert bytes(split_members(data)["usage"]) == b'{"a":1}'
    assert loads(data)["usage"] == {"a": 1}


CUTS = {
    "last": (b'{"a":1,"usage":null}', b'{"a":1}'),
    "first": (b'{"usage":null,"a":1}', b'{"a":1}'),
    "between": (b'{"a":1,"usage":{"x":[1,2]},"b":2}', b'{"a":1,"b":2}'),
    "alone": (b'{"usage":1}', b"{}"),
    "spaced": (b'{ "a" : 1 , "usage" : null , "b" : 2 }', b'{ "a" : 1 , "b" : 2 }'),
    "in a text": (b'{"a":"\\"usage\\":null,","usage":null}', b'{"a":"\\"usage\\":null,"}'),
    "inside": (b'{"x_groq":{"usage":{"a":1}},"usage":null}', b'{"x_groq":{"usage":{"a":1}}}'),
    "inside a list": (b'{"c":[{"usage":1},"}"],"usage":2,"d":3}', b'{"c":[{"usage":1},"}"],"d":3}'),
    "twice": (b'{"usage":1,"a":2,"usage":{"b":"}"}}', b'{"a":2}'),
    "with escapes": (b'{"a":1,"\\u0075sage":2,"b":[{"usage":3}]}', b'{"a":1,"b":[{"usage":3}]}'),
}


@pytest.mark.parametrize(("data", "expected"), CUTS.values(), ids=CUTS)
def test_usage_is_cut(data, expected):
    value = split_members(data)["usage"]
    assert b"".join(cut_usage(data, value).split()) == b"".join(expected.split())
    assert b"".join(cut_member(data, "usage").split()) == b"".join(expected.split())


def test_all_other_bytes_stay():
    data = b'{"a": 1.50e1,"t":"\\u00e9\\/ \xc3\xa9" , "usage":null,"b" :[ ]\n}'
    assert cut_member(data, "usage") == b'{"a": 1.50e1,"t":"\\u00e9\\/ \xc3\xa9" ,"b" :[ ]\n}'


keys = st.sampled_from(["usage", "a", 'x"usage"', "usage\\", ",{", "é"]) | st.text(max_size=3)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=4,
)
layouts = st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", "\t:  ")])


@settings(max_examples=60)
@given(st.lists(st.tuples(keys, values), max_size=6), values, st.integers(0, 6), layouts, st.booleans())
def test_cutting_agrees_with_json(members, usage, place, layout, ascii_only):
    members.insert(min(place, len(members)), ("usage", usage))
    comma, colon = layout

    def dump(value):
        return json.dumps(value, separators=layout, ensure_ascii=ascii_only)

    data = ("{" + comma.join(dump(key) + colon + dump(value) for key, value in members) + "}").encode(
        "utf-8", "replace"
    )
    kept = {key: value for key, value in json.loads(data).items() if key != "usage"}
    value = split_members(data)["usage"]
    for short in (cut_usage(data, value), cut_member(data, "usage")):
        assert json.loads(short) == kept
        assert is_subsequence(short, data)


def is_subsequence(short, data):
    rest = iter(data)
    return all(byte in rest for byte in short)
