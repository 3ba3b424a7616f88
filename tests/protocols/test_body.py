"""Bodies: what is not one JSON object in UTF-8 is refused in clear words; what is, keeps its meaning."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoptrio.errors import BadRequest
from hoptrio.limits import JSON_BRACKETS_MAX, JSON_DEPTH_MAX
from hoptrio.protocols.body import encode_object, parse_object

BAD = {
    "empty": b"",
    "white space": b"  \n",
    "array": b'["secret"]',
    "null": b"null",
    "number": b"17",
    "cut": b'{"a": "secret',
    "trailing": b'{"a": "secret"} x',
    "comma": b'{"a": "secret",}',
    "single quotes": b"{'a': 'secret'}",
    "NaN": b'{"secret": NaN}',
    "infinity": b'{"secret": Infinity}',
    "beyond a double": b'{"secret": 1e400}',
    "beyond any integer": b'{"secret": ' + b"9" * 5000 + b"}",
    "latin-1": b'{"a": "secret \xe9"}',
    "UTF-8 surrogate": b'{"a": "secret \xed\xa0\x80"}',
    "overlong": b'{"a": "secret \xc0\xaf"}',
    "half a pair": b'{"a": "secret \\ud83d"}',
    "halves swapped": b'{"a": "secret \\ude00\\ud83d"}',
    "half a pair in a key": b'{"secret \\ud83d": 1}',
    "control character": b'{"a": "secret \x01"}',
    "byte order mark": b'\xef\xbb\xbf{"a": "secret"}',
    "UTF-16": '{"a": "secret"}'.encode("utf-16"),
    "form": b"a=secret&b=1",
}


@pytest.mark.parametrize("body", BAD.values(), ids=BAD.keys())
def test_a_bad_body_is_refused_without_quoting_it(body):
    with pytest.raises(BadRequest) as caught:
        parse_object(body)
    assert caught.value.code == "invalid_json"
    assert "secret" not in caught.value.message


@pytest.mark.parametrize(
    ("body", "end"),
    [
        (b'{"a": "\\ud800"}', 13),
        (b'{"\\uDBFF":1}', 8),
        (b'{"a": "\\ud800"    }', 13),
        (b'{"a": "\\ud800", "b": "and so on"}', 13),
        (b'{"a": "\\\\\\ud800"}', 15),
    ],
)
def test_half_of_a_surrogate_pair_is_told_as_what_it_is(body, end):
    with pytest.raises(BadRequest) as caught:
        parse_object(body)
    told = "The request body cannot be used: a string is not valid text: half of a surrogate pair (byte "
    assert caught.value.message == f"{told}{end})."


@pytest.mark.parametrize(
    "cut", [b'{"a": "\\ud83d', b'{"a": "\\ud83d\\', b'{"a": "\\ud83d\\ude0', b'{"a": "x\\\\ud800ab', b'{"a": "\\u12']
)
def test_a_body_that_was_cut_is_told_as_one(cut):
    with pytest.raises(BadRequest, match="truncated"):
        parse_object(cut)


def nested(depth: int) -> bytes:
    return b'{"a":' * depth + b"1" + b"}" * depth


def test_nesting_up_to_the_limit_passes():
    assert parse_object(nested(JSON_DEPTH_MAX))


@pytest.mark.parametrize("depth", [JSON_DEPTH_MAX + 1, 5_000, 300_000])
def test_deeper_nesting_is_refused(depth):
    with pytest.raises(BadRequest, match="nested deeper"):
        parse_object(nested(depth))


def test_brackets_inside_strings_are_not_nesting():
    text = "[{" * 10_000
    assert parse_object(json.dumps({"a": text}).encode()) == {"a": text}


def test_a_body_of_countless_values_is_refused():
    with pytest.raises(BadRequest, match="too many"):
        parse_object(b'{"a":[' + b"[]," * JSON_BRACKETS_MAX + b"0]}")


def test_the_last_of_duplicate_keys_is_the_one_read_and_the_one_sent():
    body = parse_object(b'{"n": 1, "a": {"x": 1, "x": 2}, "n": 9}')
    assert body == {"n": 9, "a": {"x": 2}}
    assert encode_object(body) == b'{"n":9,"a":{"x":2}}'


@pytest.mark.parametrize(
    "number", ["18446744073709551616", "-9223372036854775809", "9" * 40, "0.1", "-0.0", "1e22", "5e-324"]
)
def test_numbers_keep_their_value(number):
    sent = encode_object(parse_object(f'{{"a":{number}}}'.encode()))
    assert repr(json.loads(sent)["a"]) == repr(json.loads(number))


def test_escapes_become_the_characters_they_stand_for():
    assert encode_object(parse_object(rb'{"a":"\ud83d\ude00 \u0000 \/"}')) == '{"a":"😀 \\u0000 /"}'.encode()


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(), children, max_size=3),
    max_leaves=20,
)


@settings(deadline=None, derandomize=True, max_examples=50)
@given(st.dictionaries(st.text(), JSON_VALUES, max_size=5), st.booleans())
def test_parsing_and_serialising_keeps_the_meaning(value, ascii_only):
    body = json.dumps(value, ensure_ascii=ascii_only).encode()
    assert json.loads(encode_object(parse_object(body))) == value
