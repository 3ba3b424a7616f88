"""``account``, ``key``, ``request`` and ``ledger`` on a real file, as programs (``--json``) and people call them."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import trio

from hoptrio import limits
from hoptrio.cli.main import run
from hoptrio.ledger.ledger import open_ledger
from hoptrio.ledger.model import Hold, RequestRecord, Resolution
from hoptrio.ledger.schema import versions

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
    assert call("account", "disable", "acme", "--why", "fraud")[1]["disabled"] is True
    assert call("account", "disable", "acme", "--undo")[1]["disabled"] is False
    status, shown = call("account", "show", "acme", "--entries")
    assert status == 0
    assert (shown["name"], shown["balance"], shown["held"]) == ("acme", "10", "0")
    assert [(entry["kind"], entry["amount"], entry["why"]) for entry in shown["entries"]] == [
        ("deposit", "10.5", ""),
        ("deposit", "0.25", ""),
        ("adjust", "-0.75", "typo"),
        ("adjust", "0", "disabled: fraud"),
        ("adjust", "0", "enabled"),
    ]
    assert [
        entry["seq"]
        for entry in call("account", "show", "acme", "--entries", "--after", "1", "--limit", "2")[1]["entries"]
    ] == [2, 3]
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
        "--budget", "5", "--per", "day", "--expires", "2099-01-31", "--model", "m",
    )  # fmt: skip
    assert status == 0
    assert made["secret"].startswith("sk-")
    [listed] = call("key", "list", "--account", "acme")[1]
    assert listed == {name: value for name, value in made.items() if name != "secret"}
    assert (listed["budget"], listed["per"], listed["expires_at"]) == ("5", "day", "2099-01-31T00:00:00.000Z")
    assert made["secret"].encode() not in b"".join(path.read_bytes() for path in Path().glob("ledger.db*"))
    assert call("key", "revoke", made["id"])[1]["revoked"] is True


def test_a_key_that_could_never_be_used_is_not_made(call):
    call("account", "create", "acme")
    status, told = call("key", "create", "--account", "acme", "--expires", "2026-01-31")
    assert (status, told["error"]["code"]) == (2, "invalid_value")
    assert told["error"]["message"].startswith("2026-01-31T00:00:00.000Z is over")
    assert call("key", "list")[1] == []


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


@pytest.mark.parametrize("longer", [0, 1, 1000])
def test_a_callers_own_id_is_found_by_all_of_it_though_it_was_cut(call, stream, longer):
    sent = "\u00fc" * (limits.CLIENT_REQUEST_ID_CHARS_MAX + longer)

    async def work():
        async with open_ledger("sqlite:///ledger.db", owner="gateway") as ledger:
            account = await ledger.account("acme")
            kept = sent[: limits.CLIENT_REQUEST_ID_CHARS_MAX]
            refused = RequestRecord(
                id="req_2", account_id=account.id, key_id=stream["id"], created_at_ms=1, protocol="chat", model="m",
                contract="hoptrio", stream=True, state="refused", client_request_id=kept,
            )  # fmt: skip
            ledger.note(refused)

    trio.run(work)
    assert [found["id"] for found in call("request", "list", "--client-request-id", sent)[1]] == ["req_2"]


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
    assert call("ledger", "migrate") == (0, {"schema_version": len(versions("sqlite"))})
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
        (("ledger", "migrate"), [f"version {len(versions('sqlite'))}"]),
    ],
)
def test_for_people_it_prints_tables(stream, capsys, monkeypatch, args, words):
    monkeypatch.setenv("COLUMNS", "200")
    assert run(list(args)) == 0
    out = capsys.readouterr().out
    assert all(word in out for word in words)


#: Clears the screen, sets the title, hides what follows, and turns the direction of the rest.
HOSTILE = "\x1b[2J\x1b]0;t\x07\x9b8m\x7f\u202e\u2066\r\nx"
HARMLESS = r"\x1b[2J\x1b]0;t\x07\x9b8m\x7f\u202e\u2066"


@pytest.fixture
def strangers(call, stream):
    """A refused request whose caller wrote the model and its own id, and an entry with such a reason."""

    async def work():
        async with open_ledger("sqlite:///ledger.db", owner="gateway") as ledger:
            account = await ledger.account("acme")
            refused = RequestRecord(
                id="req_2", account_id=account.id, key_id=stream["id"], created_at_ms=1_796_032_800_001,
                protocol="chat", model=HOSTILE, contract="hoptrio", stream=True, state="refused",
                reason="model_not_found", client_request_id=HOSTILE, hold_nanos=0, charge_nanos=0,
            )  # fmt: skip
            ledger.note(refused)
            await ledger.deposit("acme", 1, HOSTILE)

    trio.run(work)


@pytest.mark.parametrize(
    ("args", "status"),
    [
        (("request", "show", "req_2"), 0),
        (("request", "list"), 0),
        (("account", "show", "acme", "--entries"), 0),
        (("account", "show", HOSTILE), 1),
        (("key", "create", "--account", "acme", "--model", HOSTILE), 0),
        (("route", HOSTILE), 1),
    ],
)
def test_no_text_of_a_stranger_commands_a_terminal(strangers, capsys, monkeypatch, args, status):
    monkeypatch.setenv("COLUMNS", "500")
    assert run(list(args)) == status
    shown = "".join(capsys.readouterr())
    # An error may be of several lines; a cell is one.
    assert HARMLESS + (r"\r\nx" if status == 0 else "\nhoptrio: x") in shown
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown)


def test_programs_get_every_text_as_it_is(call, strangers):
    shown = call("request", "show", "req_2")[1]
    assert (shown["model"], shown["client_request_id"]) == (HOSTILE, HOSTILE)


def test_a_disabled_account_that_is_disabled_again_has_one_entry_for_it(call):
    call("account", "create", "acme")
    for _ in range(2):
        call("account", "disable", "acme")
    assert [entry["why"] for entry in call("account", "show", "acme", "--entries")[1]["entries"]] == ["disabled"]
    assert call("ledger", "audit")[0] == 0


# -- export ------------------------------------------------------------------------------------------------------------


def test_entries_are_exported_in_columns_that_stay(call, stream, capsys):
    call("account", "create", "other", "--deposit", "3")
    assert run(["ledger", "export", "--account", "acme"]) == 0
    header, *rows = csv.reader(io.StringIO(capsys.readouterr().out))
    assert header == ["seq", "at", "account", "kind", "amount", "returned", "uncollected", "currency", "hold", "why"]
    assert [row[2:] for row in rows] == [
        ["acme", "deposit", "10", "", "", "EUR", "", ""],
        ["acme", "capture", "-0.25", "0.75", "", "EUR", "hold_1", ""],
    ]


def test_requests_are_exported_as_they_are_shown(call, stream, capsys):
    assert call("ledger", "export", "--what", "requests")[1] == [call("request", "show", "req_1")[1]]
    assert run(["ledger", "export", "--what", "requests"]) == 0
    [row] = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert (row["id"], row["account"], row["charge"], row["hold"]) == ("req_1", "acme", "0.25", "1")
    assert (row["input_tokens"], row["stream"], row["client_request_id"]) == ("", "true", "mine")


def test_an_export_is_of_the_time_from_until_before(call, stream):
    def ids(since, until):
        return [row["id"] for row in call("ledger", "export", "--what", "requests", "--from", since, "--to", until)[1]]

    created_at = call("request", "show", "req_1")[1]["created_at"]
    assert ids("2026-11-30", "2026-12-02") == ids(created_at, "2026-12-02") == ["req_1"]
    assert ids("2026-11-01", created_at) == ids("2026-12-02", "2027-01-01") == []


def test_an_export_to_a_link_is_written_where_it_leads(call, stream, folder):
    (folder / "link.json").symlink_to("there.json")
    call("ledger", "export", "link.json")
    assert (folder / "link.json").is_symlink()
    assert [row["kind"] for row in json.loads((folder / "there.json").read_text())] == ["deposit", "capture"]


def test_an_export_to_a_pipe_goes_through_it(call, stream, folder):
    os.mkfifo(folder / "pipe")
    reader = os.open(folder / "pipe", os.O_RDWR)
    try:
        call("ledger", "export", "pipe")
        assert [row["kind"] for row in json.loads(os.read(reader, 65_536))] == ["deposit", "capture"]
        assert (folder / "pipe").is_fifo()
    finally:
        os.close(reader)


def test_an_export_goes_through_pages(call, monkeypatch):
    monkeypatch.setattr("hoptrio.limits.EXPORT_PAGE_ROWS", 2)
    call("account", "create", "acme")
    for number in range(1, 6):
        call("account", "deposit", "acme", str(number))
    assert [row["amount"] for row in call("ledger", "export")[1]] == ["1", "2", "3", "4", "5"]


def test_an_export_to_a_file_is_whole_and_private(call, stream, folder):
    assert call("ledger", "export", "entries.csv", "--format", "csv") == (0, {"file": "entries.csv", "rows": 2})
    assert (folder / "entries.csv").read_text().count("\n") == 3
    assert (folder / "entries.csv").stat().st_mode & 0o777 == 0o600
    assert not list(folder.glob("*.partial"))
    assert call("ledger", "export", "--account", "nobody")[0] == 1


# -- backup ------------------------------------------------------------------------------------------------------------


def test_a_backup_of_a_ledger_that_is_being_written_passes_the_audit(call, stream, folder):
    over = threading.Event()

    def deposit() -> None:
        async def work() -> None:
            async with open_ledger(f"sqlite:///{folder}/ledger.db") as ledger:
                while not over.is_set():
                    await ledger.deposit("acme", 1)

        trio.run(work)

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(deposit)
        try:
            assert call("ledger", "backup", "copy.db")[0] == 0
        finally:
            over.set()
        writing.result()
    assert (folder / "copy.db").stat().st_mode & 0o777 == 0o600
    (folder / "hoptrio.toml").write_text(CONFIG.replace("ledger.db", "copy.db"))
    status, report = call("ledger", "audit")
    assert (status, report["captured"]) == (0, 1)


def test_a_backup_replaces_no_file(call, stream, folder):
    (folder / "mine").write_text("mine")
    assert call("ledger", "backup", "mine")[0] == 1
    assert (folder / "mine").read_text() == "mine"


def test_a_backup_of_nothing_is_a_failure(call, folder):
    status, told = call("ledger", "backup", "copy.db")
    assert status == 1
    assert told["error"]["message"].startswith("no backup: there is no ")
    assert not (folder / "copy.db").exists()
