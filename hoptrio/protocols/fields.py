"""Typed reads of the request fields that the gateway itself relies on. Everything else passes untouched.

A null counts as absent, as it does at the providers. A bool is not an integer and a string is never a number, because
what is read here decides the hold. Messages name the field and the type, never the value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hoptrio.errors import BadRequest
from hoptrio.limits import COUNT_ASKED_MAX, MODEL_NAME_CHARS_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = [
    "bounded_model",
    "count",
    "flag",
    "integer",
    "missing",
    "model_name",
    "number",
    "objects",
    "optional_list",
    "optional_object",
    "required_list",
    "required_string",
    "string",
    "whole",
    "wrong_type",
]

_NAMES = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    type(None): "null",
}


def missing(param: str) -> BadRequest:
    """The error for a required field that is absent."""
    return BadRequest(f"Missing required parameter: '{param}'.", param=param, code="missing_required_parameter")


def model_name(body: dict[str, Any]) -> str:
    """The required ``model``. Whether there is such a model is for the catalogue to say."""
    value = body.get("model")
    if value is None:
        raise missing("model")
    if type(value) is not str:
        raise wrong_type("model", "a string", value)
    return bounded_model(value)


def bounded_model(name: str) -> str:
    """A model's name, wherever in the request it stands."""
    if not 0 < len(name) <= MODEL_NAME_CHARS_MAX:
        raise BadRequest(f"Invalid 'model': expected 1 to {MODEL_NAME_CHARS_MAX} characters.", param="model")
    return name


def flag(body: dict[str, Any], name: str, param: str = "") -> bool:
    """An optional boolean, False if absent."""
    value = body.get(name)
    if value is None:
        return False
    if type(value) is not bool:
        raise wrong_type(param or name, "a boolean", value)
    return value


def whole(body: dict[str, Any], name: str, param: str = "") -> int | None:
    """An optional integer of at least 1 (contract, "The hold")."""
    value = body.get(name)
    if value is None:
        return None
    if type(value) is not int:
        raise wrong_type(param or name, "an integer", value)
    if value < 1:
        raise BadRequest(f"Invalid '{param or name}': it must be an integer of at least 1.", param=param or name)
    return value


def count(body: dict[str, Any], name: str, param: str = "") -> int | None:
    """An optional integer of at least 1 that no limit of a model lowers: how many answers, images, calls."""
    value = whole(body, name, param)
    if value is not None and value > COUNT_ASKED_MAX:
        raise BadRequest(f"Invalid '{param or name}': it must be at most {COUNT_ASKED_MAX}.", param=param or name)
    return value


def integer(body: dict[str, Any], name: str, param: str = "") -> int | None:
    """An optional integer of any size."""
    value = body.get(name)
    if value is None or type(value) is int:
        return value
    raise wrong_type(param or name, "an integer", value)


def number(body: dict[str, Any], name: str, param: str = "") -> float | None:
    """An optional number; an integer stays one."""
    value = body.get(name)
    if value is None or type(value) is float or type(value) is int:
        return value
    raise wrong_type(param or name, "a number", value)


def string(body: dict[str, Any], name: str, param: str = "") -> str:
    """An optional string, empty if absent."""
    value = body.get(name)
    if value is None:
        return ""
    if type(value) is not str:
        raise wrong_type(param or name, "a string", value)
    return value


def required_string(body: dict[str, Any], name: str, param: str = "") -> str:
    """A string that may be empty but not absent."""
    if body.get(name) is None:
        raise missing(param or name)
    return string(body, name, param)


def optional_object(body: dict[str, Any], name: str, param: str = "") -> dict[str, Any] | None:
    """An optional JSON object."""
    value = body.get(name)
    if value is None or type(value) is dict:
        return value
    raise wrong_type(param or name, "an object", value)


def optional_list(body: dict[str, Any], name: str, param: str = "") -> list[Any]:
    """An optional JSON array, empty if absent."""
    value = body.get(name)
    if value is None:
        return []
    if type(value) is not list:
        raise wrong_type(param or name, "an array", value)
    return value


def required_list(body: dict[str, Any], name: str) -> list[Any]:
    """A required JSON array. That it is empty is for the provider to refuse."""
    if body.get(name) is None:
        raise missing(name)
    return optional_list(body, name)


def objects(values: Iterable[Any], param: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The members of an array that must all be objects, each with its own param name, e.g. ``messages[2]``."""
    for index, value in enumerate(values):
        if type(value) is not dict:
            raise wrong_type(f"{param}[{index}]", "an object", value)
        yield f"{param}[{index}]", value


def wrong_type(param: str, expected: str, value: Any) -> BadRequest:
    """The error for a value of another type than `expected`."""
    got = _NAMES[type(value)]
    return BadRequest(
        f"Invalid type for '{param}': expected {expected}, but got {got} instead.", param=param, code="invalid_type"
    )
