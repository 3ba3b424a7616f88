"""The scripts of the pages under node: each file in ``js/`` is run by node's own test runner."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import hoptrio.control

JS = Path(__file__).parent / "js"
STATIC = Path(hoptrio.control.__file__).parent / "static"


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not here")
@pytest.mark.parametrize("suite", sorted(path.name for path in JS.glob("*.test.mjs")))
def test_node(suite):
    run = subprocess.run(
        ["node", "--test", "--test-reporter=spec", suite],
        cwd=JS,
        env=os.environ | {"HOPTRIO_STATIC": str(STATIC), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-8000:] + run.stderr[-2000:]


def test_no_page_has_a_script_or_a_style_in_it():
    """The policy would not run them, and nobody would notice in time."""
    for page in (STATIC.parent / "templates").glob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert "<style" not in text, page.name
        assert " style=" not in text, page.name
        assert text.count("<script") == text.count('<script type="module" src="/static/'), page.name
        assert "http://" not in text.replace("http://www.w3.org", ""), page.name
