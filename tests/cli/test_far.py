"""The same commands, near (on the database) and far (through a running control plane): the same answers and endings."""

from __future__ import annotations

import json

import pytest

from hoptrio.cli.main import run
from tests.support.certificates import Certificates
from tests.support.deployment import Deployment, config_for, served

TOKEN = "a-control-token"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server with an account, and the URL of its control plane."""
    deployment = Deployment(tmp_path_factory.mktemp("far"), config_for("http://127.0.0.1:9"))
    deployment.config["control"] = {"listen": "127.0.0.1:0", "token": TOKEN}
    deployment.config["certification"] = {"probe_at_start": False}
    deployment.write_config()
    deployment.add_account("acme", "10.5")
    with served(deployment) as running:
        yield deployment, running.control, running.url


@pytest.fixture
def ask(server, capsys, monkeypatch):
    """Run a command there, from a folder without a config; its exit status and what it printed."""

    def ask(*args, token=TOKEN, url=None):
        monkeypatch.setenv("HOPTRIO_CONTROL_TOKEN", token)
        status = run(["--control", url or server[1], *args, "--json"])
        out, err = capsys.readouterr()
        return status, json.loads(out or err.splitlines()[-1])

    return ask


@pytest.fixture
def both(server, ask, capsys, monkeypatch):
    """Run a command far and near; what both printed, which is the same."""

    def both(*args):
        far = ask(*args)
        monkeypatch.setenv("HOPTRIO_CONTROL_TOKEN", "")
        status = run(["--config", str(server[0].path), *args, "--json"])
        out, err = capsys.readouterr()
        near = status, json.loads(out or err.splitlines()[-1])
        assert far == near
        return far

    return both


def test_a_token_that_is_not_set_is_named(server, capsys, monkeypatch):
    monkeypatch.delenv("HOPTRIO_CONTROL_TOKEN", raising=False)
    assert run(["--control", server[1], "account", "list"]) != 0
    assert "HOPTRIO_CONTROL_TOKEN is not set" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    [
        ("account", "list"),
        ("account", "show", "acme"),
        ("account", "show", "acme", "--entries", "--limit", "1"),
        ("key", "list"),
        ("key", "list", "--account", "acme"),
        ("request", "list", "--state", "captured", "--since", "2026-01-01"),
        ("ledger", "audit"),
        ("route", "sim-small"),
        ("route", "sim-small", "--protocol", "gemini", "--contract", "hopbase"),
    ],
)
def test_a_question_has_one_answer(both, command):
    status, _ = both(*command)
    assert status == 0


@pytest.mark.parametrize(
    ("command", "status", "word"),
    [
        (("account", "show", "nobody"), 1, "no account nobody"),
        (("account", "create", "acme"), 1, "there is an account named acme"),
        (("account", "create", "a\nb"), 2, "printable"),
        (("account", "deposit", "acme", "0"), 2, "above 0"),
        (("account", "adjust", "acme", "-11", "--why", "w"), 1, "available"),
        (("key", "create", "--account", "acme", "--contract", "none"), 2, "no contract none; there are anypath"),
        (("key", "create", "--account", "nobody"), 1, "no account nobody"),
        (("key", "create", "--account", "acme", "--expires", "2026-01-31"), 2, "2026-01-31T00:00:00.000Z is over"),
        (("key", "revoke", "key_none"), 1, "no key key_none"),
        (("request", "show", "req_none"), 1, "no request req_none"),
        (("ledger", "release", "hold_none", "--why", "w"), 1, "no hold hold_none"),
        (("route", "none"), 1, "no model none"),
        (("route", "sim-small", "--key", "key_none"), 1, "no key key_none"),
        (("certify", "--channel", "none"), 2, "no channel none"),
    ],
)
def test_a_refusal_is_the_same_one(both, command, status, word):
    ended, told = both(*command)
    assert (ended, word in told["error"]["message"]) == (status, True)


def test_changes_are_made_there(ask, server):
    assert ask("account", "create", "a/b c", "--deposit", "5")[1]["balance"] == "5"
    assert ask("account", "deposit", "a/b c", "0.25", "--why", "paid")[1]["balance"] == "5.25"
    assert ask("account", "adjust", "a/b c", "-5", "--why", "typo")[1]["balance"] == "0.25"
    assert ask("account", "disable", "a/b c")[1]["disabled"] is True
    assert ask("account", "disable", "a/b c", "--undo")[1]["disabled"] is False
    status, made = ask("key", "create", "--account", "a/b c", "--expires", "2099-01-31", "--model", "sim-small")
    assert (status, made["expires_at"], made["secret"][:3]) == (0, "2099-01-31T00:00:00.000Z", "sk-")
    assert ask("key", "revoke", made["id"])[1]["revoked"] is True
    assert server[0].command("account", "show", "a/b c")["balance"] == "0.25"


def test_probes_are_made_there(ask):
    status, rows = ask("certify", "--channel", "simulated", "--model", "sim-small")
    assert (status, {row["finding"] for row in rows}, len(rows)) == (1, {"unreached"}, 4)


def test_a_wrong_token_is_said_to_be_one(ask):
    status, told = ask("account", "list", token="wrong")
    assert (status, told["error"]["code"]) == (1, "invalid_api_key")
    assert "HOPTRIO_CONTROL_TOKEN" in told["error"]["message"]


def test_who_does_not_answer_is_named(ask):
    status, told = ask("account", "list", url="http://127.0.0.1:9")
    assert (status, told["error"]["code"]) == (1, "control_plane")
    assert "http://127.0.0.1:9" in told["error"]["message"]


def test_what_is_no_control_plane_is_said_to_be_none(ask, server):
    status, told = ask("account", "list", url=server[2])
    assert (status, told["error"]["code"]) == (1, "control_plane")


@pytest.mark.parametrize("command", [("check",), ("ledger", "migrate"), ("ledger", "export"), ("serve",)])
def test_what_needs_the_database_is_not_asked_far_away(ask, command):
    status, told = ask(*command)
    assert (status, "leave --control out" in told["error"]["message"]) == (2, True)


def test_an_address_is_one(ask):
    assert ask("account", "list", url="127.0.0.1:8081")[0] == 2


def test_people_read_the_same_table(server, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("HOPTRIO_CONTROL_TOKEN", TOKEN)
    printed = []
    for where in (["--control", server[1]], ["--config", str(server[0].path)]):
        assert run([*where, "account", "show", "acme", "--entries"]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    assert "10.5" in printed[0]


def test_a_list_that_is_longer_than_a_page_is_asked_page_by_page(server, ask, monkeypatch):
    for number in range(5):
        ask("account", "deposit", "acme", str(number + 1))
    _, whole = ask("account", "show", "acme", "--entries")
    monkeypatch.setattr("hoptrio.cli.account.CONTROL_PAGE_ROWS_MAX", 2)
    assert ask("account", "show", "acme", "--entries") == (0, whole)
    _, some = ask("account", "show", "acme", "--entries", "--limit", "3")
    assert some["entries"] == whole["entries"][:3]
    assert len(whole["entries"]) >= 6


# -- https -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    """A server whose control plane speaks HTTPS: (its URL, the folder with its authority)."""
    folder = tmp_path_factory.mktemp("https")
    deployment = Deployment(folder, config_for("http://127.0.0.1:9"))
    deployment.config["control"] = {"listen": "127.0.0.1:0", "token": TOKEN} | Certificates(folder).table
    deployment.config["certification"] = {"probe_at_start": False}
    deployment.write_config()
    with served(deployment) as running:
        assert running.control.startswith("https://")
        yield running.control, folder


def test_the_authority_of_a_control_plane_on_https_is_named(secured, ask):
    url, folder = secured
    assert ask("--control-ca", str(folder / "ca.pem"), "account", "list", url=url) == (0, [])


def test_a_certificate_of_an_authority_that_is_not_known_is_refused(secured, ask):
    status, told = ask("account", "list", url=secured[0])
    assert (status, told["error"]["code"]) == (1, "control_plane")
    assert "is not accepted: " in told["error"]["message"]
    assert "--control-ca names the authority" in told["error"]["message"]


def test_without_a_file_the_systems_authorities_are_asked(secured, ask, monkeypatch):
    """OpenSSL's own variable stands for what a system has."""
    url, folder = secured
    monkeypatch.setenv("SSL_CERT_FILE", str(folder / "ca.pem"))
    assert ask("account", "list", url=url) == (0, [])


def test_another_authority_does_not_vouch_for_it(secured, ask, tmp_path):
    Certificates(tmp_path)
    status, told = ask("--control-ca", str(tmp_path / "ca.pem"), "account", "list", url=secured[0])
    assert (status, "is not accepted: " in told["error"]["message"]) == (1, True)


@pytest.mark.parametrize(
    ("file", "message"), [("none.pem", "does not exist"), ("empty.pem", "holds no certificate in PEM")]
)
def test_a_file_without_authorities_is_wrong_usage(secured, ask, tmp_path, file, message):
    (tmp_path / "empty.pem").write_text("")
    status, told = ask("--control-ca", str(tmp_path / file), "account", "list", url=secured[0])
    assert (status, message in told["error"]["message"]) == (2, True)


def test_an_authority_is_for_https_alone(server, ask, secured, capsys):
    file = str(secured[1] / "ca.pem")
    assert ask("--control-ca", file, "account", "list")[0] == 2
    assert run(["--config", str(server[0].path), "--control-ca", file, "account", "list"]) == 2
    assert "--control-ca is for --control https://" in capsys.readouterr().err
