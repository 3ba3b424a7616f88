from __future__ import annotations

import itertools

import pytest

from hoptrio.contract import PRESETS, Reason
from hoptrio.stream.verdict import Evidence, verdict

CHARGE, RELEASE = PRESETS["hopbase"], PRESETS["hoptrio"]


def judge(contract, reason, *, counted=True, answered=True, estimated=False, stream=True):
    return verdict(contract, reason, counted=counted, answered=answered, estimated=estimated, stream=stream)


@pytest.mark.parametrize("contract", PRESETS.values(), ids=PRESETS)
def test_a_terminal_with_evidence_is_captured(contract):
    assert judge(contract, None) == (True, Evidence.SSE_TERMINAL)
    assert judge(contract, None, stream=False) == (True, Evidence.JSON_BODY)


def test_an_answer_of_zero_tokens_with_evidence_is_still_a_capture():
    assert judge(RELEASE, None, answered=False).capture


@pytest.mark.parametrize(
    ("reason", "counted", "answered"), list(itertools.product(Reason, (True, False), (True, False)))
)
def test_under_release_nothing_but_evidence_is_paid(reason, counted, answered):
    assert not judge(RELEASE, reason, counted=counted, answered=answered).capture


PRODUCED = {"no_evidence", "provider_error", "truncated", "stalled", "deadline", "shutdown"}


@pytest.mark.parametrize("reason", Reason)
def test_under_charge_the_providers_own_numbers_are_paid_where_the_table_says_so(reason):
    assert judge(CHARGE, reason).capture == (reason in PRODUCED)


@pytest.mark.parametrize("reason", Reason)
def test_under_charge_input_alone_or_no_numbers_are_never_paid(reason):
    assert not judge(CHARGE, reason, answered=False).capture
    assert not judge(CHARGE, reason, counted=False).capture
