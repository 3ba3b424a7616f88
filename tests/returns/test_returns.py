"""A short trial of clients that come back; ``make returns`` runs the full one."""

from __future__ import annotations

from hoptrio.limits import KIB
from tests.returns import left, trial


async def test_clients_cut_off_at_random_get_one_whole_answer_for_one_charge(autojump_clock, tmp_path):
    report = await trial.run(tmp_path, seed=5, clients=60)
    assert report.faults == []
    assert report.clients == report.captured == 60
    assert report.upstream == report.captured + report.released
    assert report.released > 0
    assert report.cuts > 60


async def test_streams_whose_clients_all_left_stay_within_memory_and_disk(autojump_clock, tmp_path):
    kept = await left.run(
        tmp_path, streams=100, event_bytes=1000, memory_bytes_max=200 * KIB, disk_bytes_max=1536 * KIB
    )
    assert kept.faults == []
    assert kept.whole + kept.gone == 100
    assert kept.whole > 50
    assert kept.gone > 10
