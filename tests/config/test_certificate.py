"""A pair is loaded from what was read of its files, which need not be there any more."""

from __future__ import annotations

import os
import ssl
import tempfile
from typing import TYPE_CHECKING

import pytest

from hoptrio.config.certificate import BadPair, load_pair
from tests.support.certificates import Certificates

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def files(tmp_path: Path) -> dict[str, bytes]:
    """A pair, of which nothing is on the disk."""
    folder = Certificates(tmp_path).folder
    return {name: (folder / name).read_bytes() for name in ("chain.pem", "key.pem")}


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go."""
    folder = tmp_path / "scratch"
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def load(files: dict[str, bytes]) -> None:
    load_pair(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), "chain.pem", "key.pem", files)


def test_a_pair_is_on_no_disk_while_it_is_loaded(files: dict[str, bytes], scratch: Path) -> None:
    load(files)
    assert not scratch.exists()


def test_where_no_file_can_be_in_memory_none_stays_on_the_disk(
    files: dict[str, bytes], scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "memfd_create")
    scratch.mkdir()
    load(files)
    with pytest.raises(BadPair, match=r"^key\.pem: holds no private key in PEM"):
        load(files | {"key.pem": b""})
    assert list(scratch.iterdir()) == []
