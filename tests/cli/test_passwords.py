"""A database that cannot be had is told of without its password, whatever is wrong with its address."""

from __future__ import annotations

import json

import pytest

from hoptrio.cli.main import run


@pytest.mark.parametrize("command", [("account", "list"), ("serve",), ("ledger", "migrate")], ids=" ".join)
@pytest.mark.parametrize(
    "url",
    [
        "postgresql://user:canary-password@127.0.0.1:9/db",
        "postgresql://user@127.0.0.1:9/db?password=canary-password",
        "postgresql://user:canary-password@127.0.0.1:9/db?no_such=1",
        "postgresql://user:canary-password@[::1/db",
        "postgresql://user:pass@canary-password@127.0.0.1:9/db",
        "mysql://user:canary-password@host/db",
    ],
)
def test_no_password_is_told(tmp_path, monkeypatch, capfd, url, command):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LEDGER", url)
    (tmp_path / "hoptrio.toml").write_text('[server]\nmax_streams = 10\n[ledger]\nurl = "env:LEDGER"\n')
    assert run([*command, "--json"]) in (1, 2)
    told, errors = capfd.readouterr()
    assert json.loads(errors.splitlines()[-1])["error"]["message"]
    assert "canary-password" not in told + errors
