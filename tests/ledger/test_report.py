"""A request as JSON, as the interface page has it."""

from __future__ import annotations

from msgspec.structs import replace

from hoptrio.ledger.model import RequestRecord
from hoptrio.ledger.report import iso_ms, operator_report, request_report

RUNNING = RequestRecord(
    id="req_1", account_id="acct_1", key_id="key_1", created_at_ms=1_796_032_800_007, protocol="chat",
    model="gpt-5.6-sol", contract="hoptrio", stream=True, channel="openai", state="running", hold_nanos=128_000_000,
    attempts=1, timeline=((0, "held"), (3, "dispatched")),
)  # fmt: skip


def test_a_running_request():
    assert request_report(RUNNING, "USD") == {
        "id": "req_1",
        "created_at": "2026-11-30T10:00:00.007Z",
        "protocol": "chat",
        "model": "gpt-5.6-sol",
        "contract": "hoptrio",
        "stream": True,
        "state": "running",
        "reason": None,
        "evidence": "none",
        "usage": None,
        "hold": "0.128",
        "charge": None,
        "currency": "USD",
        "flags": [],
        "attempts": 1,
        "client_request_id": None,
        "timeline": [{"at_ms": 0, "event": "held"}, {"at_ms": 3, "event": "dispatched"}],
    }


def test_a_settled_request_has_usage_and_charge():
    settled = replace(RUNNING, state="captured", usage='{"input_tokens":14}', charge_nanos=537_500, flags=("suspect",))
    report = request_report(settled, "USD")
    assert (report["usage"], report["charge"], report["flags"]) == ({"input_tokens": 14}, "0.0005375", ["suspect"])
    assert request_report(replace(RUNNING, charge_nanos=0), "USD")["charge"] == "0"


def test_an_operator_sees_account_key_and_channel_too():
    report = operator_report(RUNNING, "USD", "acme")
    assert (report["account"], report["key"], report["channel"]) == ("acme", "key_1", "openai")


def test_times_are_written_in_utc_with_milliseconds():
    assert iso_ms(0) == "1970-01-01T00:00:00.000Z"
    assert iso_ms(1_796_032_800_999) == "2026-11-30T10:00:00.999Z"
