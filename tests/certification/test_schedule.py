"""When a probe is due."""

from __future__ import annotations

from math import inf

import msgspec
import pytest

from hoptrio import limits
from hoptrio.certification.finding import Finding
from hoptrio.certification.schedule import Schedule, Standing, stands
from hoptrio.ledger.model import Probed, ProbeRow
from hoptrio.ledger.owner import this_process

NOW = 1_800_000_000_000
DAY = 86_400_000
EVERY = int(limits.PROBE_EVERY_S * 1000)
PROVEN = int(limits.PROBE_PROVEN_S * 1000)
SCHEDULE = Schedule(valid_ms=30 * DAY, unasked=True, started_at_ms=NOW - DAY)
RUNNING = ProbeRow(
    probed=Probed("one", "m", "chat"), probe="p", owner="another machine", setup="s", began_at_ms=NOW - 1000
)


def ended(finding, ago_ms=1000):
    return msgspec.structs.replace(RUNNING, began_at_ms=NOW - ago_ms, ended_at_ms=NOW - ago_ms + 500, finding=finding)


def due(schedule=SCHEDULE, *, expires=0, last=None, suspected=False):
    return schedule.due_at_ms(Standing(expires, last, suspected), NOW)


def test_what_was_never_probed_is_due_at_once():
    assert due() <= NOW


def test_what_runs_is_waited_for():
    assert due(last=RUNNING) == inf
    assert due(last=RUNNING, expires=NOW + DAY, suspected=True) == inf


@pytest.mark.parametrize("finding", [Finding.RATE_LIMITED, Finding.UNREACHED, Finding.CUT, Finding.ERROR_EVENT])
def test_what_may_have_been_one_bad_moment_is_tried_again_soon(finding):
    assert due(last=ended(finding)) == NOW - 1000 + EVERY


@pytest.mark.parametrize("finding", [Finding.NO_USAGE, Finding.AUTH_REFUSED, Finding.MODEL_UNKNOWN])
def test_a_proof_is_looked_at_again_later_but_at_the_next_start_sooner(finding):
    assert due(last=ended(finding)) == NOW - 1000 + PROVEN
    restarted = SCHEDULE._replace(started_at_ms=NOW)
    assert due(restarted, last=ended(finding)) == NOW - 1000 + EVERY
    assert due(restarted, last=ended(finding, ago_ms=EVERY)) <= NOW


def test_a_finding_of_another_version_proves_nothing():
    assert due(last=ended("out_of_tune")) == NOW - 1000 + EVERY


@pytest.mark.parametrize(
    ("valid_ms", "lead_ms"), [(30 * DAY, DAY), (5 * DAY, DAY // 2), (DAY, DAY // 10)], ids=["30 days", "5", "1"]
)
def test_a_certificate_is_renewed_before_it_runs_out(valid_ms, lead_ms):
    schedule = SCHEDULE._replace(valid_ms=valid_ms)
    assert due(schedule, expires=NOW + valid_ms) == NOW + valid_ms - lead_ms
    assert due(schedule, expires=NOW + 5, last=ended(Finding.CUT)) == NOW - 1000 + EVERY


def test_suspicion_is_decided_at_once_but_not_twice_in_ten_minutes():
    assert due(expires=NOW + DAY * 20, suspected=True) <= NOW
    assert due(expires=NOW + DAY * 20, suspected=True, last=ended(Finding.CERTIFIED)) == NOW - 1000 + EVERY


def test_suspicion_of_what_is_not_certified_changes_nothing():
    assert due(last=ended(Finding.NO_USAGE), suspected=True) == NOW - 1000 + PROVEN


def test_an_expired_certificate_is_none():
    assert due(expires=NOW, last=ended(Finding.CERTIFIED, ago_ms=30 * DAY)) <= NOW


def test_unless_it_was_asked_a_process_told_not_to_probe_only_renews_and_decides():
    asked = SCHEDULE._replace(unasked=False)
    assert due(asked) == inf
    assert due(asked, expires=NOW + 5) <= NOW
    assert due(asked, expires=NOW + DAY * 20, suspected=True) <= NOW


def test_a_probe_counts_while_somebody_makes_it_or_has():
    assert stands(RUNNING, "s", NOW)
    assert stands(ended(Finding.CUT), "s", NOW + DAY * 400)
    assert not stands(None, "s", NOW)
    assert not stands(ended(Finding.ABANDONED), "s", NOW)


def test_a_probe_that_reached_nobody_is_soon_forgotten():
    soon = int(limits.PROBE_UNREACHED_S * 1000)
    assert stands(ended(Finding.UNREACHED, ago_ms=soon - 1), "s", NOW)
    assert not stands(ended(Finding.UNREACHED, ago_ms=soon), "s", NOW)


def test_a_probe_of_another_config_does_not_count():
    assert not stands(ended(Finding.AUTH_REFUSED), "another key", NOW)


def test_a_probe_that_nobody_makes_any_more_does_not_count():
    mine = msgspec.structs.replace(RUNNING, owner=this_process())
    gone = msgspec.structs.replace(RUNNING, owner=f"{this_process()}0")
    assert stands(mine, "s", NOW)
    assert not stands(gone, "s", NOW)
    assert not stands(RUNNING, "s", NOW - 1000 + int(limits.PROBE_CLAIM_S * 1000) + 1)
