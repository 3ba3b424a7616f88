"""JSON schemas between the dialects of the protocols. Pure: what goes in is never changed, parts of it are shared.

Gemini's ``Schema`` is OpenAPI's: upper-case types, ``nullable``, 64-bit numbers as strings. Anthropic's structured
outputs want every object closed (protocols page 9.2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["closed", "from_openapi"]

#: Keywords that hold one schema, a list of them, and an object of them.
_ONE = ("items", "additionalProperties", "not")
_LIST = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED = ("properties", "$defs", "definitions", "defs")
#: Gemini's 64-bit counts, which proto JSON writes as strings.
_COUNTS = ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties")
_CAMEL = {"any_of": "anyOf", "one_of": "oneOf", "all_of": "allOf", "additional_properties": "additionalProperties"} | {
    "min_items": "minItems",
    "max_items": "maxItems",
    "min_length": "minLength",
    "max_length": "maxLength",
    "min_properties": "minProperties",
    "max_properties": "maxProperties",
    "prefix_items": "prefixItems",
    "ref": "$ref",
    "defs": "$defs",
}
#: Say nothing to anyone but Gemini.
_OWN = frozenset({"nullable", "propertyOrdering", "property_ordering", "example"})


def from_openapi(schema: dict[str, Any]) -> dict[str, Any]:
    """Gemini's ``Schema`` as JSON Schema."""
    plain = {_CAMEL.get(name, name): value for name, value in schema.items() if name not in _OWN}
    kind = plain.get("type")
    if type(kind) is str:
        plain["type"] = kind.lower()
        if kind == "TYPE_UNSPECIFIED":
            del plain["type"]
        elif schema.get("nullable") is True:
            plain["type"] = [kind.lower(), "null"]
    for name in _COUNTS:
        value = plain.get(name)
        if type(value) is str and value.isdecimal() and len(value) < 20:
            plain[name] = int(value)
    return _within(plain, from_openapi)


def closed(schema: dict[str, Any]) -> dict[str, Any]:
    """The same schema with ``additionalProperties: false`` on every object that leaves it open unsaid."""
    inner = _within(schema, closed)
    if (inner.get("type") == "object" or "properties" in inner) and "additionalProperties" not in inner:
        return {**inner, "additionalProperties": False}
    return inner


def _within(schema: dict[str, Any], change: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    """A copy in which `change` was made to every schema right inside this one."""
    changed = dict(schema)
    for name, value in schema.items():
        if name in _ONE and type(value) is dict:
            changed[name] = change(value)
        elif name in _LIST and type(value) is list:
            changed[name] = [change(each) if type(each) is dict else each for each in value]
        elif name in _NAMED and type(value) is dict:
            changed[name] = {key: change(each) if type(each) is dict else each for key, each in value.items()}
    return changed
