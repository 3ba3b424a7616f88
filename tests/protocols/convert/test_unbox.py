"""A client's turns of converted answers, when its next request goes to a channel of its own protocol."""

from __future__ import annotations

import json

import pytest

from hoptrio.protocols.convert import boxed, unboxed
from hoptrio.protocols.convert.carrier import Carried, pack
from hoptrio.protocols.convert.request.encode.gemini import NO_SIGNATURE
from hoptrio.protocols.events import Call, Framing, Protocol

BOX = pack(Carried(Protocol.RESPONSES, "token"))
OWN = "c2lnbmF0dXJl"


def stripped(protocol, body):
    """What goes upstream of a body; the body given stays as it was."""
    call = Call(protocol=Protocol(protocol), model="m", stream=True, framing=Framing.SSE, body=body)
    before = json.dumps(body)
    after = unboxed(call).body
    assert json.dumps(body) == before
    assert not boxed(json.dumps(after).encode())
    return after


def thought(signature):
    return {"type": "thinking", "thinking": "so", "signature": signature}


TEXT = {"type": "text", "text": "hi"}
USE = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "1"}]}


def messages(*content, thinking="enabled", last=RESULT):
    turns = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": list(content)}, last]
    return {"messages": turns, "thinking": {"type": thinking}}


@pytest.mark.parametrize("block", [thought(BOX), {"type": "redacted_thinking", "data": BOX}])
def test_thinking_of_another_family_goes_and_anthropics_own_stays(block):
    body = messages(block, thought(OWN), TEXT, last={"role": "user", "content": "go on"})
    assert stripped("messages", body)["messages"][1]["content"] == [thought(OWN), TEXT]
    assert stripped("messages", body)["thinking"] == {"type": "enabled"}


@pytest.mark.parametrize(("thinking", "left"), [("enabled", False), ("adaptive", True)])
def test_a_budget_in_the_middle_of_a_call_whose_thoughts_are_gone_is_left_out(thinking, left):
    assert ("thinking" in stripped("messages", messages(thought(BOX), USE, thinking=thinking))) == left


def test_a_turn_of_nothing_but_a_box_goes():
    assert [turn["role"] for turn in stripped("messages", messages(thought(BOX)))["messages"]] == ["user", "user"]


def test_a_reasoning_item_goes_whole():
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": BOX}
    own = item | {"encrypted_content": OWN}
    assert stripped("responses", {"input": [item, own, {"role": "user", "content": "hi"}]})["input"] == [
        own,
        {"role": "user", "content": "hi"},
    ]


@pytest.mark.parametrize("name", ["thoughtSignature", "thought_signature"])
def test_a_signature_goes_and_a_call_gets_the_one_for_calls_of_others(name):
    call = {"functionCall": {"name": "f", "args": {}}}
    parts = [{"text": "so", "thought": True, name: BOX}, {"text": "hi", name: BOX}, call | {name: BOX}, {name: OWN}]
    contents = [{"role": "model", "parts": parts}, {"role": "model", "parts": [{"text": "", name: BOX}]}]
    assert stripped("gemini", {"contents": contents})["contents"] == [
        {"role": "model", "parts": [{"text": "hi"}, call | {"thoughtSignature": NO_SIGNATURE}, {name: OWN}]}
    ]


@pytest.mark.parametrize(
    ("protocol", "body"),
    [
        ("chat", {"messages": [{"role": "user", "content": "hi"}]}),
        ("responses", {"input": "hi"}),
        ("gemini", {"contents": {"parts": {"text": "hi"}}}),
        ("messages", {"messages": [{"role": "user", "content": "hi"}]}),
    ],
)
def test_what_has_none_stays_as_it_is(protocol, body):
    assert stripped(protocol, body) == body
