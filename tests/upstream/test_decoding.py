"""Labelled compression is undone as it comes, in bounded pieces."""

from __future__ import annotations

import gzip
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoptrio import limits
from hoptrio.upstream.decoding import decoder_for

TEXT = b'data: {"choices":[{"delta":{"content":"hello"}}]}\n\n' * 20


def raw_deflate(data: bytes) -> bytes:
    deflate = zlib.compressobj(wbits=-15)
    return deflate.compress(data) + deflate.flush()


def decode(label: bytes, pieces):
    decoder = decoder_for([(b"content-encoding", label)])
    out = []
    for piece in pieces:
        decoder.feed(piece)
        while part := decoder.pull():
            assert len(part) <= limits.READ_BYTES_MAX
            out.append(part)
    return b"".join(out), decoder


@pytest.mark.parametrize("value", [None, b"", b"identity", b"Identity"])
def test_an_unlabelled_body_needs_no_decoder(value):
    assert decoder_for([] if value is None else [(b"content-encoding", value)]) is None


@pytest.mark.parametrize(
    ("label", "compressed"),
    [
        (b"gzip", gzip.compress(TEXT, mtime=0)),
        (b"x-gzip", gzip.compress(TEXT, mtime=0)),
        (b"GZIP", gzip.compress(TEXT, mtime=0)),
        (b"deflate", zlib.compress(TEXT)),
        (b"deflate", raw_deflate(TEXT)),
        (b"identity, gzip", gzip.compress(TEXT, mtime=0)),
        (b"deflate, gzip", gzip.compress(zlib.compress(TEXT), mtime=0)),
        (b"gzip", gzip.compress(TEXT[:100], mtime=0) + gzip.compress(TEXT[100:], mtime=0)),
    ],
)
def test_a_body_is_decoded_whole_and_byte_by_byte(label, compressed):
    for pieces in ([compressed], [compressed[n : n + 1] for n in range(len(compressed))]):
        out, decoder = decode(label, pieces)
        assert out == TEXT
        assert decoder.complete


@settings(deadline=None)
@given(st.binary(max_size=3000), st.integers(min_value=1, max_value=50))
def test_any_body_in_any_pieces(data, size):
    compressed = gzip.compress(data)
    out, decoder = decode(b"gzip", [compressed[n : n + size] for n in range(0, len(compressed), size)])
    assert out == data
    assert decoder.complete


def test_an_event_flushed_by_the_provider_is_decoded_at_once():
    deflate = zlib.compressobj(wbits=31)
    decoder = decoder_for([(b"content-encoding", b"gzip")])
    for event in (b"data: 1\n\n", b"data: 2\n\n"):
        decoder.feed(deflate.compress(event) + deflate.flush(zlib.Z_SYNC_FLUSH))
        assert decoder.pull() == event
        assert decoder.pull() == b""
    assert not decoder.complete


@pytest.mark.parametrize("label", [b"br", b"zstd", b"compress", b"gzip, br", b"gzip, gzip, gzip"])
def test_an_unknown_label_is_broken_from_the_start(label):
    out, decoder = decode(label, [b"anything"])
    assert out == b""
    assert decoder.broken


@pytest.mark.parametrize("label", [b"gzip", b"deflate"])
def test_what_is_not_compressed_is_broken(label):
    _, decoder = decode(label, [b"data: hello\n\n"])
    assert decoder.broken
    assert not decoder.complete


def test_a_corrupt_checksum_is_broken():
    compressed = gzip.compress(TEXT)
    _, decoder = decode(b"gzip", [compressed[:-8] + b"\0" * 8])
    assert decoder.broken


def test_bytes_behind_a_zlib_stream_are_broken():
    _, decoder = decode(b"deflate", [zlib.compress(TEXT) + b"more"])
    assert decoder.broken


def test_a_cut_is_not_complete_and_an_empty_body_is():
    assert not decode(b"gzip", [gzip.compress(TEXT)[:-1]])[1].complete
    assert decode(b"gzip", [])[1].complete


def test_a_large_expansion_comes_in_pieces():
    data = b"a" * (3 * limits.READ_BYTES_MAX + 5)
    out, decoder = decode(b"gzip", [gzip.compress(data)])
    assert out == data
    assert decoder.complete


def test_a_bomb_is_broken():
    out, decoder = decode(b"gzip", [gzip.compress(b"\0" * (8 * limits.DECODED_BYTES_FREE))])
    assert decoder.broken
    assert len(out) < 3 * limits.DECODED_BYTES_FREE
