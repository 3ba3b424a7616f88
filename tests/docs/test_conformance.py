"""The page of the conformance results is made of the reports, and the reports are of the cases as they are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench.reports import REPORTS, read_report, table
from hoptrio.conform.books import ACCOUNTS
from hoptrio.conform.cases import CASES
from hoptrio.conform.report import SECTIONS
from hoptrio.conform.verdict import Verdict

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")
NOW = {case.number: (case.name, case.right) for case in (*CASES, *ACCOUNTS)}


@pytest.mark.parametrize("name", ["hoptrio.md", "litellm.md"])
def test_a_report_is_of_all_cases_as_they_are_told_now(name):
    told = {number: (title, right) for number, (title, right, _) in read_report(REPORTS / name).items()}
    assert told == NOW


def test_hoptrios_own_report_has_nothing_but_passes():
    verdicts = [each for _, _, cells in read_report(REPORTS / "hoptrio.md").values() for each in cells.values()]
    assert set(verdicts) == {Verdict.PASS}
    assert not any(f"## {title}" in (REPORTS / "hoptrio.md").read_text(encoding="utf-8") for title in SECTIONS)


def test_the_table_of_the_page_is_that_of_the_reports():
    assert table() in PAGE


def test_every_verdict_is_explained():
    explained = re.findall(r"^\| ([a-z ]+) \| \S", PAGE, re.MULTILINE)
    assert set(explained) >= {each.value for each in Verdict}
