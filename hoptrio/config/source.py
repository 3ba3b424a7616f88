"""What the words of a config refer to: variables, a directory, and the files that it names, each read once.

A `Source` keeps what it has read. Given to another process, those files make the same config there, whatever the disk
says by then: what was checked is what is used.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["Source", "pack", "unpack"]


@dataclass(frozen=True, slots=True)
class Source:
    """What references are resolved against: the environment, and the directory that relative paths start from."""

    environ: Mapping[str, str]
    directory: Path
    #: What files hold, by their paths. They are secrets.
    files: dict[str, bytes] = field(default_factory=dict, repr=False)

    def read(self, name: str) -> bytes:
        """The content of a file. Raises OSError."""
        path = self.directory / name
        if str(path) not in self.files:
            self.files[str(path)] = path.read_bytes()
        return self.files[str(path)]

    def unreadable(self, name: str) -> str:
        """Why a file cannot be read, "" = it was."""
        path = self.directory / name
        try:
            if str(path) not in self.files and not path.is_file():
                return f"there is no file {name}"
            self.read(name)
        except OSError as error:
            return f"cannot be read: {error.strerror or type(error).__name__}"
        return ""


def pack(files: Mapping[str, bytes]) -> bytes:
    """`files` for another process, which unpacks them."""
    # A path need not be UTF-8.
    return msgspec.msgpack.encode({os.fsencode(path): content for path, content in files.items()})


def unpack(packed: bytes) -> dict[str, bytes]:
    """What was packed."""
    files = msgspec.msgpack.decode(packed, type=dict[bytes, bytes])
    return {os.fsdecode(path): content for path, content in files.items()}
