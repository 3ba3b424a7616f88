"""The contract page, said a second time by hand: a cell that is changed in `contract` fails here."""

from __future__ import annotations

import dataclasses

import pytest

from hoptrio.contract import ENDS, FIELDS, PRESETS, Contract, Money, Reason, Told, derive

CELLS = {
    # field: (hopbase, anypath, hoptrio)
    "protocols": (
        ("chat", "responses", "messages"),
        ("chat", "responses", "messages", "gemini"),
        ("chat", "responses", "messages", "gemini"),
    ),
    "keepalive": ("interval", "off", "idle"),
    "keepalive_seconds": (10, 10, 10),
    "usage": ("optional", "required", "optional"),
    "failure": ("event", "truncate", "event_abort"),
    "interrupted": ("charge", "release", "release"),
    "attempts": (2, 1, 1),
    "stall": (True, False, True),
    "deadline_seconds": (600, 600, 600),
    "certified_only": (False, True, True),
    "reattach": (False, False, True),
}

C, R, P = Money.CAPTURE, Money.RELEASE, Money.PRODUCED
ROWS = {
    # reason: (interrupted = charge, interrupted = release, what the client sees)
    None: (C, C, Told.TERMINAL),
    "no_evidence": (P, R, Told.TERMINAL_UNLESS_TRUNCATE),
    "not_dispatched": (R, R, Told.FAILURE),
    "provider_error": (P, R, Told.PROVIDER_EVENT),
    "header_timeout": (R, R, Told.FAILURE),
    "truncated": (P, R, Told.FAILURE),
    "stalled": (P, R, Told.FAILURE),
    "deadline": (P, R, Told.FAILURE),
    "internal": (R, R, Told.FAILURE),
    "event_too_large": (R, R, Told.FAILURE),
    "unconvertible": (R, R, Told.FAILURE),
    "shutdown": (P, R, Told.FAILURE),
    "orphaned": (R, R, Told.BROKEN),
}


@pytest.mark.parametrize("field", CELLS)
@pytest.mark.parametrize(("preset", "column"), [("hopbase", 0), ("anypath", 1), ("hoptrio", 2)])
def test_each_preset_answers_each_field_as_the_page_says(field, preset, column):
    assert getattr(PRESETS[preset], field) == CELLS[field][column]


@pytest.mark.parametrize("reason", ROWS, ids=str)
def test_each_end_is_paid_and_told_as_the_page_says(reason):
    end = ENDS[None if reason is None else Reason(reason)]
    assert (end.money("charge"), end.money("release"), end.told) == ROWS[reason]


def test_every_reason_has_a_row_and_every_field_a_cell():
    assert set(ENDS) == {None, *Reason}
    assert [field.name for field in FIELDS] == list(CELLS)
    assert [field.name for field in dataclasses.fields(Contract)] == ["name", *CELLS]


def test_a_contract_of_ones_own_changes_only_what_it_names():
    patient = derive("patient", "hoptrio", keepalive_seconds=5, failure="event")
    assert patient.name == "patient"
    changed = {
        field.name for field in FIELDS if getattr(patient, field.name) != getattr(PRESETS["hoptrio"], field.name)
    }
    assert changed == {"keepalive_seconds", "failure"}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("failure", "explode"),
        ("attempts", 0),
        ("attempts", 1.5),
        ("attempts", True),
        ("stall", 1),
        ("deadline_seconds", 601),
        ("keepalive_seconds", 0),
        ("protocols", ()),
        ("protocols", ("chat", "soap")),
    ],
)
def test_a_value_that_its_field_does_not_allow_is_refused(field, value):
    with pytest.raises(ValueError, match=field):
        derive("own", "hoptrio", **{field: value})


def test_unknown_fields_and_presets_are_refused():
    with pytest.raises(KeyError):
        derive("own", "hoptrio", colour="red")
    with pytest.raises(KeyError):
        derive("own", "nobody")
