"""From a TOML file, or a mapping of the same shape, to one frozen `Config`: all mistakes at once, or the value.

Every table is validated alone (`schema`), then the tables against each other, so that a mistake in one never hides
another. Only a config without any mistake is built.
"""

from __future__ import annotations

import difflib
import os
import re
import ssl
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from hoptrio.admission.catalogue import Catalogue, Channel, Model
from hoptrio.config.certificate import BadPair, load_pair
from hoptrio.config.channels import check_channel, make_channel
from hoptrio.config.contracts import read_contracts
from hoptrio.config.locate import locate
from hoptrio.config.models import check_model, make_model
from hoptrio.config.problem import ConfigError, Key, Problem, Report
from hoptrio.config.schema import (
    JOURNAL,
    Certification,
    ChannelTable,
    Control,
    LedgerSettings,
    ModelTable,
    Server,
    Table,
)
from hoptrio.config.source import Source

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hoptrio.contract import Contract

__all__ = ["Config", "build", "load"]

_TABLES = ("server", "control", "ledger", "certification", "contracts", "models", "channels")
_TOML_PLACE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")
_WILDCARDS = frozenset({"0.0.0.0", "::"})

T = TypeVar("T", bound=Table)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Everything an operator may set, checked. Secrets are inside, resolved, and not part of any repr."""

    server: Server
    control: Control
    ledger: LedgerSettings
    certification: Certification
    #: The presets and the operator's own, by name; `server.contract` is one of them.
    contracts: Mapping[str, Contract]
    catalogue: Catalogue
    #: What works and is advised against.
    warnings: tuple[Problem, ...]
    #: Where it came from, for messages; None = built in code.
    path: Path | None
    #: What it was made of: the content of its own file and of those that it names, by their paths. Secrets, too.
    files: Mapping[str, bytes] = field(repr=False)

    @property
    def contract(self) -> Contract:
        """The contract of a key that names none."""
        return self.contracts[self.server.contract]


def load(
    path: Path, environ: Mapping[str, str] = os.environ, *, files: Mapping[str, bytes] = MappingProxyType({})
) -> Config:
    """Read the file at `path`. Relative paths in it start from its own directory. With the `files` of a config that
    was loaded before, it is made again as it was then, and nothing is read.

    Raises ConfigError with every mistake, a file that cannot be read or is not TOML included.
    """
    source = Source(environ, path.absolute().parent, dict(files))
    return _parse(_read(path, source), path, source)


def _read(path: Path, source: Source) -> bytes:
    try:
        return source.read(str(path.absolute()))
    except OSError as error:
        hint = "; `hoptrio init` writes one" if isinstance(error, FileNotFoundError) else ""
        reason = error.strerror or type(error).__name__
        raise ConfigError((Problem(str(path), "", 0, f"cannot be read: {reason}{hint}"),)) from None


def _parse(content: bytes, path: Path, source: Source) -> Config:
    try:
        text = content.decode("utf-8").replace("\r\n", "\n")
        raw = tomllib.loads(text)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError((Problem(str(path), "", line, "this is not UTF-8"),)) from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError((_syntax_problem(path, text, str(error)),)) from None
    report = Report(str(path), locate(text))
    return _build(raw, report, source, path)


def build(raw: Mapping[str, Any], *, environ: Mapping[str, str] = os.environ, directory: Path | None = None) -> Config:
    """Make a config from a mapping of the file's shape; relative paths start from `directory` (the working one).

    Raises ConfigError with every mistake.
    """
    return _build(raw, Report("config", {}), Source(environ, directory or Path.cwd()), None)


def _syntax_problem(path: Path, text: str, message: str) -> Problem:
    place = _TOML_PLACE.search(message)
    line = int(place[1]) if place and place[1] else text.count("\n") + 1
    return Problem(str(path), "", line, f"this is not TOML: {_TOML_PLACE.sub('', message)}")


def _build(raw: Mapping[str, Any], report: Report, source: Source, path: Path | None) -> Config:
    for name in (name for name in raw if name not in _TABLES):
        report.error((name,), f"there is no such table{_meant(name, _TABLES)}")
    server = _table(Server, raw.get("server", {}), ("server",), report, source)
    control = _table(Control, raw.get("control", {}), ("control",), report, source)
    ledger = _table(LedgerSettings, raw.get("ledger", {}), ("ledger",), report, source)
    certification = _table(Certification, raw.get("certification", {}), ("certification",), report, source)
    contracts = read_contracts(_named(raw, "contracts", report), report)
    models = _tables(ModelTable, raw, "models", report, source)
    channels = _tables(ChannelTable, raw, "channels", report, source)

    _check_server(server, contracts, ledger, report)
    _check_tls("server", server, report, source)
    _check_tls("control", control, report, source)
    _check_journal(ledger, report, source)
    _check_spool(server, report, source)
    _check_control(server, control, "control" in raw, report)
    for name, model in models.items():
        check_model(name, model, report)
    for name, channel in channels.items():
        check_channel(name, channel, models, report, source)
    _warn_unserved(models, channels, report)
    if report.errors:
        raise ConfigError(report.errors)
    return Config(
        server=server.model_copy(update=_resolved(server, source, "tls_certificate", "tls_key", "spool_dir")),
        control=control.model_copy(update=_resolved(control, source, "tls_certificate", "tls_key")),
        ledger=ledger.model_copy(
            update={"url": _absolute(ledger.url, source), "journal": str(_journal(ledger, source) or "")}
        ),
        certification=certification,
        contracts=contracts,
        catalogue=_catalogue(models, channels, source),
        warnings=report.warnings,
        path=path,
        files=MappingProxyType(source.files),
    )


def _catalogue(models: Mapping[str, ModelTable], channels: Mapping[str, ChannelTable], source: Source) -> Catalogue:
    made_models: dict[str, Model] = {name: make_model(name, table) for name, table in models.items()}
    made_channels: dict[str, Channel] = {name: make_channel(name, table, source) for name, table in channels.items()}
    return Catalogue(MappingProxyType(made_models), MappingProxyType(made_channels))


def _named(raw: Mapping[str, Any], section: str, report: Report) -> Mapping[str, Any]:
    """A section whose keys are names of the operator's choice."""
    value = raw.get(section, {})
    if not isinstance(value, dict):
        report.error((section,), f"write tables, e.g. [{section}.NAME]")
        return {}
    if "" in value:
        report.error((section, ""), "a name is empty")
    return value


def _tables(table: type[T], raw: Mapping[str, Any], section: str, report: Report, source: Source) -> dict[str, T]:
    named = _named(raw, section, report)
    return {name: _table(table, value, (section, name), report, source) for name, value in named.items()}


def _table(table: type[T], value: Any, key: Key, report: Report, source: Source) -> T:
    """Validate one table. What is wrong is reported and left at its default, so that the rest can still be checked."""
    try:
        return table.model_validate(value, context=source)
    except ValidationError as error:
        rest = value if isinstance(value, dict) else {}
        for each in error.errors(include_url=False, include_input=False):
            report.error((*key, *_location(each["loc"])), _message(each["type"], each["msg"], each["loc"], table))
            rest = _without(rest, each["loc"])
        return table.model_validate(rest, context=source)


def _without(value: dict[str, Any], loc: Key) -> dict[str, Any]:
    """The table without the key that is wrong, which may lie deeper; of a wrong array nothing is kept."""
    rest = {name: item for name, item in value.items() if name not in loc[:1]}
    below = value.get(str(loc[0])) if len(loc) > 1 else None
    return {**rest, str(loc[0]): _without(below, loc[1:])} if isinstance(below, dict) else rest


def _location(loc: Key) -> Key:
    """pydantic marks a wrong dict key with ``[key]`` behind it, and one base URL for all protocols has no key."""
    return tuple(part for part in loc if part not in ("", "[key]"))


def _message(kind: str, message: str, loc: Key, table: type[Table]) -> str:
    if kind == "extra_forbidden":
        known = table.model_fields if len(loc) == 1 else ()
        return f"there is no such key{_meant(str(loc[-1]), known)}"
    if kind in ("model_type", "dict_type"):
        return "write a table here"
    if kind == "tuple_type":
        return "write a list here"
    if kind == "missing":
        return "is missing"
    if kind == "string_pattern_mismatch":
        return "is three to eight capital letters or digits"
    return message.removeprefix("Value error, ")


def _meant(name: str, known: Any) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _check_server(server: Server, contracts: Mapping[str, Contract], ledger: LedgerSettings, report: Report) -> None:
    if server.contract not in contracts:
        report.error(("server", "contract"), f"there is no contract {server.contract!r}")
    if server.workers > 1 and ledger.url.startswith("sqlite:"):
        report.warn(("server", "workers"), "more than one worker on SQLite share one writer; use PostgreSQL under load")


def _check_tls(section: str, table: Server | Control, report: Report, source: Source) -> None:
    """Both files or none, and a pair that a listener can show: a reload with a broken one must change nothing."""
    wrong = False
    for name, other in (("tls_certificate", "tls_key"), ("tls_key", "tls_certificate")):
        if getattr(table, name) and not getattr(table, other):
            report.error((section, other), f"is missing: {name} is of no use without it")
            wrong = True
        if getattr(table, name) and (unreadable := source.unreadable(getattr(table, name))):
            report.error((section, name), unreadable)
            wrong = True
    if wrong or not table.tls_certificate:
        return
    try:
        certificate, key = (str(source.directory / path) for path in (table.tls_certificate, table.tls_key))
        load_pair(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), certificate, key, source.files)
    except BadPair as error:
        report.error((section, error.key), error.reason)


def _check_journal(ledger: LedgerSettings, report: Report, source: Source) -> None:
    path = _journal(ledger, source)
    if path is not None and (wrong := _unusable(path)):
        report.error(("ledger", "journal"), wrong)


def _check_spool(server: Server, report: Report, source: Source) -> None:
    if not server.keeps_streams:
        return
    if wrong := _unusable(source.directory / server.spool_dir):
        report.warn(("server", "spool_dir"), f"{wrong}: clients cannot come back to an answer that has ended")
    if server.spool_bytes_max // server.workers < server.reattach_bytes_max:
        what = "is less than reattach_bytes_max, one stream's, for each worker"
        report.error(("server", "spool_bytes_max"), f"{server.spool_bytes_max} {what}")


def _unusable(path: Path) -> str:
    """A gateway makes the directory when it starts; why it cannot is told before, "" = it can."""
    there = next(each for each in (path, *path.parents) if os.path.exists(each))
    if not there.is_dir():
        return f"{there.name} is not a directory"
    return "" if os.access(there, os.W_OK | os.X_OK) else f"the directory {there.name} cannot be written"


def _journal(ledger: LedgerSettings, source: Source) -> Path | None:
    """Settlements are journalled where the database is not on this machine, and wherever the config says so."""
    embedded = ledger.url.startswith("sqlite:")
    return None if embedded and not ledger.journal else source.directory / (ledger.journal or JOURNAL)


def _check_control(server: Server, control: Control, given: bool, report: Report) -> None:
    if given and not control.token:
        report.warn(("control", "token"), "without a token the control plane is not served")
    same_host = server.listen.host == control.listen.host or _WILDCARDS & {server.listen.host, control.listen.host}
    if control.token and server.listen.port == control.listen.port != 0 and same_host:
        report.error(("control", "listen"), f"{control.listen} is taken by [server]")


def _warn_unserved(models: Mapping[str, ModelTable], channels: Mapping[str, ChannelTable], report: Report) -> None:
    served = {offer.name for channel in channels.values() for offer in channel.models}
    for name in (name for name in models if name not in served):
        report.warn(("models", name), "no channel serves this model")


def _resolved(table: Server | Control, source: Source, *names: str) -> dict[str, str]:
    """The paths under these keys, those that are set, as absolute ones."""
    return {name: str(source.directory / path) for name in names if (path := getattr(table, name))}


def _absolute(url: str, source: Source) -> str:
    """One config file means one database, from whichever directory a command is run."""
    prefix, slashes, path = url.partition("sqlite:///")
    return f"sqlite:///{source.directory / path}" if slashes and not prefix else url
