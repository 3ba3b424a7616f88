"""The reference of the config file, made of its model (`config.schema`) and of the contract's fields."""

from __future__ import annotations

import typing
from typing import TYPE_CHECKING, Any, Literal

from annotated_types import Ge, Le

from hoptrio.config import schema
from hoptrio.config.secret import HeaderSecret, Secret
from hoptrio.contract import FIELDS, PRESETS
from hoptrio.protocols.events import Protocol
from tests.support.pages.table import head, line

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

__all__ = ["TABLES", "render"]

#: Every table of the file, as its heading, in the order of the page.
TABLES: dict[str, type[schema.Table]] = {
    "[server]": schema.Server,
    "[control]": schema.Control,
    "[ledger]": schema.LedgerSettings,
    "[certification]": schema.Certification,
    "[models.NAME]": schema.ModelTable,
    "[models.NAME.tiers.VALUE]": schema.PriceTable,
    "[channels.NAME]": schema.ChannelTable,
}
CONTRACTS = "[contracts.NAME]"

_PROTOCOLS = "list of " + ", ".join(f'`"{each}"`' for each in Protocol)
#: What is written in the file where the annotation does not say it.
_WRITTEN: list[tuple[Any, str]] = [
    (schema.ListenText, '`"HOST:PORT"`'),
    (schema.Amount, "amount"),
    (schema.Share, "amount, 0 to 1"),
    (Secret, "secret"),
    (HeaderSecret, "secret"),
    (bool, "`true` or `false`"),
    (int, "integer"),
    (float, "number"),
    (str, "string"),
    (schema.Name, "string"),
    (schema.Tokens, "integer"),
    (dict[schema.Name, schema.Amount], "table of amounts"),
    (dict[schema.Name, schema.PriceTable], "table of price tables"),
]
#: Where what is written is turned into another shape.
_SHAPED = {
    ("[server]", "cors_origins"): "list of origins",
    ("[server]", "trusted_proxies"): "list of addresses or networks",
    ("[control]", "gateway_url"): "address",
    ("[ledger]", "url"): "address, secret",
    ("[channels.NAME]", "protocols"): _PROTOCOLS,
    ("[channels.NAME]", "base_url"): "address, or table of addresses",
    ("[channels.NAME]", "models"): "list of names or tables",
    ("[channels.NAME]", "accounts"): "list of names",
    ("[channels.NAME]", "keys"): "list of ids",
    ("[channels.NAME]", "headers"): "table of secrets",
    ("[channels.NAME]", "query"): "table of secrets",
    ("[channels.NAME]", "proxy"): "address, secret",
}


def render() -> str:
    """A section for each table."""
    sections = [_section(title, table) for title, table in TABLES.items()]
    return "\n".join([*sections[:4], _contracts(), *sections[4:]])


def _section(title: str, table: type[schema.Table]) -> str:
    annotations = typing.get_type_hints(table, include_extras=True)
    lines = [f"## `{title}`", "", table.__doc__ or "", "", *head("key", "is", "default", "what it does")]
    for name, field in table.model_fields.items():
        kind = _SHAPED.get((title, name)) or _kind(annotations[name])
        lines.append(line(f"`{name}`", kind + _range(field), _default(field), field.description))
    return "\n".join([*lines, ""])


def _contracts() -> str:
    about = (
        "A contract of your own: a preset, and the fields that differ from it. [Contracts](contracts.md) has the rest."
    )
    lines = [f"## `{CONTRACTS}`", "", about, "", *head("key", "is", "default", "what it does")]
    presets = ", ".join(f'`"{name}"`' for name in PRESETS)
    lines.append(line("`preset`", presets, '`"hoptrio"`', "What the other keys start from."))
    rows = [line(f"`{field.name}`", _allowed(field), "the preset's", field.about) for field in FIELDS]
    return "\n".join([*lines, *rows, ""])


def _allowed(field: Any) -> str:
    if field.name == "protocols":
        return _PROTOCOLS
    if field.bounds:
        low, high = field.bounds
        return f"{'integer' if isinstance(field.hoptrio, int) else 'number'}, {low:g} to {high:g}"
    return _written(field.values)


def _written(values: tuple[Any, ...]) -> str:
    return ", ".join(f"`{_toml(value)}`" for value in values) if values != (True, False) else "`true` or `false`"


def _kind(annotation: Any) -> str:
    annotation = _required(annotation)
    for known, words in _WRITTEN:
        if annotation == known:
            return words
    if typing.get_origin(annotation) is Literal:
        return _written(typing.get_args(annotation))
    if typing.get_origin(annotation) is typing.Annotated:
        return _kind(typing.get_args(annotation)[0])
    raise ValueError(f"what is to be written for {annotation}?")


def _required(annotation: Any) -> Any:
    members = [each for each in typing.get_args(annotation) if each is not type(None)]
    return members[0] if len(members) == 1 and type(None) in typing.get_args(annotation) else annotation


def _range(field: FieldInfo) -> str:
    low = next((each.ge for each in field.metadata if isinstance(each, Ge)), None)
    high = next((each.le for each in field.metadata if isinstance(each, Le)), None)
    if low is None and high is None:
        return ""
    return f", {low:,.0f} to {high:,.0f}" if high is not None else f", at least {low:,.0f}"


def _default(field: FieldInfo) -> str:
    if "Required" in (field.description or ""):
        return ""
    return "none" if field.default in (None, "", (), {}) else f"`{_toml(field.default)}`"


def _toml(value: Any) -> str:
    """As it would be written in the file."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, schema.Listen | str):
        return f'"{value}"'
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return f"{value:.0f}" if float(value).is_integer() else f"{value:g}"
