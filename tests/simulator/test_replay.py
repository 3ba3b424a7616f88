"""Recorded streams."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from hoptrio.protocols.events import Protocol
from hoptrio.simulator.provider import SimulatedProvider
from hoptrio.simulator.replay import Recordings, cut_sizes
from hoptrio.simulator.steps import End, Send
from tests.support.performing import body_of, perform

BODY = b"data: {}\n\ndata: [DONE]\n\n"
CORPUS = Path(os.environ.get("HOPTRIO_CORPUS", Path(__file__).parents[2] / "../shared/corpus"))


@pytest.fixture
def directory(tmp_path):
    """Two recordings: one with its chunk sizes in a protocol's directory, one bare file."""
    whole = tmp_path / "chat" / "short"
    whole.mkdir(parents=True)
    (whole / "response.sse").write_bytes(BODY)
    meta = {"chunk_sizes": [3, 7, len(BODY) - 10], "response_headers": {"Content-Type": "text/event-stream;x=1"}}
    (whole / "meta.json").write_text(json.dumps(meta))
    (tmp_path / "bare.sse").write_bytes(b"data: 1\n\n")
    return tmp_path


def writes(steps):
    return [step.data for step in steps if isinstance(step, Send)]


def test_names(directory):
    recordings = Recordings(directory)
    assert recordings.names == ["bare", "chat/short"]
    assert recordings.find("short", "chat") is recordings.find("chat/short", "gemini")
    assert recordings.find("short", "gemini") is None


def test_a_directory_without_recordings_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError):
        Recordings(tmp_path)


def test_it_is_served_by_model_name_in_its_recorded_chunks(directory):
    provider = SimulatedProvider(recordings=Recordings(directory))
    steps = perform(Protocol.CHAT, "hello", provider=provider, model="short")
    assert dict(steps[0].headers) == {"content-type": "text/event-stream;x=1"}
    assert [len(write) for write in writes(steps)] == [3, 7, len(BODY) - 10]
    assert body_of(steps) == BODY
    assert isinstance(steps[-1], End)


def test_it_is_served_by_directive(directory):
    provider = SimulatedProvider(recordings=Recordings(directory))
    steps = perform(Protocol.MESSAGES, "sim: replay=bare cuts=bytes", provider=provider)
    assert {len(write) for write in writes(steps)} == {1}
    assert body_of(steps) == b"data: 1\n\n"


def test_other_models_are_simulated(directory):
    provider = SimulatedProvider(recordings=Recordings(directory))
    assert len(writes(perform(Protocol.CHAT, "hello", provider=provider))) > 10


@pytest.mark.parametrize("recordings", [True, False])
def test_an_unknown_recording_is_a_404(directory, recordings):
    provider = SimulatedProvider(recordings=Recordings(directory) if recordings else None)
    assert perform(Protocol.CHAT, "sim: replay=nothing", provider=provider)[0].status == 404


@pytest.mark.parametrize("cuts", ["recorded", "whole", "bytes", "random:1"])
@pytest.mark.parametrize("length", [0, 1, 5000])
def test_cuts_sum_to_the_length(cuts, length):
    sizes = list(cut_sizes(length, cuts))
    assert sum(sizes) == length
    assert all(size > 0 for size in sizes)


def test_random_cuts_are_the_seed_s():
    assert list(cut_sizes(5000, "random:7")) == list(cut_sizes(5000, "random:7"))
    assert list(cut_sizes(5000, "random:7")) != list(cut_sizes(5000, "random:8"))


def test_recorded_sizes_that_do_not_fit_are_not_used():
    assert list(cut_sizes(10, "recorded", [3, 3])) == [10]


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not here")
def test_every_recording_of_the_corpus_is_served_whole():
    recordings = Recordings(CORPUS)
    for name in recordings.names:
        recording = recordings.find(name, "")
        assert body_of(recording.steps("recorded")) == recording.path.read_bytes()
