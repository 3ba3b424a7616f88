"""``hoptrio certify`` against the simulated provider, over real sockets, as programs and people call it."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing

import pytest

from hoptrio.cli.main import run
from tests.support.running import simulator

LONG = "claude-sonnet-4-5-20250929"
CONFIG = """
[ledger]
url = "sqlite:///ledger.db"
[certification]
valid_days = 2
[models.m]
input = "1"
output = "2"
max_input_tokens = 1000
max_output_tokens = 1000
[models.n]
input = "1"
output = "2"
max_input_tokens = 1000
max_output_tokens = 1000
[channels.good]
protocols = ["chat", "messages"]
base_url = {{ chat = "{good}/v1", messages = "{good}" }}
api_key = "sk-provider"
models = ["m", "n"]
[channels.bad]
protocols = ["chat"]
base_url = "{bad}/v1"
api_key = "sk-provider"
models = ["m"]
[channels.mine]
protocols = ["responses"]
base_url = "{good}/v1"
api_key = "sk-provider"
models = ["m"]
route = "dedicated"
"""


@pytest.fixture(scope="module")
def providers():
    with simulator("--script", "events=2 pace=1ms") as good, simulator("--script", "usage=none pace=1ms") as bad:
        yield good, bad


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch, providers):
    good, bad = providers
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hoptrio.toml").write_text(CONFIG.format(good=good, bad=bad))
    return tmp_path


@pytest.fixture
def certify(capsys):
    """Run it with ``--json``; its exit status and what it printed."""

    def certify(*args):
        status = run(["certify", *args, "--json"])
        out, err = capsys.readouterr()
        return status, json.loads(out or err)

    return certify


def rows(folder):
    with closing(sqlite3.connect(folder / "ledger.db")) as connection:
        sql = "SELECT channel, model, protocol, kind, evidence FROM channel_model_usage_evidence ORDER BY 1, 2, 3"
        return connection.execute(sql).fetchall()


def test_every_pair_of_shared_routes_is_probed_and_one_that_fails_makes_it_1(certify, folder):
    status, printed = certify()
    assert status == 1
    told = [(row["channel"], row["model"], row["protocol"], row["certified"], row["finding"]) for row in printed]
    assert told == [
        ("good", "m", "chat", True, "certified"),
        ("good", "m", "messages", True, "certified"),
        ("good", "n", "chat", True, "certified"),
        ("good", "n", "messages", True, "certified"),
        ("bad", "m", "chat", False, "no_usage"),
    ]
    assert printed[-1]["why"] == "the stream ended without usage"
    assert (printed[-1]["evidence"], printed[-1]["valid_until"]) == (None, None)
    kept = rows(folder)
    assert [row[:4] for row in kept] == [("good", m, p, "sse_terminal") for m in "mn" for p in ("chat", "messages")]
    assert json.loads(kept[0][4])["completion_tokens"] == printed[0]["output"] == 2


def test_where_all_is_well_it_is_0(certify):
    status, printed = certify("--channel", "good", "--model", "n")
    assert status == 0
    assert [(row["model"], row["protocol"]) for row in printed] == [("n", "chat"), ("n", "messages")]


def test_a_dedicated_channel_is_probed_only_by_name(certify):
    status, [row] = certify("--channel", "mine")
    assert (status, row["protocol"], row["certified"]) == (0, "responses", True)


def test_on_demand_it_probes_however_lately_it_did(certify):
    first = certify("--channel", "good")[1]
    again = certify("--channel", "good")[1]
    assert all(row["certified"] for row in first + again)
    assert all(new["valid_until"] > old["valid_until"] for old, new in zip(first, again, strict=True))


def test_what_fails_loses_its_certificate_and_a_provider_that_is_down_does_not(certify, folder, providers):
    certify("--channel", "good", "--model", "m")
    config = (folder / "hoptrio.toml").read_text()
    # The same address in the ledger's eyes, so the certificate is in question; only the connection's end is another.
    (folder / "hoptrio.toml").write_text(
        config.replace('models = ["m", "n"]', 'models = ["m"]\nproxy = "http://127.0.0.1:9"')
    )
    status, printed = certify("--channel", "good")
    assert (status, {row["finding"] for row in printed}) == (1, {"unreached"})
    assert all(row["valid_until"] for row in printed)
    assert len(rows(folder)) == 2


@pytest.mark.parametrize(("args", "word"), [(("--channel", "none"), "bad, good, mine"), (("--model", "none"), "m, n")])
def test_a_name_that_is_not_there_is_wrong_usage(certify, args, word):
    status, error = certify(*args)
    assert status == 2
    assert word in error["error"]["message"]


def test_people_get_a_table_and_words_that_80_columns_hold(capsys, monkeypatch, folder):
    monkeypatch.setenv("COLUMNS", "80")
    config = folder / "hoptrio.toml"
    config.write_text(config.read_text().replace("[models.n]", f"[models.{LONG}]").replace('"n"', f'"{LONG}"'))
    assert run(["certify"]) == 1
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert max(map(len, lines)) <= 80
    assert [word for word in lines[1].split() if word.isalpha()] == [
        *("channel", "model", "protocol", "finding", "valid", "until")
    ]
    assert re.search(f"good .* {LONG} .* messages .* certified .* 20[0-9-]{{8}} ", out)
    assert lines[-1] == "bad, m, chat: the stream ended without usage"
    assert err == ""


def test_where_nothing_is_shared_nothing_is_probed_and_that_is_said(capsys, folder):
    config = (folder / "hoptrio.toml").read_text()
    shared = config.replace("[channels.bad]", 'route = "dedicated"\n[channels.bad]')
    (folder / "hoptrio.toml").write_text(shared.replace("[channels.mine]", 'route = "dedicated"\n[channels.mine]'))
    assert run(["certify"]) == 0
    assert "nothing to probe" in capsys.readouterr().err
