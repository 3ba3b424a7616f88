"""There and back again: a request that is converted, and converted back, says what it said.

Requests are drawn in neutral form, of what both protocols of a pair can say by the tables, and written as a body of the
first. What a table drops is left out of the comparison, and so are the documented changes of form (`meaning`).
"""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoptrio.protocols.convert import request as convert
from hoptrio.protocols.convert.naming import ToolName
from hoptrio.protocols.convert.request.conversation import (
    INSTRUCTING,
    Choice,
    Conversation,
    Document,
    Image,
    Mode,
    Role,
    Schema,
    Text,
    Thinking,
    Tool,
    ToolResult,
    ToolUse,
    Turn,
)
from hoptrio.protocols.convert.request.efforts import effort_of
from hoptrio.protocols.convert.request.schemas import closed
from hoptrio.protocols.convert.request.tables import CHANNEL, Fate
from hoptrio.protocols.events import Protocol
from tests.support.conversing import parsed

CHAT, RESPONSES, MESSAGES, GEMINI = Protocol
PAIRS = [(first, second) for first in Protocol for second in Protocol if first is not second]

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=10).map(lambda text: f"t{text}t")
names = st.text("aZ_", min_size=1, max_size=4)
ids = st.text("aZ9_-", min_size=1, max_size=4)
base64s = st.sampled_from(["aGk=", "a+/b"])
numbers = st.floats(0, 0.99)
scalars = st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    scalars | texts, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3)
)
arguments = st.dictionaries(texts, values, max_size=3)
properties = st.dictionaries(names, st.sampled_from([{"type": "string"}, {"type": "integer"}, {"enum": [1, "a"]}]))
schemas = properties.map(lambda inner: {"type": "object", "properties": inner, "additionalProperties": False})
png = base64s.map(lambda data: Image(media_type="image/png", data=data))
images = png | st.just(Image(url="https://example.com/a.png"))


def carried(pair, field):
    return all(CHANNEL[protocol][field].fate is Fate.CARRIED for protocol in pair)


def allowed(pair, field):
    return all(CHANNEL[protocol][field].fate is not Fate.REFUSED for protocol in pair)


@st.composite
def turn_lists(draw, pair):
    said = [Turn(Role.SYSTEM, (Text(draw(texts)),)) for _ in range(draw(st.integers(0, 2)))]
    parts = texts.map(Text) | images
    if CHAT not in pair:
        parts |= st.just(Document(url="https://example.com/a.pdf"))
    parts |= base64s.map(lambda data: Document(media_type="application/pdf", data=data))
    for _ in range(draw(st.integers(1, 3))):
        said.append(Turn(Role.USER, tuple(draw(st.lists(parts, min_size=1, max_size=3)))))
        for _ in range(draw(st.integers(0, 2))):
            said += draw(tool_loops(pair, len(said)))
        refusal = draw(st.booleans()) if pair in [(CHAT, RESPONSES), (RESPONSES, CHAT)] else False
        said.append(Turn(Role.ASSISTANT, (Text(draw(texts), refusal=refusal),)))
    said.append(Turn(Role.USER, (Text(draw(texts)),)))
    return tuple(said)


@st.composite
def tool_loops(draw, pair, place):
    """An assistant that calls tools, and their results; `place` keeps its ids apart from those of others."""
    results = st.lists(texts.map(Text), max_size=2)
    if {*pair} == {RESPONSES, MESSAGES}:
        results = st.lists(texts.map(Text) | images, max_size=2)
    calls = [
        ToolUse(id=f"{place}{id_}", tool=ToolName(draw(names)), arguments=json.dumps(draw(arguments)))
        for id_ in draw(st.lists(ids, min_size=1, max_size=3, unique=True))
    ]
    answers = [
        ToolResult(
            id=call.id,
            parts=tuple(draw(results)),
            error=draw(st.booleans()) if {*pair} == {MESSAGES, GEMINI} else False,
        )
        for call in calls
    ]
    said = [Text(draw(texts))] if draw(st.booleans()) else []
    return [Turn(Role.ASSISTANT, (*said, *calls)), Turn(Role.TOOL, tuple(answers))]


@st.composite
def conversations(draw, pair):
    def maybe(field, strategy):
        return draw(st.none() | strategy) if allowed(pair, field) else None

    tools = tuple(
        Tool(
            tool=ToolName(name),
            description=draw(st.just("") | texts),
            schema=draw(st.none() | schemas),
            strict=draw(st.booleans()),
        )
        for name in draw(st.lists(names, max_size=3, unique=True))
    )
    # A model that thinks takes no sampling parameters and cannot be forced on a Messages channel.
    thinks = draw(st.booleans())
    modes = st.sampled_from([Mode.AUTO, Mode.NONE] if thinks else [*Mode])
    choice = draw(st.none() | modes.map(Choice)) if tools else None
    if choice and choice.mode is Mode.REQUIRED and draw(st.booleans()):
        choice = Choice(Mode.REQUIRED, (tools[0].tool,))
    efforts = st.sampled_from(["low", "medium", "high"] if thinks else ["none"])
    # Gemini's effort is a budget in tokens, which in Messages has to be below the limit.
    limit_min = 30_000 if thinks and GEMINI in pair else 1
    return Conversation(
        client=pair[1],
        model="m",
        turns=draw(turn_lists(pair)),
        tools=tools,
        choice=choice,
        serial=bool(tools and (choice is None or choice.mode is not Mode.NONE) and maybe("serial", st.just(True))),
        limit_tokens=draw(st.integers(limit_min, 10**6)),
        temperature=None if thinks else maybe("temperature", numbers),
        top_p=None if thinks else maybe("top_p", numbers),
        top_k=None if thinks else maybe("top_k", st.integers(1, 100)),
        seed=maybe("seed", st.integers(-(2**40), 2**40)),
        presence_penalty=maybe("presence_penalty", st.floats(0.1, 2)),
        frequency_penalty=maybe("frequency_penalty", st.floats(-2, -0.1)),
        stop=tuple(maybe("stop", st.lists(texts, max_size=4)) or ()),
        logprobs=maybe("logprobs", st.integers(0, 5)),
        schema=maybe("schema", schemas.map(lambda schema: Schema(schema=schema))),
        verbosity=maybe("verbosity", st.sampled_from(["low", "high"])) or "",
        thinking=maybe("thinking", efforts.map(lambda effort: Thinking(effort=effort))),
        user=maybe("user", st.text("abc", max_size=64)) or "",
        cache_key=maybe("cache_key", texts) or "",
        tier=maybe("tier", st.just("default")) or "",
        choices=maybe("choices", st.integers(2, 5)),
    )


#: Fields of which `meaning` has a form of its own.
OTHERWISE = ("client", "model", "stream", "turns", "tools", "schema", "thinking", "choice")


def meaning(conversation, pair):
    """Everything that must survive, without what the tables call dropped and the forms that differ by protocol."""
    kept = {
        field: getattr(conversation, field)
        for field in Conversation.__struct_fields__
        if field not in OTHERWISE and carried(pair, field)
    }
    schema, thinking = conversation.schema, conversation.thinking
    return kept | {
        # Auto is what an absent choice is.
        "choice": None if conversation.choice == Choice(Mode.AUTO) else conversation.choice,
        "turns": merged(conversation.turns),
        "tools": [plain_tool(tool, strict=GEMINI not in pair) for tool in conversation.tools],
        "schema": schema and closed(schema.schema),
        "effort": effort_of(thinking) if thinking else "",
    }


def plain_tool(tool, *, strict):
    schema = {"type": "object", "properties": {}} if tool.schema is None else tool.schema
    return tool.tool, tool.description, schema, tool.strict and strict


def merged(turns):
    """Adjacent turns of one role as one, and adjacent texts as paragraphs."""
    out = []
    for turn in turns:
        role = Role.SYSTEM if turn.role in INSTRUCTING else turn.role
        if not out or out[-1][0] is not role:
            out.append((role, []))
        for part in turn.parts:
            add(out[-1][1], plain(part))
    return [turn for turn in out if turn[1]]


def add(parts, part):
    if type(part) is Text and parts and type(parts[-1]) is Text and parts[-1].refusal == part.refusal:
        parts[-1] = Text(f"{parts[-1].text}\n\n{part.text}", refusal=part.refusal)
    elif part != Text(""):
        parts.append(part)


def plain(part):
    """A part without its place and what only some protocols have of it."""
    if type(part) is Image:
        return Image(url=part.url) if part.url else Image(media_type=part.media_type, data=part.data)
    if type(part) is Document:
        return Document(url=part.url) if part.url else Document(media_type=part.media_type, data=part.data)
    if type(part) is ToolUse:
        return (part.id, part.tool, json.loads(part.arguments))
    if type(part) is ToolResult:
        parts = []
        for each in part.parts:
            add(parts, plain(each))
        return (part.id, parts, part.error)
    return part


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_there_and_back_keeps_the_meaning(first, second):
    pair = (first, second)

    @settings(max_examples=30)
    @given(conversations(pair))
    def check(drawn):
        here = decoded(first, convert.encode(drawn, first))
        assert meaning(here, pair) == meaning(drawn, pair)
        there = decoded(second, convert.encode(here, second))
        assert meaning(there, pair) == meaning(here, pair)
        back = decoded(first, convert.encode(there, first))
        assert meaning(back, pair) == meaning(here, pair)

    check()


def decoded(protocol, body):
    """Through the bytes, and with the body unchanged."""
    call = parsed(protocol.value, body)
    before = copy.deepcopy(call.body)
    result = convert.decode(call)
    assert call.body == before
    return result
