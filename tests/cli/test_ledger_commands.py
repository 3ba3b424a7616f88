"""``account``, ``key``, ``request`` and ``ledger`` on a real file, as programs (``--json``) and people call them."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
import trio

from hoptrio.cli.main import run
from hoptrio.ledger.ledger import open_ledger
from hoptrio.ledger.model import Hold, RequestRecord, Resolution

CONFIG = """
[ledger]
url = "sqlite:///ledger.db"
currency = "EUR"
[contracts.patient]
preset = "hoptrio"
[models.m]
input = "1"
output = "2"
max_input_tokens = 1000
max_output_tokens = 1000
[channels.c]
protocols = ["chat"]
base_url = "http://127.0.0.1:1/v1"
api_key = "k"
models = ["m"]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hoptrio.toml").write_text(CONFIG)
    return tmp_path


@pytest.fixture
def call(capsys):
    """Run a command with ``--json``; its exit status and what it printed."""

    def call(*args):
        status = run([*args, "--json"])
        out, err = capsys.readouterr()
        return status, json.loads(out or err)

    return call


@pytest.fixture
def stream(call):
    """A request that was captured for 0.25 of a hold of 1."""
    call("account", "create", "acme", "--deposit", "10")
    _, key = call("key", "create", "--account", "acme")

    async def work():
        async with open_ledger("sqlite:///ledger.db", owner="gateway") as ledger:
            request = RequestRecord(
                id="req_1", account_id="", key_id=key["id"], created_at_ms=1_796_032_800_000, protocol="chat",
                model="m", contract="hoptrio", stream=True, state="running", client_request_id="mine",
                channel="c", timeline=((0, "held"),),
            )  # fmt: skip
            hold = Hold(id="hold_1", request=request, amount_nanos=10**9, prices="{}", owner="gateway")
            await ledger.place(hold)
            await ledger.settle(Resolution(hold_id="hold_1", capture_nanos=250_000_000, request=request))

    trio.run(work)
    return key


def test_an_account_from_its_opening_to_its_end(call):
    assert call("account", "create", "acme", "--deposit", "10.5")[1]["balance"] == "10.5"
    assert call("account", "deposit", "acme", "0.25")[1]["balance"] == "10.75"
    assert call("account", "adjust", "acme", "-0.75", "--why", "typo")[1]["balance"] == "10"
    assert call("account", "disable", "acme")[1]["disabled"] is True
    assert call("account", "disable", "acme", "--undo")[1]["disabled"] is False
    status, shown = call("account", "show", "acme", "--entries")
    assert status == 0
    assert (shown["name"], shown["balance"], shown["held"]) == ("acme", "10", "0")
    assert [(entry["kind"], entry["amount"], entry["why"]) for entry in shown["entries"]] == [
        ("deposit", "10.5", ""),
        ("deposit", "0.25", ""),
        ("adjust", "-0.75", "typo"),
    ]
    assert [account["name"] for account in call("account", "list")[1]] == ["acme"]


@pytest.mark.parametrize(
    ("args", "status"),
    [
        (("account", "show", "nobody"), 1),
        (("account", "deposit", "nobody", "1"), 1),
        (("account", "create", "acme"), 1),
        (("account", "adjust", "acme", "-11", "--why", "w"), 1),
        (("account", "deposit", "acme", "-1"), 2),
        (("account", "deposit", "acme", "0"), 2),
        (("account", "deposit", "acme", "1e3"), 2),
        (("account", "adjust", "acme", "1"), 2),
        (("key", "create", "--account", "nobody"), 1),
        (("key", "create", "--account", "acme", "--budget", "1"), 2),
        (("key", "create", "--account", "acme", "--contract", "none"), 2),
        (("key", "revoke", "key_none"), 1),
        (("key", "list", "--account", "nobody"), 1),
        (("request", "show", "req_none"), 1),
        (("request", "list", "--account", "nobody"), 1),
        (("ledger", "release", "hold_none", "--why", "w"), 1),
    ],
)
def test_what_cannot_be_done(call, args, status):
    call("account", "create", "acme", "--deposit", "10")
    got, told = call(*args)
    assert got == status
    assert told["error"]["message"]


def test_a_key_shows_its_secret_once(call):
    call("account", "create", "acme")
    status, made = call(
        "key", "create", "--account", "acme", "--contract", "patient", "--max-streams", "3", "--rpm", "60",
        "--budget", "5", "--per", "day", "--expires", "2027-01-31", "--model", "m",
    )  # fmt: skip
    assert status == 0
    assert made["secret"].startswith("sk-")
    [listed] = call("key", "list", "--account", "acme")[1]
    assert listed == {name: value for name, value in made.items() if name != "secret"}
    assert (listed["budget"], listed["per"], listed["expires_at"]) == ("5", "day", "2027-01-31T00:00:00.000Z")
    assert made["secret"].encode() not in b"".join(path.read_bytes() for path in Path().glob("ledger.db*"))
    assert call("key", "revoke", made["id"])[1]["revoked"] is True


def test_a_request_is_shown_with_its_settlement(call, stream):
    status, shown = call("request", "show", "req_1")
    assert status == 0
    assert (shown["state"], shown["hold"], shown["charge"], shown["currency"]) == ("captured", "1", "0.25", "EUR")
    assert (shown["account"], shown["key"], shown["channel"]) == ("acme", stream["id"], "c")
    assert shown["timeline"] == [{"at_ms": 0, "event": "held"}]


def test_requests_are_found_by_what_is_asked_for(call, stream):
    def ids(*args):
        return [found["id"] for found in call("request", "list", *args)[1]]

    assert ids() == ids("--account", "acme", "--state", "captured") == ids("--client-request-id", "mine") == ["req_1"]
    assert ids("--model", "other") == ids("--since", "2026-12-01") == ids("--key", "key_none") == []


def test_an_audit_that_passes(call, stream):
    status, report = call("ledger", "audit")
    assert status == 0
    assert (report["ok"], report["violations"]) == (True, [])
    assert (report["open_holds"], report["captured"], report["released"]) == (0, 1, 0)


def test_an_audit_that_fails_names_the_row(call, stream):
    with sqlite3.connect("ledger.db") as connection:
        connection.execute("UPDATE accounts SET balance_nanos = balance_nanos + 1")
    connection.close()
    status, report = call("ledger", "audit")
    assert status == 1
    assert report["violations"] == ["account acme: balance 9750000001, its entries add up to 9750000000"]


def test_the_schema_is_created(call, folder):
    assert call("ledger", "migrate") == (0, {"schema_version": 1})
    assert (folder / "ledger.db").exists()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("account", "list"), ["acme", "9.75"]),
        (("account", "show", "acme", "--entries"), ["acme", "capture", "-0.25"]),
        (("key", "list"), ["acme"]),
        (("request", "show", "req_1"), ["captured", "0 ms held"]),
        (("request", "list"), ["captured"]),
        (("ledger", "audit"), ["violations"]),
        (("ledger", "migrate"), ["version 1"]),
    ],
)
def test_for_people_it_prints_tables(stream, capsys, monkeypatch, args, words):
    monkeypatch.setenv("COLUMNS", "200")
    assert run(list(args)) == 0
    out = capsys.readouterr().out
    assert all(word in out for word in words)
