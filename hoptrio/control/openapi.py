"""The OpenAPI 3.1 description of operations, made of the structs that serve them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from hoptrio import __version__, errors
from hoptrio.control.shapes import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hoptrio.control.operation import Operation

__all__ = ["COMMON_REFUSALS", "describe"]

_REF = "#/components/schemas/{name}"
#: What any operation may be refused with, besides its own.
COMMON_REFUSALS: tuple[type[errors.HoptrioError], ...] = (
    errors.BadRequest,
    errors.InvalidKey,
    errors.Forged,
    errors.LimitExceeded,
    errors.LedgerUnavailable,
    errors.Internal,
)
#: What a request with a body may be refused with, too.
_BODY_REFUSALS = (errors.BodyTooSlow, errors.BodyTooLarge)


def describe(operations: Sequence[Operation[Any, Any]]) -> dict[str, Any]:
    """The whole document."""
    paths: dict[str, dict[str, Any]] = {}
    for each in operations:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "hoptrio control plane",
            "version": __version__,
            "description": "Amounts are decimal strings in the ledger's currency, times RFC 3339 in UTC.",
        },
        "security": [{"token": []}],
        "tags": [{"name": tag} for tag in dict.fromkeys(each.tag for each in operations)],
        "paths": paths,
        "components": {
            "schemas": _components(operations),
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "The token of [control] in the config."}
            },
        },
    }


def _components(operations: Iterable[Operation[Any, Any]]) -> dict[str, Any]:
    """What is given, by name; what is taken stands with its operation."""
    given = [each.gives for each in operations]
    _, components = msgspec.json.schema_components([*given, Problem], ref_template=_REF)
    return components


def _operation(operation: Operation[Any, Any]) -> dict[str, Any]:
    told: dict[str, Any] = {
        "operationId": operation.name,
        "tags": [operation.tag],
        "summary": operation.summary,
        "parameters": _parameters(operation),
        "responses": _responses(operation),
    }
    if operation.changes:
        told["requestBody"] = _body(operation)
    return told


def _parameters(operation: Operation[Any, Any]) -> list[dict[str, Any]]:
    path, found = operation.path_names, []
    for name, schema, required in _members(operation):
        if name in path:
            found.append({"name": name, "in": "path", "required": True, "schema": schema})
        elif not operation.changes:
            found.append({"name": name, "in": "query", "required": required, "schema": schema})
    return found


def _body(operation: Operation[Any, Any]) -> dict[str, Any]:
    members = [each for each in _members(operation) if each[0] not in operation.path_names]
    schema = {
        "type": "object",
        "properties": {name: schema for name, schema, _ in members},
        "required": [name for name, _, required in members if required],
        "additionalProperties": False,
    }
    # An operation without members takes a request without a body.
    return {"required": bool(schema["required"]), "content": {"application/json": {"schema": schema}}}


def _members(operation: Operation[Any, Any]) -> list[tuple[str, dict[str, Any], bool]]:
    """Name, schema and whether it is required, of everything an operation takes. Of a question, where null cannot be
    written, the schema of what is there."""
    members = []
    for field in msgspec.structs.fields(operation.takes):
        (schema,), _ = msgspec.json.schema_components([field.type], ref_template=_REF)
        if field.default not in (msgspec.NODEFAULT, None):
            schema = {**schema, "default": field.default}
        if not operation.changes:
            schema = _without_null(schema)
        members.append((field.encode_name, schema, field.required))
    return members


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    choices = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    if len(choices) != 1:
        return schema
    rest = {name: value for name, value in schema.items() if name != "anyOf"}
    return {**rest, **choices[0]}


def _responses(operation: Operation[Any, Any]) -> dict[str, Any]:
    (schema,), _ = msgspec.json.schema_components([operation.gives], ref_template=_REF)
    responses = {str(operation.status): _answer("Done.", schema)}
    body = _BODY_REFUSALS if operation.changes else ()
    refusals: dict[int, str] = {}
    for refusal in (*operation.refuses, *COMMON_REFUSALS, *body):
        refusals.setdefault(refusal.status, (refusal.__doc__ or "").partition(" (")[0].rstrip("."))
    problem = {"$ref": _REF.format(name="Problem")}
    responses |= {str(status): _answer(f"{words}.", problem) for status, words in sorted(refusals.items())}
    return responses


def _answer(words: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": words, "content": {"application/json": {"schema": schema}}}
