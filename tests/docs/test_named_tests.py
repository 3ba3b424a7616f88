"""The tests that the documents name are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_test_that_a_document_names_is_there():
    named = {
        (page.name, *found.groups())
        for page in sorted((ROOT / "docs").rglob("*.md"))
        for found in re.finditer(r"`(tests/[\w/]+\.py)::(\w+)`", page.read_text())
    }
    assert named
    missing = [
        (page, path, name)
        for page, path, name in sorted(named)
        if not re.search(rf"^(async )?def {name}\(", (ROOT / path).read_text(), re.MULTILINE)
    ]
    assert missing == []
