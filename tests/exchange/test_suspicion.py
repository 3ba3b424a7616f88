"""When live streams without evidence are enough for a probe to decide."""

from __future__ import annotations

import msgspec
import pytest

from hoptrio.exchange.suspicion import Suspicion
from hoptrio.ledger.model import Probed, RequestRecord
from hoptrio.protocols.events import Protocol

PAIR = Probed("one", "m", "chat")
GOOD = RequestRecord(
    id="req_1",
    account_id="a",
    key_id="key_1",
    created_at_ms=0,
    protocol="chat",
    model="m",
    contract="hoptrio",
    stream=True,
    channel="one",
    state="captured",
    evidence="sse_terminal",
)


def ended(account="a", **changes):
    return msgspec.structs.replace(GOOD, account_id=account, **changes)


def bad(account="a", **changes):
    return ended(account, **{"state": "released", "reason": "no_evidence", "evidence": "none"} | changes)


def suspects(*records, pair=PAIR):
    suspicion = Suspicion()
    for record in records:
        suspicion.saw(record, Protocol(record.protocol))
    return suspicion.suspects(pair)


@pytest.mark.parametrize(
    ("records", "enough"),
    [
        ([bad("a"), bad("b")], False),
        ([bad("a"), bad("a"), bad("b")], True),
        ([bad("a"), bad("b"), ended("a"), bad("b")], False),
        ([bad("a")] * 9, False),
        ([bad("a")] * 10, True),
        ([bad("a")] * 9 + [ended("b")] + [bad("a")], False),
        ([bad("a")] * 2 + [bad("b")], True),
        ([bad("a")] * 50 + [bad("b")], True),
    ],
)
def test_three_in_a_row_from_two_accounts_or_ten_from_one(records, enough):
    assert suspects(*records) == enough


@pytest.mark.parametrize(
    "record",
    [
        bad(reason="no_evidence"),
        bad(state="captured", reason="no_evidence", evidence="partial"),
        ended(flags=("suspect",)),
        bad(reason="truncated", timeline=((0, "held"), (5, "first_event"))),
    ],
    ids=["no evidence", "charged without", "suspect", "broken off"],
)
def test_what_counts(record):
    assert suspects(*[record] * 10)


@pytest.mark.parametrize(
    "record",
    [
        *[bad(reason=reason) for reason in ("stalled", "deadline", "provider_error", "shutdown", "internal")],
        *[bad(reason=reason) for reason in ("not_dispatched", "header_timeout", "event_too_large")],
        bad(reason="truncated", timeline=((0, "held"),)),
        bad(stream=False),
        bad(channel=None),
    ],
)
def test_what_says_nothing_of_usage_neither_counts_nor_ends_a_row(record):
    assert not suspects(*[record] * 20)
    assert suspects(bad("a"), bad("a"), record, bad("b"))


def test_each_protocol_channel_and_model_has_a_row_of_its_own():
    others = [bad(channel="two"), bad(model="n"), bad(protocol="messages")]
    assert not suspects(*[each for other in others for each in [other] * 9], bad())
    assert suspects(*[bad(protocol="messages")] * 10, pair=Probed("one", "m", "messages"))


def test_once_a_probe_has_decided_it_begins_anew():
    suspicion = Suspicion()
    for _ in range(10):
        suspicion.saw(bad(), Protocol.CHAT)
    suspicion.clear(PAIR)
    suspicion.clear(PAIR)
    suspicion.saw(bad(), Protocol.CHAT)
    assert not suspicion.suspects(PAIR)
