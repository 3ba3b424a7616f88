"""The pages say what the tables of `hoptrio.contract` say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from hoptrio.certification.finding import Finding, Weight, weight_of, words_for
from hoptrio.contract import ENDS, FIELDS

ROOT = Path(__file__).resolve().parent.parent


def rows(page: str) -> dict[str, list[str]]:
    """First cell -> the others, of every table row in a page."""
    lines = re.findall(r"^\| *`?([^|`]+?)`? *\|(.+)\|$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
    return {first: [cell.strip() for cell in rest.split("|")] for first, rest in lines}


def as_written(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(value)
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, int | float) else str(value)


@pytest.mark.parametrize("page", ["README.md", "docs/contracts.md"])
def test_every_field_of_a_contract_is_as_on_the_page(page: str) -> None:
    found = rows(page)
    for field in FIELDS:
        assert found[field.name] == [as_written(each) for each in (field.hopbase, field.anypath, field.hoptrio)]


def test_every_end_is_as_on_the_page() -> None:
    found = rows("docs/contracts.md")
    for reason, end in ENDS.items():
        assert found[reason.value if reason else "none"] == [end.charge.value, end.release.value, end.told.value]


def test_every_finding_of_a_probe_is_as_on_the_page() -> None:
    found = rows("docs/certification.md")
    weighs = {Weight.PROVES: "proof", Weight.DOUBTS: "doubt", Weight.PASSES: "passes"}
    for finding in Finding:
        certified = finding is Finding.CERTIFIED
        assert found[finding.value] == ["" if certified else weighs[weight_of(finding)], words_for(finding)]
