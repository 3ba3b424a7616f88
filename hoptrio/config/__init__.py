"""The config: TOML to one frozen value, or every mistake at once, each with its file, key and line.

`schema` is the shape of each table, `locate` finds the line of a key, `problem` is what is wrong and where, `secret`
resolves ``env:`` and ``file:``, `build` checks the tables against each other and makes the `Config`. Nothing here
listens, connects or writes, and no secret is ever part of a message or of a repr.
"""

from hoptrio.config.build import Config, build, load, parse, read
from hoptrio.config.problem import ConfigError, Problem
from hoptrio.config.schema import Certification, Control, LedgerSettings, Listen, Server

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
    "parse",
    "read",
]
