"""What the table of content says, part by part, on the way to each channel."""

from __future__ import annotations

import json

import pytest

from hoptrio.errors import BadRequest
from hoptrio.protocols.convert import request as convert
from hoptrio.protocols.convert.carrier import Carried
from hoptrio.protocols.convert.naming import ToolName
from hoptrio.protocols.convert.request.conversation import (
    Conversation,
    Document,
    Image,
    Reasoning,
    Role,
    Text,
    Tool,
    ToolResult,
    ToolUse,
    Turn,
)
from hoptrio.protocols.convert.request.tables import CONTENT, Fate
from hoptrio.protocols.events import Protocol

MARK = "c2VjcmV0bWFyaw=="
URL = f"https://example.com/{MARK}"
TOOL = ToolName("f")
CALL = ToolUse(id="call_1", tool=TOOL, arguments="{}", param="call")


def user(*parts):
    return (Turn(Role.USER, parts),)


def assistant(*parts):
    return (*user(Text("hello")), Turn(Role.ASSISTANT, parts))


def answered(*parts, error=False):
    result = ToolResult(id="call_1", parts=parts, error=error, param="result")
    return (*assistant(CALL), Turn(Role.TOOL, (result,)))


def thought(family):
    return assistant(Reasoning(carried=Carried(family, MARK), text="hm"), Text("yes"))


def other(protocol):
    """A family that is not the channel's."""
    return Protocol.MESSAGES if protocol is not Protocol.MESSAGES else Protocol.RESPONSES


TURNS = {
    "text": lambda _: user(Text(MARK)),
    "a refusal of the assistant": lambda _: assistant(Text(MARK, refusal=True)),
    "system and developer turns": lambda _: (Turn(Role.DEVELOPER, (Text(MARK),)), *user(Text("hello"))),
    "such a turn in mid-conversation": lambda _: (
        *assistant(Text("yes")),
        Turn(Role.SYSTEM, (Text(MARK),)),
        *user(Text("go on")),
    ),
    "an image, base64": lambda _: user(Image(media_type="image/png", data=MARK)),
    "an image that is not JPEG, PNG, GIF or WebP": lambda _: user(
        Image(media_type="image/tiff", data=MARK, param="image")
    ),
    "an image by URL": lambda _: user(Image(url=URL)),
    "a PDF, base64": lambda _: user(Document(media_type="application/pdf", data=MARK)),
    "a PDF by URL": lambda _: user(Document(url=URL, param="document")),
    "a tool call": lambda _: assistant(ToolUse(id="i", tool=TOOL, arguments=json.dumps({"a": MARK}))),
    "a tool call whose arguments are no JSON object": lambda _: assistant(
        ToolUse(id="i", tool=TOOL, arguments=f'{{"a": "{MARK}', param="arguments")
    ),
    "a tool's result": lambda _: answered(Text(MARK)),
    "a failed tool's result": lambda _: answered(Text(MARK), error=True),
    "an image in a tool's result": lambda _: answered(Text("look"), Image(media_type="image/png", data=MARK)),
    "a tool in a namespace": lambda _: assistant(
        ToolUse(id="i", tool=ToolName("f", "space"), arguments=json.dumps({"a": MARK}))
    ),
    "a custom (free-form) tool": lambda _: assistant(
        ToolUse(id="i", tool=ToolName("f", custom=True), arguments=f"free {MARK}")
    ),
    "reasoning that a provider of the channel's protocol made": thought,
    "reasoning that another made": lambda channel: thought(other(channel)),
}
#: Where it is told how, and what then stands in the body.
HOW = {
    ("a failed tool's result", Protocol.CHAT): f"Error: {MARK}",
    ("a failed tool's result", Protocol.RESPONSES): f"Error: {MARK}",
    ("a failed tool's result", Protocol.MESSAGES): '"is_error": true',
    ("a failed tool's result", Protocol.GEMINI): f'"response": {{"error": "{MARK}"}}',
    ("a refusal of the assistant", Protocol.CHAT): f'"refusal": "{MARK}"',
    ("a refusal of the assistant", Protocol.RESPONSES): f'"refusal": "{MARK}"',
    ("system and developer turns", Protocol.CHAT): f'"role": "system", "content": "{MARK}"',
    **{("a tool in a namespace", channel): '"space__f"' for channel in Protocol},
    **{("a custom (free-form) tool", channel): f"free {MARK}" for channel in Protocol},
}


def encoded(channel, turns, **more):
    client = next(protocol for protocol in Protocol if protocol is not channel)
    return convert.encode(Conversation(client=client, model="m", turns=turns, **more), channel)


@pytest.mark.parametrize("channel", Protocol)
@pytest.mark.parametrize("kind", CONTENT)
def test_content_goes_where_the_table_says(kind, channel):
    row = CONTENT[kind][channel]
    turns = TURNS[kind](channel)
    if row.fate is Fate.REFUSED:
        with pytest.raises(BadRequest) as refused:
            encoded(channel, turns)
        assert refused.value.param in ("image", "document", "arguments")
        assert MARK not in refused.value.message
        return
    body = json.dumps(encoded(channel, turns))
    assert (MARK in body) is (row.fate is Fate.CARRIED)
    assert HOW.get((kind, channel), "") in body


def test_every_kind_of_content_has_its_case():
    assert TURNS.keys() == CONTENT.keys()


@pytest.mark.parametrize("channel", Protocol)
def test_a_custom_tool_is_a_function_of_one_string_with_its_grammar_in_words(channel):
    tool = Tool(tool=ToolName("apply_patch", custom=True), description="Patches.", grammar="GRAMMAR")
    function = json.dumps(encoded(channel, user(Text("hi")), tools=(tool,)))
    assert '"apply_patch"' in function
    assert "Patches.\\n\\nGRAMMAR" in function
    assert '"required": ["input"]' in function


def test_chat_puts_images_of_results_behind_all_results():
    use = [ToolUse(id=f"call_{n}", tool=TOOL, arguments="{}") for n in (1, 2)]
    results = [
        ToolResult(id="call_1", parts=(Image(media_type="image/png", data="aaaa"),)),
        ToolResult(id="call_2", parts=(Text("two"),)),
    ]
    turns = (*assistant(*use), Turn(Role.TOOL, tuple(results)), *user(Text("well?")))
    messages = encoded(Protocol.CHAT, turns)["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "tool", "user", "user"]
    assert messages[2] == {"role": "tool", "tool_call_id": "call_1", "content": ""}
    assert messages[4]["content"][1]["image_url"]["url"] == "data:image/png;base64,aaaa"


def test_messages_alternates_and_puts_results_first():
    turns = (
        *user(Text("a")),
        *user(Text("b")),
        Turn(Role.ASSISTANT, (Text("  "), CALL)),
        *user(Text("wait")),
        Turn(Role.TOOL, (ToolResult(id="call_1", parts=()),)),
    )
    messages = encoded(Protocol.MESSAGES, turns)["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
    assert [block["type"] for block in messages[1]["content"]] == ["tool_use"]
    assert [block["type"] for block in messages[2]["content"]] == ["tool_result", "text"]


def test_gemini_signs_the_part_behind_the_reasoning():
    mine = Reasoning(carried=Carried(Protocol.GEMINI, "c2ln"))
    two = ToolUse(id="call_2", tool=TOOL, arguments="{}")
    parts = encoded(Protocol.GEMINI, assistant(Text("so"), mine, CALL, two))["contents"][1]["parts"]
    assert [part.get("thoughtSignature") for part in parts] == [None, "c2ln", None]
    parts = encoded(Protocol.GEMINI, assistant(Text("so"), mine))["contents"][1]["parts"]
    assert parts[-1] == {"text": "", "thoughtSignature": "c2ln"}


def test_gemini_gets_the_documented_signature_for_calls_of_other_models():
    two = ToolUse(id="call_2", tool=TOOL, arguments="{}")
    parts = encoded(Protocol.GEMINI, assistant(CALL, two))["contents"][1]["parts"]
    assert [part.get("thoughtSignature") for part in parts] == ["skip_thought_signature_validator", None]


def test_gemini_needs_a_result_to_have_its_call():
    with pytest.raises(BadRequest, match="answers no tool call"):
        encoded(Protocol.GEMINI, (Turn(Role.TOOL, (ToolResult(id="x", parts=(), param="messages[0]"),)),))


def test_redacted_and_hidden_thinking_come_back_as_they_were():
    hidden = Reasoning(carried=Carried(Protocol.MESSAGES, "sig", text="whole"), text="short")
    redacted = Reasoning(carried=Carried(Protocol.MESSAGES, "data", redacted=True))
    blocks = encoded(Protocol.MESSAGES, assistant(hidden, redacted))["messages"][1]["content"]
    assert blocks == [
        {"type": "thinking", "thinking": "whole", "signature": "sig"},
        {"type": "redacted_thinking", "data": "data"},
    ]


@pytest.mark.parametrize("channel", Protocol)
def test_two_tools_of_one_name_are_refused(channel):
    tools = (Tool(tool=ToolName("a__f")), Tool(tool=ToolName("f", "a")))
    with pytest.raises(BadRequest, match="same name"):
        encoded(channel, user(Text("hi")), tools=tools)


@pytest.mark.parametrize("channel", Protocol)
def test_ids_and_names_that_not_all_take_are_rewritten_alike(channel):
    use = ToolUse(id="id with spaces:" + "x" * 80, tool=ToolName("9.lives"), arguments="{}")
    turns = (*assistant(use), Turn(Role.TOOL, (ToolResult(id=use.id, parts=(Text("ok"),)),)))
    tools = (Tool(tool=use.tool),)
    body = json.dumps(encoded(channel, turns, tools=tools))
    assert "id with spaces" not in body
    assert "9.lives" not in body
    (name,) = convert.tool_names(Conversation(client=Protocol.CHAT, model="m", turns=turns, tools=tools))
    assert body.count(f'"{name}"') == {Protocol.GEMINI: 3}.get(channel, 2)
