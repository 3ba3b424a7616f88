from __future__ import annotations

import pytest

from hoptrio import limits
from hoptrio.downstream.head import check_raw_head, find_head_end, make_head
from hoptrio.errors import BadRequest, HeadTooLarge


def head(target=b"/", headers=(), version=b"1.1"):
    return make_head(b"GET", target, headers, version, "192.0.2.1")


def test_the_path_is_percent_decoded_and_the_target_kept():
    it = head(b"/v1/models/openai%2Fgpt%20x?key=a%26b&alt=sse")
    assert it.path == "/v1/models/openai/gpt x"
    assert it.target == b"/v1/models/openai%2Fgpt%20x?key=a%26b&alt=sse"
    assert it.query == {"key": "a&b", "alt": "sse"}


def test_the_last_of_repeated_query_values_stands():
    assert head(b"/?a=1&a=2&b=").query == {"a": "2", "b": ""}


def test_bytes_that_are_no_utf8_do_no_harm():
    assert head(b"/%FF?k=%FF").path == "/\ufffd"
    assert head(b"/%FF?k=%FF").query == {"k": "\ufffd"}


@pytest.mark.parametrize(
    ("target", "path"),
    [
        (b"http://gateway.test/v1/x?a=1", "/v1/x"),
        (b"https://gateway.test", "/"),
        (b"HTTP://gateway.test?a=1", "/"),
        (b"*", "*"),
        (b"//x/y", "//x/y"),
        (b"/a#frag", "/a"),
    ],
)
def test_target_forms(target, path):
    assert head(target).path == path


@pytest.mark.parametrize("target", [b"gateway.test:443", b"ftp://x/", b"v1/x"])
def test_a_target_that_is_no_path_is_refused(target):
    with pytest.raises(BadRequest):
        head(target)


def test_a_query_flood_is_refused():
    with pytest.raises(BadRequest):
        head(b"/?" + b"a&" * 5000)


def test_repeated_headers_are_joined():
    it = head(headers=[(b"accept", b"a"), (b"x", b"1"), (b"accept", b"b")])
    assert it.header("accept") == "a, b"
    assert it.header("x") == "1"
    assert it.header("y") is None


def test_a_header_beyond_ascii_is_latin_1():
    assert head(headers=[(b"x", b"\xe9")]).header("x") == "é"


@pytest.mark.parametrize("version", [b"2.0", b"0.9", b"3.1"])
def test_only_http_1_is_spoken(version):
    with pytest.raises(BadRequest):
        head(version=version)


def test_a_later_minor_version_is_treated_as_1_1():
    assert head(version=b"1.2").http_version == b"1.1"


def test_a_coded_http_1_0_body_is_refused():
    with pytest.raises(BadRequest):
        head(headers=[(b"transfer-encoding", b"chunked")], version=b"1.0")


GOOD = b"POST /v1/x HTTP/1.1\r\nHost: a\r\nX: \t b\xe9 \r\nContent-Length: 3\r\n\r\n"


def test_a_good_head_passes():
    check_raw_head(GOOD)


@pytest.mark.parametrize(
    "raw",
    [
        b"GET / HTTP/1.1\nHost: a\n\n",
        b"GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n\n",
        b"GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n",
        b"GET / HTTP/1.1\r\n\tHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\x00\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\x0b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\x7f\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nTRANSFER-ENCODING: x\r\ncontent-length: 5\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\ncontent-length: 5\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n\r\n",
    ],
)
def test_a_head_that_parsers_read_differently_is_refused(raw):
    with pytest.raises(BadRequest):
        check_raw_head(raw)


def test_too_many_headers_are_refused():
    lines = b"".join(b"X: %d\r\n" % n for n in range(limits.HEADERS_MAX))
    check_raw_head(b"GET / HTTP/1.1\r\n" + lines + b"\r\n")
    with pytest.raises(HeadTooLarge):
        check_raw_head(b"GET / HTTP/1.1\r\n" + lines + b"X: y\r\n\r\n")


def test_the_end_of_a_head_is_found_wherever_it_was_cut():
    for cut in range(1, len(GOOD)):
        inbox = bytearray(GOOD[:cut])
        assert find_head_end(inbox, 0) is None
        inbox += GOOD[cut:] + b"abc"
        assert find_head_end(inbox, cut) == len(GOOD)


def test_a_head_larger_than_the_limit_is_refused_whole_or_not():
    with pytest.raises(HeadTooLarge):
        find_head_end(bytearray(b"G" * (limits.HEAD_BYTES_MAX + 1)), 0)
    with pytest.raises(HeadTooLarge):
        find_head_end(bytearray(b"G" * limits.HEAD_BYTES_MAX + b"\r\n\r\n"), 0)


@pytest.mark.parametrize("first", [b"\x16\x03\x01", b"\n", b" GET", b"\r\r"])
def test_what_begins_no_request_is_refused_at_its_first_byte(first):
    with pytest.raises(BadRequest):
        find_head_end(bytearray(first), 0)


@pytest.mark.parametrize("first", [b"", b"\r", b"\r\n", b"G"])
def test_what_may_begin_a_request_is_not(first):
    assert find_head_end(bytearray(first), 0) is None
