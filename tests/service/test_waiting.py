"""Keys that a reload does not take over are named, and only those; against what the process started with."""

from __future__ import annotations

import os
import re
import signal
from functools import partial
from pathlib import Path

import pytest
import structlog
import trio

from hoptrio.config import Certification, Control, LedgerSettings, Server, build
from hoptrio.service.run import serve
from hoptrio.service.waiting import waiting_alone, waiting_of_workers

PAGE = Path(__file__).resolve().parents[2] / "docs" / "operating.md"
SECRET = "a-token-that-nobody-may-read"


def config(folder, **tables):
    base = {"server": {"listen": "127.0.0.1:0"}, "control": {"listen": "127.0.0.1:0", "token": SECRET}}
    return build({name: base.get(name, {}) | tables.get(name, {}) for name in {*base, *tables}}, directory=folder)


@pytest.mark.parametrize(
    ("tables", "alone", "of_workers"),
    [
        ({}, [], []),
        ({"server": {"max_streams": 5, "cors_origins": [], "reattach_minutes": 1}}, [], []),
        ({"server": {"trusted_proxies": ["127.0.0.1"]}, "control": {"token": "another"}}, [], []),
        ({"server": {"listen": "127.0.0.1:1"}}, ["server.listen"], ["server.listen"]),
        ({"control": {"listen": "127.0.0.1:1"}}, ["control.listen"], ["control.listen"]),
        ({"control": {"token": ""}}, ["control.token"], ["control.token"]),
        (
            {"server": {"workers": 2, "shutdown_grace_seconds": 1}, "ledger": {"url": "sqlite:///other.db"}},
            ["ledger.url", "server.shutdown_grace_seconds", "server.workers"],
            [],
        ),
        ({"certification": {"valid_days": 3}}, ["certification.valid_days"], []),
    ],
)
def test_what_waits_for_a_restart(tmp_path, tables, alone, of_workers):
    started, now = config(tmp_path), config(tmp_path, **tables)
    assert waiting_alone(started, now) == alone
    assert waiting_of_workers(started, now) == of_workers


def test_a_process_that_began_without_a_spool_keeps_nothing_before_its_restart(tmp_path):
    started = config(tmp_path, server={"reattach_minutes": 0})
    assert waiting_alone(started, config(tmp_path)) == ["server.reattach_minutes"]
    assert waiting_alone(config(tmp_path), started) == []


def test_the_page_names_what_waits_with_one_process(tmp_path):
    """Every key of the tables is said to be taken over or to wait, as the code has it."""
    [item] = re.findall(r"^\* With one process,.*?(?=^\* )", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    taken, _, waiting = item.partition("These wait for a restart")
    tables = {"server": Server, "control": Control, "ledger": LedgerSettings, "certification": Certification}
    keys = {f"{name}.{key}" for name, table in tables.items() for key in table.model_fields}
    started = config(tmp_path)
    everything = {name: {key: object() for key in table.model_fields} for name, table in tables.items()}
    changed = type(started)(
        **{name: getattr(started, name) for name in ("contracts", "catalogue", "warnings", "path", "files")},
        **{name: getattr(started, name).model_copy(update=everything[name]) for name in tables},
    )
    waits = set(waiting_alone(started, changed))
    named = set(re.findall(r"`(\w+\.\w+)`", waiting))
    groups = {key for key in keys if f"`[{key.partition('.')[0]}]`" in waiting}
    assert named | groups == waits
    assert {each for each in re.findall(r"`(\w+\.\w+)`", taken)} == keys - waits


async def test_a_reload_logs_the_keys_that_wait_and_no_value(tmp_path):
    tables = {}
    with structlog.testing.capture_logs() as logged:
        async with trio.open_nursery() as nursery:
            await nursery.start(partial(serve, config(tmp_path), reload=lambda: config(tmp_path, **tables)))
            for waiting in ({"workers": 3}, {}):
                tables["server"] = waiting
                logged.clear()
                os.kill(os.getpid(), signal.SIGHUP)
                with trio.fail_after(20):
                    while not any(each["event"] == "reloaded" for each in logged):  # noqa: ASYNC110
                        await trio.sleep(0.01)
                told = [each for each in logged if each["event"] == "changed keys wait for a restart"]
                assert [(each["log_level"], each["keys"]) for each in told] == (
                    [("warning", ["server.workers"])] if waiting else []
                )
                assert SECRET not in str(logged)
            os.kill(os.getpid(), signal.SIGTERM)
