"""``[contracts.NAME]``: a preset with some fields changed. Which fields there are, and what each may be, is
`contract.FIELDS`'s answer alone."""

from __future__ import annotations

import difflib
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from hoptrio.contract import FIELDS, PRESETS, Contract, derive

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hoptrio.config.problem import Key, Report

__all__ = ["read_contracts"]

#: Below the 30 s after which the shortest common proxy (CloudFront) closes an idle response (case 12).
_PROXY_IDLE_S = 30.0
_DEFAULT_PRESET = "hoptrio"


def read_contracts(tables: Mapping[str, Any], report: Report) -> Mapping[str, Contract]:
    """The presets and the operator's own contracts, by name. What is wrong is reported and left as in the preset."""
    contracts = dict(PRESETS)
    for name, table in tables.items():
        key: Key = ("contracts", name)
        if name in PRESETS:
            report.error(key, "this is the name of a preset; choose another")
        elif not isinstance(table, dict):
            report.error(key, "write a table here")
        else:
            contracts[name] = _read(name, table, key, report)
            _warn(contracts[name], table, key, report)
    return MappingProxyType(contracts)


def _read(name: str, table: Mapping[str, Any], key: Key, report: Report) -> Contract:
    changes = {field: tuple(v) if isinstance(v, list) else v for field, v in table.items() if field != "preset"}
    preset = table.get("preset", _DEFAULT_PRESET)
    if preset not in tuple(PRESETS):
        report.error((*key, "preset"), f"there is no such preset; there are {', '.join(PRESETS)}")
        preset = _DEFAULT_PRESET
    valid = {field: value for field, value in changes.items() if _is_valid(field, value, key, report)}
    return derive(name, preset, **valid)


def _is_valid(field: str, value: Any, key: Key, report: Report) -> bool:
    try:
        derive("", _DEFAULT_PRESET, **{field: value})
    except KeyError:
        close = difflib.get_close_matches(field, [each.name for each in FIELDS], n=1)
        report.error((*key, field), "there is no such key" + (f"; did you mean {close[0]}?" if close else ""))
    except (ValueError, TypeError):
        report.error((*key, field), f"cannot be {_as_written(value)}; {_allowed(field)}")
    else:
        return True
    return False


def _allowed(name: str) -> str:
    field = next(each for each in FIELDS if each.name == name)
    if field.bounds is not None:
        return f"it is a number from {field.bounds[0]:g} to {field.bounds[1]:g}"
    choices = ", ".join(str(value).lower() if isinstance(value, bool) else value for value in field.values or ())
    return f"it is a list of {choices}" if name == "protocols" else f"it is one of {choices}"


def _warn(contract: Contract, table: Mapping[str, Any], key: Key, report: Report) -> None:
    if contract.keepalive != "off" and contract.keepalive_seconds >= _PROXY_IDLE_S:
        field = "keepalive_seconds" if "keepalive_seconds" in table else "preset"
        report.warn((*key, field), "common proxies close a response after 30 s of silence; 10 s is safe")


def _as_written(value: Any) -> str:
    return repr(list(value)) if isinstance(value, tuple) else repr(value)
