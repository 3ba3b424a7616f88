"""A short trial; ``make chaos`` runs the full one."""

from __future__ import annotations

import pytest

from tests.chaos import trial


@pytest.mark.timeout(150)
async def test_after_every_failure_and_every_kind_of_client_all_is_settled_and_nothing_leaks(tmp_path):
    report = await trial.run(tmp_path, seed=2, streams=300, at_once=80, limits={"POOL_SWEEP_S": 1.0})
    assert report.faults == []
    assert report.audit["ok"], report.audit["violations"]
    assert (report.audit["open_holds"], report.audit["held"]) == (0, "0")
    assert report.after.streams == 0
    assert report.after.descriptors <= report.base.descriptors
    assert report.after.tasks <= report.base.tasks
    assert report.exit_status == 0
