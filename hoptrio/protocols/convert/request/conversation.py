"""The neutral request: what a client asks of a model, in no protocol's own words. Frozen values, no behaviour.

A decoder makes one of a client's body and an encoder makes a channel's body of one. What only one protocol knows is not
in here: it was dropped or refused by the tables (`convert.request.tables`). `param` is where in the client's body a
value stood; it is named when a channel cannot take the value, and is no part of the meaning.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from hoptrio.protocols.convert.carrier import Carried
    from hoptrio.protocols.convert.naming import ToolName
    from hoptrio.protocols.events import Protocol

__all__ = [
    "ADAPTIVE",
    "INSTRUCTING",
    "Choice",
    "Conversation",
    "Document",
    "Image",
    "Mode",
    "Part",
    "Reasoning",
    "Role",
    "Schema",
    "Text",
    "Thinking",
    "Tool",
    "ToolResult",
    "ToolUse",
    "Turn",
]

#: A thinking budget that the provider chooses by itself.
ADAPTIVE = -1


class Role(StrEnum):
    """Whose words a turn holds. TOOL turns hold tool results and nothing else."""

    SYSTEM = "system"
    DEVELOPER = "developer"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


#: Roles whose text a model obeys rather than answers.
INSTRUCTING = (Role.SYSTEM, Role.DEVELOPER)


class Text(msgspec.Struct, frozen=True, tag=True):
    text: str
    #: The assistant said it as a refusal.
    refusal: bool = False


class Image(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Base64 `data` of a `media_type`, or a `url` of http or https."""

    media_type: str = ""
    data: str = ""
    url: str = ""
    #: OpenAI's low, high, auto or original; "" = none said.
    detail: str = ""
    param: str = ""


class Document(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Base64 `data` of a `media_type`, or a `url`. A document of plain text is a `Text`."""

    media_type: str = ""
    data: str = ""
    url: str = ""
    title: str = ""
    param: str = ""


class Reasoning(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Reasoning that its provider can take back. Reasoning without a token is dropped when it is decoded."""

    carried: Carried
    text: str = ""


class ToolUse(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    id: str
    tool: ToolName
    #: The arguments as JSON text, not checked; the input itself where the tool is custom.
    arguments: str
    param: str = ""


class ToolResult(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    id: str
    parts: tuple[Text | Image | Document, ...]
    error: bool = False
    param: str = ""


Part = Text | Image | Document | Reasoning | ToolUse | ToolResult


class Turn(msgspec.Struct, frozen=True):
    role: Role
    parts: tuple[Part, ...]


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that the client runs. `schema` None: it takes no arguments."""

    tool: ToolName
    description: str = ""
    schema: dict[str, Any] | None = None
    strict: bool = False
    #: A custom tool's input must match this.
    grammar: str = ""


class Mode(StrEnum):
    AUTO = "auto"
    NONE = "none"
    REQUIRED = "required"


class Choice(msgspec.Struct, frozen=True):
    """Whether a tool must be called, and which may be; no names = any. REQUIRED with one name is a named choice."""

    mode: Mode
    tools: tuple[ToolName, ...] = ()


class Schema(msgspec.Struct, frozen=True, kw_only=True):
    """The JSON schema that the answer's text must match."""

    schema: dict[str, Any]
    name: str = ""
    description: str = ""
    strict: bool = False


class Thinking(msgspec.Struct, frozen=True, kw_only=True):
    """How much the model reasons before it answers: an `effort` (``none`` ... ``max``), or a `budget_tokens`, or what
    the provider thinks fit (`ADAPTIVE`); and whether the client wants to read of it."""

    effort: str = ""
    budget_tokens: int | None = None
    summary: bool = False


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """One request. None, empty or False: the client did not say."""

    #: Whose body it was read from; errors name that protocol's parameters.
    client: Protocol
    model: str
    stream: bool = False
    turns: tuple[Turn, ...]
    tools: tuple[Tool, ...] = ()
    choice: Choice | None = None
    #: At most one tool call an answer.
    serial: bool = False
    limit_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: float | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    stop: tuple[str, ...] = ()
    #: How many alternatives of each token to report; 0 = only the token's own probability.
    logprobs: int | None = None
    schema: Schema | None = None
    #: The answer must be JSON, of any schema.
    json: bool = False
    verbosity: str = ""
    thinking: Thinking | None = None
    user: str = ""
    cache_key: str = ""
    tier: str = ""
    #: Answers wanted, where it is more than one.
    choices: int | None = None
