"""The config that the compose file mounts is one that hoptrio takes."""

from __future__ import annotations

from pathlib import Path

from hoptrio.config import load

CONFIG = Path(__file__).resolve().parents[2] / "contrib" / "container" / "hoptrio.toml"


def test_the_config_of_the_compose_file_is_valid(monkeypatch):
    monkeypatch.setenv("HOPTRIO_CONTROL_TOKEN", "token")
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    config = load(CONFIG)
    assert config.server.workers == 2
    assert str(config.ledger.journal) == "/var/lib/hoptrio/journal"
