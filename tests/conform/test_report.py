"""A run as a page, as a table and as a value."""

from __future__ import annotations

from hoptrio.conform.report import Report, as_dict, as_markdown, as_table, aside, findings, has_failed, summary
from hoptrio.conform.run import ACCOUNT, Row
from hoptrio.conform.settings import Settings
from hoptrio.conform.verdict import Finding, Verdict, departs, differs
from hoptrio.protocols.events import Protocol

NOTE = Finding(Verdict.PASS, "said anew")
ROWS = (
    Row(number=21, protocol="chat", verdict=Verdict.FAIL, money=Verdict.PASS, findings=(departs("looks whole"),)),
    Row(number=21, protocol="gemini", verdict=Verdict.FAIL, money=Verdict.PASS, findings=(departs("looks whole"),)),
    Row(number=24, protocol="chat", verdict=Verdict.PASS, money=Verdict.NOT_REACHABLE, findings=(NOTE,)),
    Row(number=45, protocol="chat", verdict=Verdict.POLICY, money=Verdict.FAIL, findings=(differs("leaves"),)),
    Row(number=61, protocol="chat", verdict=Verdict.NOT_SERVED),
    Row(number=72, protocol=ACCOUNT, verdict=Verdict.PASS, money=Verdict.PASS),
)


def report(*rows, left_out=(18,), refused=None):
    return Report(
        gateway="it 1.0",
        settings=Settings(),
        rows=rows or ROWS,
        refused=refused or {"gemini": "404"},
        left_out=left_out,
    )


def test_verdicts_are_counted_over_protocols_and_money_apart():
    assert summary(report()) == (
        "wire: 1 pass, 1 not served, 1 policy, 2 fails; money: 3 pass, 1 not reachable, 1 fails"
    )


def test_a_run_has_failed_if_the_wire_or_the_money_has():
    assert has_failed(report(ROWS[0]))
    assert has_failed(report(ROWS[3]))
    assert not has_failed(report(*ROWS[2:3], *ROWS[4:]))


def test_the_same_finding_is_told_once_with_all_its_places():
    assert findings(report(), Verdict.FAIL) == ["looks whole: 21 a truncated body that looks whole (chat, gemini)"]
    assert findings(report(), Verdict.POLICY) == ["leaves: 45 leaving in the midst (chat)"]
    assert findings(report(), Verdict.PASS) == ["said anew: 24 a complete stream taken for broken (chat)"]


def test_what_was_not_tried_is_said():
    assert aside(report()) == {"Not served": ["gemini: 404"], "Left out, since they take longer": ["18"]}


def test_the_page_has_a_row_a_case_and_everything_that_was_found():
    page = as_markdown(report())
    assert "| **fails** |  |  | **fails** | pass |\n" in page
    assert "| policy |  |  |  | **fails** |\n" in page
    sections = ["Fails", "Policy", "Worth a note", "Not served", "Left out, since they take longer"]
    assert [line[3:] for line in page.split("\n") if line.startswith("## ")] == [
        *sections,
        "Not to be seen from outside",
    ]


def test_the_table_has_a_row_a_case():
    table = as_table(report())
    assert table.row_count == 5
    assert [column.header for column in table.columns][2:] == [*Protocol, "money"]


def test_the_value_says_all_of_it():
    told = as_dict(report())
    assert told["passed"] is False
    assert told["cases"][0]["rows"][0] == {
        "protocol": "chat",
        "verdict": "fails",
        "money": "pass",
        "findings": [{"verdict": "fails", "words": "looks whole"}],
    }
    assert (told["left_out"], told["not_served"]) == ([18], {"gemini": "404"})
