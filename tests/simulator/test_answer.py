"""What is said, and how many tokens it is."""

from __future__ import annotations

import json

import pytest

from hoptrio.protocols.events import Framing, Protocol
from hoptrio.simulator.answer import answer_to, distort
from hoptrio.simulator.prompt import Prompt, Tool
from hoptrio.simulator.script import Script, parse_directive


def prompt(**more):
    fields = {"protocol": Protocol.CHAT, "model": "m", "framing": Framing.SSE, "text": "hi", "text_bytes": 2}
    return Prompt(**{**fields, **more})


def answer(directive="", **more):
    return answer_to(prompt(**more), parse_directive(directive), 1)


def test_ten_pieces_about_the_prompt():
    pieces = list(answer_to(prompt(text="What is trio?"), Script(), 1).text())
    assert len(pieces) == 10
    assert "“What is trio?”" in "".join(pieces)


def test_a_given_text_is_cut_and_nothing_is_lost():
    said = answer("text='grüße, welt' events=4")
    assert len(list(said.text())) == 4
    assert "".join(said.text()) == "grüße, welt"


def test_a_text_shorter_than_its_pieces_has_a_piece_a_character():
    assert list(answer("text=abc events=9").text()) == ["a", "b", "c"]


def test_pieces_are_padded_to_a_size_in_bytes():
    assert {len(piece.encode()) for piece in answer("events=5 size=100").text()} == {100}


def test_the_counts_are_those_of_the_rule():
    said = answer("events=5 reasoning=3 tools=2", text_bytes=401, choices=2)
    assert said.input_tokens == 101
    assert said.output_tokens == (5 + 3 + 2 * 2) * 2
    assert said.reasoning_tokens == 3 * 2
    assert said.total_tokens == 101 + 24


def test_counts_may_be_given():
    said = answer("input=479 output=373 total=14164 cached=13312")
    assert (said.input_tokens, said.output_tokens, said.total_tokens) == (479, 373, 14164)


@pytest.mark.parametrize(
    ("limit", "reasoning", "text", "calls", "finish"),
    [
        (None, 3, 5, 1, "tools"),
        (10, 3, 5, 1, "tools"),
        (9, 3, 5, 0, "length"),
        (4, 3, 1, 0, "length"),
        (2, 2, 0, 0, "length"),
    ],
)
def test_an_output_limit_cuts_the_answer(limit, reasoning, text, calls, finish):
    said = answer("events=5 reasoning=3 tools=1", output_limit=limit)
    assert (said.reasoning_count, said.text_count, len(said.calls), said.finish) == (reasoning, text, calls, finish)


def test_a_call_satisfies_the_schema_it_is_for():
    schema = {
        "properties": {"a": {"type": "string"}, "n": {"type": "INTEGER"}, "e": {"enum": ["x", "y"]}, "o": {}},
        "required": ["a", "n", "e"],
    }
    call = answer("tools=1", tools=(Tool("f", schema),)).calls[0]
    assert call.name == "f"
    assert json.loads(call.arguments) == {"a": "simulated", "n": 1, "e": "x"}


def test_calls_take_the_tools_in_turn():
    calls = answer("tools=3 args='{\"x\":1}'", tools=(Tool("f", {}), Tool("g", {}))).calls
    assert [call.name for call in calls] == ["f", "g", "f"]
    assert {call.arguments for call in calls} == {'{"x":1}'}
    assert len({call.id for call in calls}) == 3


def test_a_tool_result_is_answered_with_text():
    said = answer("tools=1", result="it is\nsunny")
    assert (said.calls, said.finish) == ((), "stop")
    assert "".join(said.text()).startswith("The tool said: “it is sunny”.")


@pytest.mark.parametrize(
    ("directive", "called"),
    [
        ("tool=run,f", ["f"]),
        ("tool=g,f tools=2", ["g", "g"]),
        ("tool=box__exec", ["exec"]),
        ("tool=exec tools=2", []),
        ("tools=1", ["f"]),
    ],
)
def test_a_call_may_depend_on_the_tools_offered(directive, called):
    tools = (Tool("f", {}), Tool("g", {}), Tool("exec", {}, namespace="box", custom=True))
    assert [call.name for call in answer(directive, tools=tools).calls] == called


def test_a_custom_tool_gets_its_input_as_it_is():
    tools = (Tool("exec", {}, custom=True), Tool("f", {}))
    calls = answer("""tools=2 args='{"input":"let x = 1"}'""", tools=tools).calls
    assert [call.arguments for call in calls] == ["let x = 1", '{"input":"let x = 1"}']


@pytest.mark.parametrize(
    ("kind", "usage"),
    [
        ("zero", {"a": 0, "b": {"c": 0}}),
        ("negative", {"a": -6, "b": {"c": -2}}),
        ("huge", {"a": 2**63, "b": {"c": 2**63}}),
        ("string", {"a": "5", "b": {"c": "1"}}),
        ("float", {"a": 5.5, "b": {"c": 1.5}}),
        ("empty", {}),
        ("null", None),
        ("normal", {"a": 5, "b": {"c": 1}}),
    ],
)
def test_usage_may_be_wrong(kind, usage):
    assert distort({"a": 5, "b": {"c": 1}}, kind) == usage
