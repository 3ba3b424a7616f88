"""What becomes of every parameter: carried, dropped or refused. The data that docs/conversion.md shows.

`CLIENT` says it for what a client sends, whatever channel serves it: carried into a field of the neutral request,
dropped because clients depend on its being ignored, or refused with a 400 that names it. `CHANNEL` says it for each
field of the neutral request on the way to a channel. A parameter that is in no table is refused: nothing is lost
silently. Nested parameters have dotted names; their parent then has no row of its own.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from hoptrio.errors import BadRequest
from hoptrio.protocols.events import Protocol
from hoptrio.protocols.gemini.request import camel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hoptrio.protocols.convert.request.conversation import Conversation

__all__ = [
    "CHANNEL",
    "CLIENT",
    "CONTENT",
    "Fate",
    "Row",
    "check_channel",
    "check_client",
    "param_of",
    "unconvertible",
]


class Fate(StrEnum):
    CARRIED = "carried"
    DROPPED = "dropped"
    REFUSED = "refused"


class Row(NamedTuple):
    """`name` is the neutral field (client's table) or the channel's parameter (channel's table) it is carried as;
    `harmless` are values of a refused parameter that pass, since they say what would happen anyway."""

    fate: Fate
    name: str = ""
    why: str = ""
    harmless: tuple[object, ...] = ()
    #: A second neutral field that it may become instead.
    also: str = ""
    #: Clients that send a refused parameter with every request: theirs is dropped.
    spared: tuple[Protocol, ...] = ()

    def fate_for(self, client: Protocol) -> Fate:
        return Fate.DROPPED if client in self.spared else self.fate


def _to(name: str, why: str = "", also: str = "") -> Row:
    return Row(Fate.CARRIED, name, why, also=also)


def _drop(why: str) -> Row:
    return Row(Fate.DROPPED, why=why)


def _refuse(why: str, *harmless: object) -> Row:
    return Row(Fate.REFUSED, why=why, harmless=harmless)


_CACHING = "a caching hint; every provider caches by its own rules"
_STORED = "nothing is stored: a converted answer cannot be referred to later"
_AT_PROVIDER = "names what is kept at the provider"
_OF_AN_ANSWER = "names what is kept at the provider; a 404 where no answer of this account had it"
_HOSTED = "the provider runs it; left out where it has no price and no call is forced"
_MONEY = "changes who is billed or what is paid"
_ONE_ANSWER = "there is one answer; 1 passes"
_MEDIA = "only text answers are converted"
_METADATA = "labels for the provider's own console"
_HINT = "a hint without an equivalent"
_SAFETY = "a safety rule that no other protocol has"
_EXTRA_OUTPUT = "asks for additions to the answer that a converted one does not have"

CLIENT: Mapping[Protocol, Mapping[str, Row]] = {
    Protocol.CHAT: {
        "model": _to("model"),
        "messages": _to("turns"),
        "stream": _to("stream"),
        "stream_options": _drop("usage is always asked for; the client gets a usage chunk if it asked"),
        "tools": _to("tools"),
        "tool_choice": _to("choice"),
        "parallel_tool_calls": _to("serial"),
        "max_completion_tokens": _to("limit_tokens", "the larger of the two spellings"),
        "max_tokens": _to("limit_tokens", "the larger of the two spellings"),
        "temperature": _to("temperature"),
        "top_p": _to("top_p"),
        "top_k": _to("top_k", "not OpenAI's, but of many providers"),
        "seed": _to("seed"),
        "presence_penalty": _to("presence_penalty"),
        "frequency_penalty": _to("frequency_penalty"),
        "stop": _to("stop"),
        "logprobs": _to("logprobs"),
        "top_logprobs": _to("logprobs"),
        "response_format": _to("schema", "`json_object` is JSON without a schema", also="json"),
        "verbosity": _to("verbosity"),
        "reasoning_effort": _to("thinking"),
        "safety_identifier": _to("user", "before `user`"),
        "user": _to("user"),
        "prompt_cache_key": _to("cache_key"),
        "service_tier": _to("tier"),
        "metadata": _drop(_METADATA),
        "store": _drop(_STORED),
        "prompt_cache_options": _drop(_CACHING),
        "prompt_cache_retention": _drop(_CACHING),
        "n": _to("choices"),
        "logit_bias": _refuse("token numbers of one tokenizer", {}),
        "modalities": _refuse(_MEDIA, ["text"], []),
        "audio": _refuse(_MEDIA),
        "prediction": _refuse("no other protocol has predicted outputs"),
        "functions": _refuse("replaced by `tools`", []),
        "function_call": _refuse("replaced by `tool_choice`"),
        "moderation": _refuse(_SAFETY),
        "web_search_options": _refuse(_HOSTED),
    },
    Protocol.RESPONSES: {
        "model": _to("model"),
        "input": _to("turns"),
        "instructions": _to("turns", "the first system turn"),
        "stream": _to("stream"),
        "stream_options": _drop("padding against traffic analysis is not added"),
        "tools": _to("tools", "`web_search` and `tool_search` are dropped where `tool_choice` leaves it open"),
        "tool_choice": _to("choice"),
        "parallel_tool_calls": _to("serial", "Codex always sends `false` for the models it knows"),
        "max_output_tokens": _to("limit_tokens"),
        "temperature": _to("temperature"),
        "top_p": _to("top_p"),
        "top_logprobs": _to("logprobs"),
        "include": _to("logprobs", "`message.output_text.logprobs`; all else is dropped"),
        "text.format": _to("schema", "`json_object` is JSON without a schema", also="json"),
        "text.verbosity": _to("verbosity"),
        "reasoning.effort": _to("thinking"),
        "reasoning.summary": _to("thinking"),
        "reasoning.generate_summary": _to("thinking", "the older name of `reasoning.summary`"),
        "reasoning.context": _drop("which reasoning the provider keeps is its own rule"),
        "reasoning.mode": _refuse("no other protocol has it", "standard"),
        "safety_identifier": _to("user", "before `user`"),
        "user": _to("user"),
        "prompt_cache_key": _to("cache_key"),
        "service_tier": _to("tier"),
        "client_metadata": _drop("Codex sends it with every request"),
        "metadata": _drop(_METADATA),
        "store": _drop(_STORED),
        "prompt_cache_options": _drop(_CACHING),
        "prompt_cache_retention": _drop(_CACHING),
        "max_tool_calls": _drop("bounds hosted tools, of which a converted request has none"),
        "truncation": _drop("a prompt that is too long is the channel's error"),
        "previous_response_id": _refuse(_OF_AN_ANSWER),
        "conversation": _refuse(_OF_AN_ANSWER),
        "prompt": _refuse(_AT_PROVIDER),
        "background": _refuse("outlives the response", False),
        "background_options": _refuse("outlives the response"),
        "context_management": _refuse("a compaction is the provider's own", []),
        "access_programs": _refuse(_AT_PROVIDER),
        "image": _refuse("options of a hosted tool"),
        "moderation": _refuse(_SAFETY),
    },
    Protocol.MESSAGES: {
        "model": _to("model"),
        "messages": _to("turns"),
        "system": _to("turns", "the first system turn"),
        "stream": _to("stream"),
        "tools": _to("tools"),
        "tool_choice": _to("choice", "with `disable_parallel_tool_use`", also="serial"),
        "max_tokens": _to("limit_tokens"),
        "temperature": _to("temperature"),
        "top_p": _to("top_p"),
        "top_k": _to("top_k"),
        "stop_sequences": _to("stop"),
        "output_config.format": _to("schema"),
        "output_format": _to("schema", "the older name of `output_config.format`"),
        "output_config.effort": _to("thinking"),
        "thinking": _to("thinking"),
        "metadata.user_id": _to("user"),
        "service_tier": _to("tier"),
        "speed": _refuse("no other protocol has it", "standard"),
        "cache_control": _drop(_CACHING),
        "context_management": _drop("Claude Code sends it with every request"),
        "diagnostics": _drop("asks for remarks beside the answer"),
        "betas": _drop("go as a header, and to Anthropic only"),
        "anthropic_version": _drop("goes as a header, and to Anthropic only"),
        "inference_geo": _refuse("where the model runs is no channel's promise", "global"),
        "container": _refuse(_AT_PROVIDER),
        "thread": _refuse(_AT_PROVIDER),
        "user_profile_id": _refuse(_AT_PROVIDER),
        "workspace_id": _refuse(_AT_PROVIDER),
        "mcp_servers": _refuse(_HOSTED, []),
        "compaction": _refuse("a compaction is the provider's own"),
        "fallbacks": _refuse(_MONEY, []),
        "fallback_credit_token": _refuse(_MONEY),
        "billing_policy": _refuse(_MONEY, {"type": "billing_policy", "bill_to": "self"}),
    },
    Protocol.GEMINI: {
        "contents": _to("turns"),
        "systemInstruction": _to("turns", "the first system turn"),
        "tools": _to("tools", "`functionDeclarations`; `googleSearch` is dropped where no call is forced"),
        "toolConfig.functionCallingConfig": _to("choice"),
        "toolConfig.retrievalConfig": _drop("where the user is, for hosted tools"),
        "toolConfig.includeServerSideToolInvocations": _drop("a converted channel has no hosted tools"),
        "generationConfig.maxOutputTokens": _to("limit_tokens"),
        "generationConfig.temperature": _to("temperature"),
        "generationConfig.topP": _to("top_p"),
        "generationConfig.topK": _to("top_k"),
        "generationConfig.seed": _to("seed"),
        "generationConfig.presencePenalty": _to("presence_penalty"),
        "generationConfig.frequencyPenalty": _to("frequency_penalty"),
        "generationConfig.stopSequences": _to("stop"),
        "generationConfig.responseJsonSchema": _to("schema"),
        "generationConfig.responseSchema": _to("schema", "OpenAPI's types become JSON Schema's"),
        "generationConfig.responseMimeType": _to("json", "`application/json` without a schema"),
        "generationConfig.thinkingConfig": _to("thinking"),
        "serviceTier": _to("tier"),
        "generationConfig.candidateCount": _to("choices"),
        "generationConfig.responseLogprobs": _refuse(_EXTRA_OUTPUT, False),
        "generationConfig.logprobs": _refuse(_EXTRA_OUTPUT),
        "generationConfig.responseModalities": _refuse(_MEDIA, [], ["TEXT"], ["MODALITY_UNSPECIFIED"]),
        "generationConfig.responseFormat": _refuse(_MEDIA),
        "generationConfig.speechConfig": _refuse(_MEDIA),
        "generationConfig.imageConfig": _refuse(_MEDIA),
        "generationConfig.audioTimestamp": _refuse("audio is not converted", False),
        "generationConfig.audioTranscriptionConfig": _refuse("audio is not converted"),
        "generationConfig.translationConfig": _refuse("audio is not converted"),
        "generationConfig.enableAffectiveDialog": _refuse("audio is not converted", False),
        "generationConfig.routingConfig": _refuse(_MONEY),
        "generationConfig.modelConfig": _refuse(_MONEY),
        "generationConfig.modelSelectionConfig": _refuse(_MONEY),
        "generationConfig.continuationToken": _refuse(_AT_PROVIDER),
        "generationConfig.generationOutputConfig": _refuse(_MEDIA),
        "generationConfig.mediaResolution": _drop(_HINT),
        "generationConfig.enableEnhancedCivicAnswers": _drop(_HINT),
        "cachedContent": _refuse(_AT_PROVIDER),
        "continuationToken": _refuse(_AT_PROVIDER),
        "modelArmorConfig": _refuse(_SAFETY),
        "safetySettings": _drop("thresholds of Google's own filters"),
        "labels": _drop(_METADATA),
        "store": _drop(_STORED),
        "model": _drop("the path names it"),
    },
}

CHANNEL: Mapping[Protocol, Mapping[str, Row]] = {
    Protocol.CHAT: {
        "model": _to("model"),
        "stream": _to("stream"),
        "turns": _to("messages", "system and developer turns as `system`; reasoning is dropped"),
        "tools": _to("tools"),
        "choice": _to("tool_choice", "a choice among some leaves the other tools out"),
        "serial": _to("parallel_tool_calls"),
        "limit_tokens": _to("max_tokens", "or `max_completion_tokens`: the channel's `max_tokens_field`"),
        "temperature": _to("temperature"),
        "top_p": _to("top_p"),
        "top_k": _drop("not in OpenAI's API; agents send a default of their own"),
        "seed": _to("seed"),
        "presence_penalty": _to("presence_penalty"),
        "frequency_penalty": _to("frequency_penalty"),
        "stop": _to("stop", "400 for more than four"),
        "logprobs": _to("logprobs"),
        "schema": _to("response_format"),
        "json": _to("response_format"),
        "verbosity": _to("verbosity"),
        "thinking": _to("reasoning_effort", "a budget up to 4,096 is low, up to 16,384 medium, else high"),
        "user": _to("user", "hashed if longer than 64"),
        "cache_key": _drop("many servers of this protocol refuse it; Codex always sends it"),
        "tier": _to("service_tier"),
        "choices": _to("n"),
    },
    Protocol.RESPONSES: {
        "model": _to("model"),
        "stream": _to("stream"),
        "turns": _to("input", "leading system turns as `instructions`; always `store: false`"),
        "tools": _to("tools", "`strict` is always said"),
        "choice": _to("tool_choice", "a choice among some leaves the other tools out"),
        "serial": _to("parallel_tool_calls"),
        "limit_tokens": _to("max_output_tokens"),
        "temperature": _to("temperature"),
        "top_p": _to("top_p"),
        "top_k": _drop("not in OpenAI's API; agents send a default of their own"),
        "seed": _drop("a best effort even where there is one"),
        "presence_penalty": _refuse("no such parameter; 0 passes"),
        "frequency_penalty": _refuse("no such parameter; 0 passes"),
        "stop": _refuse("no such parameter"),
        "logprobs": _to("include", "with `top_logprobs`"),
        "schema": _to("text.format"),
        "json": _to("text.format"),
        "verbosity": _to("text.verbosity"),
        "thinking": _to("reasoning.effort", "a budget up to 4,096 is low, up to 16,384 medium, else high"),
        "user": _to("safety_identifier", "hashed if longer than 64"),
        "cache_key": _to("prompt_cache_key"),
        "tier": _to("service_tier"),
        "choices": _refuse(_ONE_ANSWER),
    },
    Protocol.MESSAGES: {
        "model": _to("model"),
        "stream": _to("stream"),
        "turns": _to("messages", "system and developer turns as `system`, wherever they stood"),
        "tools": _to("tools"),
        "choice": _to("tool_choice", "400 for a forced call with thinking; a choice among some leaves others out"),
        "serial": _to("tool_choice.disable_parallel_tool_use"),
        "limit_tokens": _to("max_tokens", "required: without a limit, the model's maximum"),
        "temperature": _to("temperature", "at most 1; left out where it is 1, and with thinking"),
        "top_p": _to("top_p", "left out where it is 1, and with thinking"),
        "top_k": _to("top_k", "left out with thinking"),
        "seed": _drop("a best effort even where there is one"),
        "presence_penalty": _refuse("no such parameter; 0 passes"),
        "frequency_penalty": _refuse("no such parameter; 0 passes"),
        "stop": _to("stop_sequences"),
        "logprobs": _refuse("no such parameter"),
        "schema": _to("output_config.format", "objects are closed, as the API demands"),
        "json": _refuse("JSON without a schema cannot be demanded"),
        "verbosity": _drop(_HINT),
        "thinking": _to("thinking", "an effort as `output_config.effort`, `minimal` as low"),
        "user": _to("metadata.user_id", "hashed if longer than 256"),
        "cache_key": _drop(_CACHING),
        "tier": _to("service_tier", "auto and default; 400 for any other"),
        "choices": _refuse(_ONE_ANSWER),
    },
    Protocol.GEMINI: {
        "model": _drop("the path names it"),
        "stream": _drop("the path says it; a Chat stream is 400"),
        "turns": _to("contents", "system and developer turns as `systemInstruction`, wherever they stood"),
        "tools": _to("tools.functionDeclarations", "`strict` is dropped"),
        "choice": _to("toolConfig.functionCallingConfig"),
        "serial": _refuse("parallel calls cannot be turned off")._replace(spared=(Protocol.RESPONSES,)),
        "limit_tokens": _to("generationConfig.maxOutputTokens"),
        "temperature": _to("generationConfig.temperature"),
        "top_p": _to("generationConfig.topP"),
        "top_k": _to("generationConfig.topK"),
        "seed": _to("generationConfig.seed"),
        "presence_penalty": _to("generationConfig.presencePenalty"),
        "frequency_penalty": _to("generationConfig.frequencyPenalty"),
        "stop": _to("generationConfig.stopSequences"),
        "logprobs": _refuse(_EXTRA_OUTPUT),
        "schema": _to("generationConfig.responseJsonSchema"),
        "json": _to("generationConfig.responseMimeType"),
        "verbosity": _drop(_HINT),
        "thinking": _to(
            "generationConfig.thinkingConfig", "an effort as a budget: 1,024 to low, 8,192 medium, 24,576 from high on"
        ),
        "user": _drop("no such parameter"),
        "cache_key": _drop(_CACHING),
        "tier": _to("serviceTier", "auto is left out; scale is 400"),
        "choices": _to("generationConfig.candidateCount"),
    },
}

_ALL = tuple(Protocol)


def _content(why: str = "", **other: Row) -> Mapping[Protocol, Row]:
    """Carried everywhere but for `other`."""
    return {protocol: other.get(protocol.value, Row(Fate.CARRIED, why=why)) for protocol in _ALL}


#: What becomes of content, by the channel's protocol.
CONTENT: Mapping[str, Mapping[Protocol, Row]] = {
    "text": _content(),
    "a refusal of the assistant": _content("as text", chat=_to("refusal"), responses=_to("refusal")),
    "system and developer turns": _content(chat=_to("", "as `system`")),
    "such a turn in mid-conversation": _content(
        "in its place",
        messages=_to("", "behind the other instructions"),
        gemini=_to("", "behind the other instructions"),
    ),
    "an image, base64": _content(),
    "an image that is not JPEG, PNG, GIF or WebP": _content(messages=_refuse("not taken")),
    "an image by URL": _content(),
    "a PDF, base64": _content(),
    "a PDF by URL": _content(chat=_refuse("must be in the request itself")),
    "a tool call": _content(),
    "a tool call whose arguments are no JSON object": _content(
        messages=_refuse("an object is needed"), gemini=_refuse("an object is needed")
    ),
    "a tool's result": _content(),
    "a failed tool's result": _content(
        "",
        chat=_to("", "`Error: ` before the text"),
        responses=_to("", "`Error: ` before the text"),
        messages=_to("", "`is_error`"),
        gemini=_to("", "`response.error`"),
    ),
    "an image in a tool's result": _content(
        chat=_to("", "in a user message behind the results"), gemini=_to("", "beside the result")
    ),
    "a tool in a namespace": _content("as `namespace__name`"),
    "a custom (free-form) tool": _content("as a function of one string; its grammar goes into the description"),
    "reasoning that a provider of the channel's protocol made": _content(chat=_drop("no slot")),
    "reasoning that another made": {protocol: _drop("means nothing to it") for protocol in _ALL},
}

_UNSET: tuple[object, ...] = (None, (), "")
#: A parameter's name that may stand in an error: unknown ones are the client's own words.
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)
#: Parameters that hold parameters.
_PARENTS = {
    protocol: frozenset(name.partition(".")[0] for name in rows if "." in name) for protocol, rows in CLIENT.items()
}


def unconvertible(param: str, why: str) -> BadRequest:
    """The error for what a converted request cannot say."""
    return BadRequest(
        f"Unsupported parameter: '{param}' cannot be used with this model, which is served through another protocol: "
        f"{why}.",
        param=param,
        code="unsupported_parameter",
    )


def check_client(client: Protocol, body: Mapping[str, Any]) -> None:
    """Raise BadRequest for a parameter that is refused or unknown. Gemini's may be written in snake_case."""
    respell = camel if client is Protocol.GEMINI else str
    for name, value in body.items():
        known = respell(name)
        if known in _PARENTS[client]:
            for inner, member in value.items() if type(value) is dict else ():
                _check(client, f"{known}.{respell(inner)}", member)
        else:
            _check(client, known, value)


def check_channel(conversation: Conversation, channel: Protocol) -> None:
    """Raise BadRequest, in the client's words, for what `channel` has no parameter for."""
    for field, row in CHANNEL[channel].items():
        if row.fate_for(conversation.client) is Fate.REFUSED:
            value = getattr(conversation, field)
            if value is not False and value not in _UNSET:
                raise unconvertible(param_of(conversation.client, field), row.why)


def param_of(client: Protocol, field: str) -> str:
    """What a client calls a field of the neutral request; the field itself where it cannot have come from it."""
    return next((name for name, row in CLIENT[client].items() if field in (row.name, row.also)), field)


def _check(client: Protocol, param: str, value: object) -> None:
    if value is None:
        return
    row = CLIENT[client].get(param)
    if row is None:
        named = param if _NAME.fullmatch(param) else param.rpartition(".")[0] or "body"
        raise unconvertible(named, "it is not known, so that it could only be lost")
    if row.fate is Fate.REFUSED and value not in row.harmless:
        raise unconvertible(param, row.why)
