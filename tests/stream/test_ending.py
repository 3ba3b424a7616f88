from __future__ import annotations

import itertools

import pytest

from hoptrio.contract import PRESETS, Reason
from hoptrio.protocols.events import Framing
from hoptrio.stream.ending import ending, error_for

EVENT, TRUNCATE, EVENT_ABORT = PRESETS["hopbase"], PRESETS["anypath"], PRESETS["hoptrio"]
BY_FAILURE = [reason for reason in Reason if reason not in ("no_evidence", "provider_error", "orphaned")]


def decide(contract, reason, *, settled=True, head=True, framing=Framing.SSE, tail=True):
    return ending(contract, reason, settled=settled, head_written=head, framing=framing, tail=tail)


def shape(step):
    """status | what is written, and how the body ends."""
    if step.status:
        return "status"
    written = ["tail"] * step.tail + ["event"] * step.event
    return " ".join([*written, "clean" if step.clean else "abort"])


@pytest.mark.parametrize("contract", PRESETS.values(), ids=PRESETS)
@pytest.mark.parametrize("head", [True, False])
def test_a_complete_stream_ends_with_its_terminal(contract, head):
    assert shape(decide(contract, None, head=head)) == "tail clean"


@pytest.mark.parametrize("reason", BY_FAILURE)
@pytest.mark.parametrize(
    ("contract", "expected"), [(EVENT, "event clean"), (TRUNCATE, "abort"), (EVENT_ABORT, "event abort")]
)
def test_a_failure_after_the_status_is_told_by_the_contract(reason, contract, expected):
    assert shape(decide(contract, reason)) == expected


@pytest.mark.parametrize("reason", [*BY_FAILURE, Reason.PROVIDER_ERROR])
@pytest.mark.parametrize("contract", PRESETS.values(), ids=PRESETS)
def test_a_failure_before_the_status_keeps_its_real_status(reason, contract):
    assert shape(decide(contract, reason, head=False)) == "status"


@pytest.mark.parametrize(
    ("contract", "expected"), [(EVENT, "tail clean"), (TRUNCATE, "abort"), (EVENT_ABORT, "tail abort")]
)
def test_a_providers_error_event_is_forwarded_and_nothing_of_ours_added(contract, expected):
    assert shape(decide(contract, Reason.PROVIDER_ERROR)) == expected


def test_a_providers_http_error_after_an_early_head_gets_our_event():
    assert shape(decide(EVENT_ABORT, Reason.PROVIDER_ERROR, tail=False)) == "event abort"


@pytest.mark.parametrize(
    ("contract", "expected"), [(EVENT, "tail clean"), (TRUNCATE, "abort"), (EVENT_ABORT, "tail clean")]
)
def test_a_terminal_without_evidence_ends_cleanly_except_under_truncate(contract, expected):
    assert shape(decide(contract, Reason.NO_EVIDENCE)) == expected


@pytest.mark.parametrize(("contract", "reason"), list(itertools.product(PRESETS.values(), [None, *Reason])))
def test_without_a_durable_settlement_no_terminal_is_shown(contract, reason):
    step = decide(contract, reason, settled=False)
    assert not step.tail
    assert shape(decide(contract, reason, settled=False, head=False)) == "status"


@pytest.mark.parametrize("reason", [*BY_FAILURE, Reason.PROVIDER_ERROR])
def test_the_array_form_can_only_be_aborted(reason):
    assert not decide(EVENT, reason, framing=Framing.JSON_ARRAY).clean


@pytest.mark.parametrize("reason", [None, *Reason])
def test_every_end_has_an_error_that_is_safe_to_show(reason):
    error = error_for(reason)
    assert 400 <= error.status <= 599
    assert error.message.endswith(".")
