"""The files that a config names: read once, and the same config again wherever they are handed to."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from hoptrio.config import Config, ConfigError, load, pack, unpack
from tests.support.certificates import Certificates

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = """
[server]
tls_certificate = "chain.pem"
tls_key = "key.pem"
[control]
token = "file:token"
[channels.c]
protocols = ["chat"]
base_url = "https://api.example/v1"
api_key = "env:KEY"
headers = {x-tenant = "file:/dev/fd/FD"}
ca_file = "ca.pem"
models = ["m"]
[models.m]
input = "1"
output = "2"
max_input_tokens = 1000
max_output_tokens = 100
"""
NAMED = ("hoptrio.toml", "chain.pem", "key.pem", "token", "ca.pem")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Its name is not UTF-8, which no system asks for."""
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    Certificates(folder)
    (folder / "token").write_text("hush-token\n")
    return folder


def load_all(folder: Path) -> Config:
    """With one secret from a pipe, which can be read only once."""
    read, write = os.pipe()
    os.write(write, b"hush-tenant\n")
    os.close(write)
    (folder / "hoptrio.toml").write_text(CONFIG.replace("FD", str(read)))
    try:
        return load(folder / "hoptrio.toml", {"KEY": "k"})
    finally:
        os.close(read)


def test_a_config_is_made_again_from_its_files_when_the_disk_has_none_of_them(folder: Path) -> None:
    config = load_all(folder)
    for name in NAMED:
        (folder / name).unlink()
    again = load(folder / "hoptrio.toml", {"KEY": "k"}, files=unpack(pack(config.files)))
    assert again == config
    assert again.control.token == "hush-token"
    assert again.catalogue.channels["c"].headers == {"x-tenant": "hush-tenant"}
    with pytest.raises(ConfigError):
        load(folder / "hoptrio.toml", {"KEY": "k"})


def test_a_config_is_made_again_as_it_was_when_the_disk_has_something_else(folder: Path) -> None:
    config = load_all(folder)
    for name in NAMED:
        (folder / name).write_text("something else")
    assert load(folder / "hoptrio.toml", {"KEY": "k"}, files=config.files) == config


def test_a_later_load_reads_files_again(folder: Path) -> None:
    path = folder / "hoptrio.toml"
    path.write_text('[control]\ntoken = "file:token"\n')
    before = load(path, {})
    (folder / "token").write_text("hush-new\n")
    assert (before.control.token, load(path, {}).control.token) == ("hush-token", "hush-new")


def test_no_file_is_part_of_a_repr(folder: Path) -> None:
    config = load_all(folder)
    assert "hush" not in repr(config)
    assert "PRIVATE KEY" not in repr(config)
