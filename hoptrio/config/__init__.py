"""The config: TOML to one frozen value, or every mistake at once, each with its file, key and line.

`schema` is the shape of each table, `locate` finds the line of a key, `problem` is what is wrong and where, `source`
reads files, `secret` resolves ``env:`` and ``file:``, `certificate` loads what a listener shows, `build` checks the
tables against each other and makes the `Config`. Nothing here listens or connects, and no secret is ever part of a
message or of a repr.
"""

from hoptrio.config.build import Config, build, load
from hoptrio.config.problem import ConfigError, Problem
from hoptrio.config.schema import Certification, Control, LedgerSettings, Listen, Server
from hoptrio.config.source import pack, unpack

__all__ = [
    "Certification",
    "Config",
    "ConfigError",
    "Control",
    "LedgerSettings",
    "Listen",
    "Problem",
    "Server",
    "build",
    "load",
    "pack",
    "unpack",
]
