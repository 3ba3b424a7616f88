"""Gemini requests: what the gateway reads of one, and the body that goes upstream.

The model and the verb are in the path; the body's JSON names may be camelCase or snake_case, and a provider reads
either, so both are read here (`_spellings`). Upstream is always ``v1beta``, the superset of ``v1``, and a stream is
always asked for as SSE: the framing towards the client is ours. Paths and fields: protocols page 7.1 and 7.2.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from hoptrio.errors import BadRequest, NotFound
from hoptrio.protocols import fields, pricing
from hoptrio.protocols.body import encode_object, parse_object
from hoptrio.protocols.events import Call, Framing, Protocol
from hoptrio.protocols.survey import Survey

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["camel", "encode", "hosted_name", "parse", "path", "resource", "snake", "survey_of", "target"]

#: Fields of the current API; a channel with ``unknown_fields = "drop"`` gets no other. snake_case counts as the same.
KNOWN = frozenset(
    """cachedContent contents generationConfig labels safetySettings serviceTier store systemInstruction toolConfig
    tools""".split()  # noqa: SIM905
)

#: verb -> streaming
_VERBS = {"generateContent": False, "streamGenerateContent": True}
#: ``/v1beta/models/gemini-2.5-pro:generateContent``; the colon may have been percent-encoded, the prefix doubled.
_PATH = re.compile(r"/v1(?:beta)?/(?:models/)*+(?P<model>[^:]+(?::[^:]+)*):(?P<verb>[A-Za-z]+)")
_PLAIN_PARTS = frozenset(
    {"text", "thought", "thoughtSignature", "functionCall", "executableCode", "codeExecutionResult", "partMetadata"}
)
_CLIENT_TOOLS = frozenset({"functionDeclarations", "computerUse"})
#: Older names of a tool that one price names.
_ALIASES = {"google_search_retrieval": "google_search", "mcp_servers": "mcp"}
#: What an answer may be made of, whatever the model's prices are.
_MODALITIES = frozenset({"MODALITY_UNSPECIFIED", "TEXT"})
#: Hosted tools that read stores of an account.
_STORE_TOOLS = ("file_search", "retrieval")


def parse(path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes) -> Call:
    """Read ``POST /v1beta/models/{model}:generateContent`` or ``:streamGenerateContent``.

    Raises NotFound for another path, BadRequest with `param` for a wrong shape.
    """
    model, verb = target(path)
    if verb not in _VERBS:
        raise NotFound("There is no such method; models/{model}:generateContent and :streamGenerateContent are served.")
    stream = _VERBS[verb]
    framing = _framing(query, stream=stream)
    value = parse_object(body)
    limits, counts, image_param = _read_config(value)
    tier = pricing.tier_of(value, ("serviceTier", "service_tier"), automatic=False)
    survey = survey_of(value)
    return Call(
        protocol=Protocol.GEMINI,
        model=model,
        stream=stream,
        framing=framing,
        body=value,
        output_limit=max(limits, default=None),
        choices=max(counts, default=1),
        image_param=image_param,
        tier=tier.name,
        tier_param=tier.param,
        tools_optional=_tools_optional(value),
        **survey.findings(),
    )


def encode(
    call: Call,
    *,
    model: str,
    output_limit: int | None,
    ask_usage: bool,
    drop_unknown: bool,
    drop_tools: frozenset[str],
) -> bytes:
    """The upstream body. Usage is always in the answer, so `ask_usage` changes nothing. A ``model`` in the body is
    left out: the path names it, and the body's could only disagree."""
    body = {
        name: value
        for name, value in call.body.items()
        if name != "model" and (not drop_unknown or camel(name) in KNOWN)
    }
    if output_limit is not None:
        for name in _spellings(body, "generationConfig"):
            body[name] = _lowered(body[name], output_limit)
    if drop_tools:
        _drop_tools(body, drop_tools)
    return encode_object(body)


def path(call: Call, model: str) -> str:
    """Behind the channel's base URL, e.g. ``https://generativelanguage.googleapis.com``."""
    name = resource(model)
    return f"/v1beta/{name}:streamGenerateContent?alt=sse" if call.stream else f"/v1beta/{name}:generateContent"


def survey_of(body: dict[str, Any]) -> Survey:
    """What the input holds. Raises BadRequest with `param`."""
    survey = Survey()
    contents = fields.required_list(body, "contents")
    _survey_context(survey, body)
    for param, content in fields.objects(contents, "contents"):
        _survey_content(survey, param, content)
    _survey_tools(survey, body)
    return survey


def target(path: str) -> tuple[str, str]:
    """Model and verb. Raises NotFound for a path without either, BadRequest for a name that is none."""
    match = _PATH.fullmatch(path)
    if match is None:
        raise NotFound("A path ends in models/{model}:{method} here.")
    return fields.bounded_model(match["model"]), match["verb"]


def resource(model: str) -> str:
    """The path of a model behind the base URL's version."""
    return quote(model if "/" in model else f"models/{model}", safe="/@-._~")


def _framing(query: Mapping[str, str], *, stream: bool) -> Framing:
    alt = query.get("alt") or query.get("$alt") or "json"
    if alt not in ("sse", "json"):
        raise BadRequest("Invalid 'alt': expected 'sse' or 'json'.", param="alt")
    if not stream:
        return Framing.JSON
    return Framing.SSE if alt == "sse" else Framing.JSON_ARRAY


def snake(name: str) -> str:
    """A field's other spelling: ``maxOutputTokens`` -> ``max_output_tokens``."""
    return re.sub(r"[A-Z]", lambda match: f"_{match[0].lower()}", name)


def camel(name: str) -> str:
    """A field's documented spelling, whichever it came in."""
    return re.sub(r"_([a-z])", lambda match: match[1].upper(), name) if "_" in name else name


def _spellings(body: dict[str, Any], name: str) -> list[str]:
    """The names under which `body` has a field that is not null: its camelCase name, its snake_case name, or both."""
    return [spelling for spelling in (name, snake(name)) if body.get(spelling) is not None]


def _objects(body: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """The objects that `body` has for a field, under either name. Raises BadRequest for what is no object."""
    found = (fields.optional_object(body, spelling) for spelling in _spellings(body, name))
    return [value for value in found if value is not None]


def _read_config(body: dict[str, Any]) -> tuple[list[int], list[int], str]:
    """Every output limit and every number of candidates in the request, and what asks for images. Refuses what changes
    the price."""
    limits: list[int] = []
    counts: list[int] = []
    image_param = ""
    for config in _objects(body, "generationConfig"):
        _refuse_priced_config(config)
        image_param = image_param or _image_param(config)
        for field, read, found in (
            ("maxOutputTokens", fields.whole, limits),
            ("candidateCount", fields.count, counts),
        ):
            for spelling in _spellings(config, field):
                value = read(config, spelling, f"generationConfig.{spelling}")
                if value is not None:
                    found.append(value)
    return limits, counts, image_param


def _refuse_priced_config(config: dict[str, Any]) -> None:
    for name in ("speechConfig", "routingConfig", "modelConfig", "modelSelectionConfig"):
        if _spellings(config, name):
            raise pricing.unsupported(f"generationConfig.{name}")


def _image_param(config: dict[str, Any]) -> str:
    """The member that asks for images; "" = none does. Raises BadRequest for one that asks for more than a price
    names."""
    found = ""
    for spelling in _spellings(config, "responseModalities"):
        param = f"generationConfig.{spelling}"
        modalities = {str(each).upper() for each in fields.optional_list(config, spelling, param)}
        # Enumerations may come as numbers, so what may pass is named, not what may not.
        if modalities - _MODALITIES - {"IMAGE"}:
            raise pricing.unsupported(param)
        if "IMAGE" in modalities:
            found = param
    return found


def _lowered(config: dict[str, Any], limit: int) -> dict[str, Any]:
    return {**config, **{name: min(config[name], limit) for name in _spellings(config, "maxOutputTokens")}}


def _survey_context(survey: Survey, body: dict[str, Any]) -> None:
    """Everything beside contents and tools that the model reads or that refers elsewhere."""
    for spelling in _spellings(body, "systemInstruction"):
        if type(body[spelling]) is not str:
            _survey_content(survey, spelling, fields.optional_object(body, spelling) or {})
    for spelling in _spellings(body, "cachedContent"):
        survey.foreign_id(body, spelling, spelling)
    for place, config in (("", body), *(("generationConfig.", each) for each in _objects(body, "generationConfig"))):
        for spelling in _spellings(config, "continuationToken"):
            survey.foreign_id(config, spelling, place + spelling)


def _survey_content(survey: Survey, param: str, content: dict[str, Any]) -> None:
    parts = content.get("parts")
    # A lone part is read as a list of one.
    several = [parts] if type(parts) is dict else fields.optional_list(content, "parts", f"{param}.parts")
    for path, part in fields.objects(several, f"{param}.parts"):
        for name, value in part.items():
            _survey_part(survey, f"{path}.{name}", camel(name), value)


def _survey_part(survey: Survey, param: str, name: str, value: Any) -> None:
    if name in _PLAIN_PARTS:
        return
    if name == "functionResponse":
        survey.opaque = survey.opaque or type(value) is not dict or value.get("parts") is not None
        return
    survey.opaque = True
    if type(value) is not dict or name not in ("inlineData", "fileData"):
        return
    for spelling in _spellings(value, "mimeType"):
        if str(value[spelling]).lower().startswith("audio/"):
            raise pricing.unsupported(param)
    for spelling in _spellings(value, "fileUri"):
        _survey_uri(survey, f"{param}.{spelling}", value[spelling])


def _survey_uri(survey: Survey, param: str, uri: Any) -> None:
    """A public page can be anyone's; a file uploaded to the provider is some account's."""
    if type(uri) is not str or not uri.startswith(("https://", "http://")) or "googleapis.com" in uri:
        survey.foreign(param)


def _tools(body: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return list(fields.objects(fields.optional_list(body, "tools"), "tools"))


def _survey_tools(survey: Survey, body: dict[str, Any]) -> None:
    tools = _tools(body)
    for param, tool in tools:
        for key, value in tool.items():
            name = hosted_name(key, value, param)
            if name is not None:
                survey.hosted_tool(name)
            if name in _STORE_TOOLS:
                survey.foreign(f"{param}.{key}")
    if tools:
        survey.any_tools()


def hosted_name(key: str, value: Any, param: str = "tools") -> str | None:
    """The price-table name of a tool that the provider runs, e.g. ``google_search``; None for one the client runs."""
    if value is None or camel(key) in _CLIENT_TOOLS:
        return None
    name = Survey.tool_name(snake(key), param)
    return _ALIASES.get(name, name)


def _tools_optional(body: dict[str, Any]) -> bool:
    """A tool may be dropped unless the request forces a call; AUTO is the default mode."""
    configs = [each for config in _objects(body, "toolConfig") for each in _objects(config, "functionCallingConfig")]
    return all(str(config.get("mode") or "AUTO").upper() in ("AUTO", "MODE_UNSPECIFIED") for config in configs)


def _drop_tools(body: dict[str, Any], names: frozenset[str]) -> None:
    kept = (
        {key: value for key, value in tool.items() if hosted_name(key, value) not in names} for _, tool in _tools(body)
    )
    body["tools"] = [tool for tool in kept if tool]
    if not body["tools"]:
        for name in ("tools", "toolConfig", "tool_config"):
            body.pop(name, None)
