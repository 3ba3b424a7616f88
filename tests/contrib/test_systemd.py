"""The unit and its drop-ins, as systemd itself reads them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

UNITS = Path(__file__).resolve().parents[2] / "contrib" / "systemd"
ANALYZE = shutil.which("systemd-analyze")

pytestmark = pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is not there")


def complaints(folder):
    """What systemd says of the unit in `folder`, but for the program, which is not installed here."""
    run = subprocess.run(
        [ANALYZE, "verify", str(folder / "hoptrio.service")],
        env=os.environ | {"SYSTEMD_UNIT_PATH": f"{folder}:", "LC_ALL": "C"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=30,
    )
    return [line for line in run.stdout.splitlines() if "/usr/local/bin/hoptrio is not executable" not in line]


@pytest.fixture
def folder(tmp_path):
    shutil.copy(UNITS / "hoptrio.service", tmp_path)
    (tmp_path / "hoptrio.service.d").mkdir()
    return tmp_path


def test_systemd_has_nothing_to_say_of_the_unit_with_its_drop_ins(folder):
    for name in ("binary.conf", "https.conf"):
        shutil.copy(UNITS / name, folder / "hoptrio.service.d")
    assert complaints(folder) == []


def test_a_wrong_drop_in_would_be_told(folder):
    (folder / "hoptrio.service.d" / "wrong.conf").write_text("[Service]\nAmbientCapability=CAP_NET_BIND_SERVICE\n")
    assert "AmbientCapability" in " ".join(complaints(folder))
