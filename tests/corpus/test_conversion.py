"""A seeded sample of `make matrix`: recorded streams converted for clients of the other protocols, heard by their
SDKs. Skipped where the recordings are not."""

from __future__ import annotations

import random

import pytest

from tests.matrix.check import check
from tests.support.converting import DIRECTIONS, convert_stream
from tests.support.corpus import recordings

RECORDINGS = recordings()
#: Pairs of each direction that run with every suite.
SAMPLE = 5

pytestmark = pytest.mark.skipif(not RECORDINGS, reason="no recordings here")


def pairs(count):
    chosen = random.Random(20_26_11)
    for channel, client in DIRECTIONS:
        of_channel = [each for each in RECORDINGS if each.protocol == channel]
        yield from ((each, client) for each in chosen.sample(of_channel, min(count, len(of_channel))))


@pytest.mark.parametrize(("recording", "client"), list(pairs(SAMPLE)), ids=str)
def test_a_recording_says_the_same_in_another_protocol(recording, client):
    check(recording, client)


@pytest.mark.parametrize(("recording", "client"), list(pairs(2)), ids=str)
def test_it_does_not_matter_how_the_bytes_arrive(recording, client):
    places = random.Random(7)
    cuts = [places.randrange(len(recording.raw)) for _ in range(60)]
    whole = convert_stream(recording.raw, recording.protocol, client)
    cut = convert_stream(recording.raw, recording.protocol, client, cuts=cuts)

    assert cut.kinds == whole.kinds
    assert len(cut.wire) == len(whole.wire)
    assert cut.reader.unconvertible == whole.reader.unconvertible
