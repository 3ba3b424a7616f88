"""A provider's reasoning token in another protocol's slot."""

from __future__ import annotations

import base64

import pytest
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from hoptrio.protocols.convert.carrier import Carried, pack, unpack
from hoptrio.protocols.events import Protocol

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
CARRIED = st.tuples(st.sampled_from(Protocol), TEXTS, st.none() | TEXTS, st.booleans()).map(lambda each: Carried(*each))


@given(CARRIED)
def test_what_goes_in_comes_out(carried):
    assert unpack(pack(carried)) == carried


@given(CARRIED)
def test_it_survives_googles_sdk_which_decodes_the_slot_to_bytes(carried):
    part = types.Part.model_validate({"thoughtSignature": pack(carried)})
    assert unpack(part.model_dump(mode="json", by_alias=True)["thoughtSignature"]) == carried


@given(CARRIED)
def test_it_survives_either_alphabet_and_lost_padding(carried):
    raw = base64.b64decode(pack(carried))
    for encoded in (base64.b64encode(raw), base64.urlsafe_b64encode(raw)):
        assert unpack(encoded.decode().rstrip("=")) == carried


FORGED = base64.b64encode(b"hoptrio1:[1]").decode()


@pytest.mark.parametrize(
    "value", [None, 1, "", "gAAAAABo", pack(Carried(Protocol.CHAT, "t"))[:-5], FORGED, FORGED + "é"]
)
def test_anything_else_is_none_of_ours(value):
    assert unpack(value) is None


@given(st.text() | st.text().map(lambda text: FORGED[:12] + text))
def test_no_text_makes_it_raise(value):
    assert unpack(value) is None
