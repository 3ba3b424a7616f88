from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING

from hoptrio.cli.init import example
from hoptrio.cli.main import run
from hoptrio.config import build
from hoptrio.config.schema import Certification, ChannelTable, Control, LedgerSettings, ModelTable, Server
from hoptrio.contract import FIELDS

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def uncommented() -> str:
    """The example with every commented key switched on."""
    return re.sub(r"^# (?=\[|[a-z_0-9]+ = )", "", example(), flags=re.MULTILINE)


def test_every_key_of_the_file_is_in_the_example() -> None:
    raw = tomllib.loads(uncommented())
    tables = {"server": Server, "control": Control, "ledger": LedgerSettings, "certification": Certification}
    for name, table in tables.items():
        assert raw[name].keys() == table.model_fields.keys()
    assert raw["models"]["gpt-5.6-sol"].keys() == ModelTable.model_fields.keys()
    assert raw["channels"]["openai"].keys() | {"accounts", "keys"} == ChannelTable.model_fields.keys()
    assert raw["contracts"]["patient"].keys() - {"preset"} == {field.name for field in FIELDS}


def test_every_commented_key_shows_its_default() -> None:
    plain, full = (tomllib.loads(text) for text in (example(), uncommented()))
    # Files that do not exist are no defaults, and nothing here is probed or served.
    for name in ("server", "control"):
        del full[name]["tls_certificate"], full[name]["tls_key"]
    environ = {"HOPTRIO_CONTROL_TOKEN": "t", "OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k", "GEMINI_API_KEY": "k"}
    full["channels"].pop("gemini")
    made, given = build(full, environ=environ), build(plain, environ=environ)
    assert (made.server, made.control, made.certification) == (given.server, given.control, given.certification)


def test_a_file_that_exists_is_never_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text("mine")
    assert run(["init", "mine.toml"]) == 1
    assert capsys.readouterr().err == "hoptrio: mine.toml exists; it is left as it is\n"
    assert (tmp_path / "mine.toml").read_text() == "mine"


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", str(tmp_path / "none" / "x.toml")]) == 1
    assert "cannot be written: No such file or directory" in capsys.readouterr().err
