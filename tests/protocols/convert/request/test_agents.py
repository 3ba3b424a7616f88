"""What Codex, Claude Code and Gemini CLI send (protocols page 4.8, 6.6), with a tool loop in the middle of it."""

from __future__ import annotations

import json

import pytest

from hoptrio.errors import BadRequest
from hoptrio.protocols.convert.carrier import Carried, pack
from hoptrio.protocols.convert.request import tool_names
from hoptrio.protocols.events import Protocol
from tests.support.conversing import conversation, converted

SCHEMA = {"type": "object", "properties": {"cmd": {"type": "string"}}, "required": ["cmd"]}
#: What each channel family gave for the thinking before the call.
TOKENS = {family: pack(Carried(family, f"token-{family}")) for family in Protocol}
PATCH = "*** Begin Patch\n*** End Patch"


def codex(token=""):
    """Codex 0.171, second request of a turn."""
    return {
        "stream": True,
        "store": False,
        "input": [
            {"type": "message", "id": "msg_0", "role": "developer", "content": [text("You are Codex.")]},
            {"type": "message", "id": "msg_1", "role": "user", "content": [text("<environment_context/>")]},
            {"type": "message", "id": "msg_2", "role": "user", "content": [text("List the files.")]},
            {
                "type": "reasoning",
                "id": "rs_1",
                "summary": [{"type": "summary_text", "text": "I need ls."}],
                "encrypted_content": token,
            },
            message("assistant", "I will look.", kind="output_text", phase="commentary", id="msg_3"),
            call("shell", {"cmd": "ls"}, id="fc_1"),
            {
                "type": "function_call",
                "id": "fc_2",
                "call_id": "call_2",
                "name": "spawn",
                "namespace": "agents",
                "arguments": "{}",
            },
            {"type": "custom_tool_call", "id": "ct_1", "call_id": "call_3", "name": "apply_patch", "input": PATCH},
            {"type": "function_call_output", "call_id": "call_1", "output": "a.py\nb.py"},
            {"type": "function_call_output", "call_id": "call_2", "output": [text("done")]},
            {"type": "custom_tool_call_output", "call_id": "call_3", "output": "Success"},
            message("developer", "Approvals are off now.", id="msg_4"),
        ],
        "tools": [
            {"type": "function", "name": "shell", "description": "Runs.", "strict": False, "parameters": SCHEMA},
            {
                "type": "namespace",
                "name": "agents",
                "description": "Agents.",
                "tools": [{"type": "function", "name": "spawn", "strict": False, "parameters": SCHEMA}],
            },
            {
                "type": "custom",
                "name": "apply_patch",
                "description": "Patches.",
                "format": {"type": "grammar", "syntax": "lark", "definition": 'start: "*** Begin Patch"'},
            },
            {"type": "web_search", "external_web_access": False},
        ],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "reasoning": {"summary": "auto", "effort": None},
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "019b",
        "client_metadata": {"x-codex-installation-id": "1"},
        "text": {"verbosity": "low"},
    }


def codex_of_a_known_model():
    """Codex 0.171 for a model in its own list: all tools come in an item, and one call at a time is asked for."""
    execute = {"type": "custom", "name": "exec", "description": "Runs JavaScript."}
    wait = {"type": "function", "name": "wait", "strict": False, "parameters": SCHEMA}
    tools = [{"type": "namespace", "name": "functions", "description": "", "tools": [execute, wait]}]
    return {
        "stream": True,
        "store": False,
        "input": [
            {"type": "additional_tools", "id": "at_1", "role": "developer", "tools": tools},
            message("developer", "You are Codex.", id="msg_0"),
            message("user", "List the files.", id="msg_1"),
            {
                "type": "custom_tool_call",
                "id": "ctc_1",
                "call_id": "call_1",
                "name": "exec",
                "namespace": "functions",
                "input": "text(1)",
            },
            {"type": "custom_tool_call_output", "call_id": "call_1", "output": [text("a.py")]},
        ],
        "tool_choice": "auto",
        "parallel_tool_calls": False,
        "reasoning": {"effort": "low", "context": "all_turns"},
        "include": ["reasoning.encrypted_content"],
        "text": {"verbosity": "low"},
    }


def text(value, kind="input_text"):
    return {"type": kind, "text": value}


def message(role, value, *, kind="input_text", **more):
    return {"type": "message", "role": role, "content": [text(value, kind)], **more}


def call(name, arguments, **more):
    return {"type": "function_call", "call_id": "call_1", "name": name, "arguments": json.dumps(arguments), **more}


def claude_code(signature=""):
    """Claude Code 2.1, after a tool read an image."""
    cached = {"cache_control": {"type": "ephemeral"}}
    return {
        "stream": True,
        "max_tokens": 32000,
        "system": [{"type": "text", "text": f"part {n}", **cached} for n in range(3)],
        "messages": [
            {"role": "user", "content": [text("<system-reminder/>", "text"), {**text("Look.", "text"), **cached}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "I need to read.", "signature": signature},
                    text("Reading.", "text"),
                    {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"file_path": "a.png"}},
                    {"type": "tool_use", "id": "toolu_2", "name": "Bash", "input": {"cmd": "false"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "toolu_1",
                        "content": [
                            {
                                "type": "image",
                                "source": {"type": "base64", "media_type": "image/png", "data": "aGk="},
                            }
                        ],
                    },
                    {"type": "tool_result", "tool_use_id": "toolu_2", "content": "exit 1", "is_error": True},
                    {**text("And now?", "text"), **cached},
                ],
            },
        ],
        "tools": [
            {"name": "Read", "description": "Reads.", "input_schema": {**SCHEMA, "additionalProperties": False}},
            {"name": "Bash", "input_schema": SCHEMA, "eager_input_streaming": True, **cached},
        ],
        "thinking": {"type": "enabled", "budget_tokens": 31999},
        "metadata": {"user_id": json.dumps({"device_id": "d" * 64, "session_id": "s" * 36})},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "output_config": {"effort": "high"},
        "diagnostics": {"previous_message_id": None},
    }


def gemini_cli(signature=""):
    """Gemini CLI, after two calls of one function."""
    return {
        "contents": [
            {"role": "user", "parts": [{"text": "Read both."}]},
            {
                "role": "model",
                "parts": [
                    {"text": "Both then.", "thought": True},
                    {"functionCall": {"name": "read", "args": {"cmd": "a"}}, "thoughtSignature": signature},
                    {"functionCall": {"name": "read", "args": {"cmd": "b"}}},
                ],
            },
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"name": "read", "response": {"output": "A"}}},
                    {"functionResponse": {"name": "read", "response": {"error": "no such file"}}},
                ],
            },
        ],
        "systemInstruction": {"role": "user", "parts": [{"text": "You are an agent."}]},
        "tools": [{"functionDeclarations": [{"name": "read", "parametersJsonSchema": SCHEMA}]}],
        "generationConfig": {
            "temperature": 1,
            "topP": 0.95,
            "topK": 64,
            "thinkingConfig": {"includeThoughts": True, "thinkingBudget": 8192},
        },
    }


def test_codex_on_chat():
    out = converted("responses", "chat", codex())
    assert [message["role"] for message in out["messages"]] == [
        "system",
        "user",
        "user",
        "assistant",
        "tool",
        "tool",
        "tool",
        "system",
    ]
    said = out["messages"][3]
    assert said["content"] == "I will look."
    assert [
        (each["id"], each["function"]["name"], json.loads(each["function"]["arguments"])) for each in said["tool_calls"]
    ] == [
        ("call_1", "shell", {"cmd": "ls"}),
        ("call_2", "agents__spawn", {}),
        ("call_3", "apply_patch", {"input": PATCH}),
    ]
    assert out["messages"][5] == {"role": "tool", "tool_call_id": "call_2", "content": "done"}
    assert [tool["function"]["name"] for tool in out["tools"]] == ["shell", "agents__spawn", "apply_patch"]
    assert out["tool_choice"] == "auto"
    assert out.keys() == {"model", "messages", "stream", "stream_options", "verbosity", "tools", "tool_choice"}


def test_codex_finds_its_own_names_again():
    names = tool_names(conversation("responses", codex()))
    assert names["agents__spawn"] == ("spawn", "agents", False)
    assert names["apply_patch"] == ("apply_patch", "", True)
    assert names.keys() == {"shell", "agents__spawn", "apply_patch"}


def test_codex_on_messages_with_the_thinking_it_was_given():
    out = converted("responses", "messages", codex(TOKENS[Protocol.MESSAGES]), output_max=64000)
    assert [block["text"] for block in out["system"]] == ["You are Codex.", "Approvals are off now."]
    assert [message["role"] for message in out["messages"]] == ["user", "assistant", "user"]
    assert out["messages"][1]["content"][0] == {
        "type": "thinking",
        "thinking": "I need ls.",
        "signature": "token-messages",
    }
    assert [block["type"] for block in out["messages"][1]["content"]] == ["thinking", "text"] + 3 * ["tool_use"]
    assert [block["type"] for block in out["messages"][2]["content"]] == 3 * ["tool_result"]
    assert out["max_tokens"] == 64000


def test_codex_on_gemini_with_the_signature_it_was_given():
    out = converted("responses", "gemini", codex(TOKENS[Protocol.GEMINI]))
    model = out["contents"][1]
    assert model["role"] == "model"
    assert model["parts"][0] == {"text": "I will look.", "thoughtSignature": "token-gemini"}
    responses = [part["functionResponse"] for part in out["contents"][2]["parts"]]
    assert [(each["id"], each["name"]) for each in responses] == [
        ("call_1", "shell"),
        ("call_2", "agents__spawn"),
        ("call_3", "apply_patch"),
    ]


@pytest.mark.parametrize("channel", ["chat", "messages", "gemini"])
def test_codex_of_a_known_model_on_every_channel(channel):
    """A Gemini channel cannot be told "one call at a time", but Codex would be refused there if it were a 400."""
    out = json.dumps(converted("responses", channel, codex_of_a_known_model()))
    assert '"functions__exec"' in out
    assert '"functions__wait"' in out
    assert '"input": "text(1)"' in out or r"\"input\":\"text(1)\"" in out
    assert "a.py" in out
    assert ("parallel" in out) is (channel != "gemini")


@pytest.mark.parametrize("client", ["chat", "messages"])
def test_one_call_at_a_time_is_refused_where_somebody_meant_it(client):
    functions = {"chat": [{"type": "function", "function": {"name": "f"}}], "messages": [{"name": "f"}]}
    body = {"messages": [{"role": "user", "content": "x"}], "tools": functions[client]}
    asked = {"messages": {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}}
    with pytest.raises(BadRequest, match="parallel calls cannot be turned off"):
        converted(client, "gemini", body | asked.get(client, {"parallel_tool_calls": False}))


@pytest.mark.parametrize("channel", ["messages", "gemini"])
def test_codex_reasoning_of_another_family_or_of_openai_itself_is_left_out(channel):
    for token in (TOKENS[Protocol.RESPONSES], "gAAAAABopaque", ""):
        assert "opaque" not in (body := json.dumps(converted("responses", channel, codex(token))))
        assert "I need ls." not in body


@pytest.mark.parametrize("channel", ["chat", "messages", "gemini"])
def test_codex_cannot_force_a_search_that_nobody_runs(channel):
    with pytest.raises(BadRequest, match=r"tools\[3\].type"):
        converted("responses", channel, codex() | {"tool_choice": "required"})


def test_claude_code_on_chat():
    out = converted("messages", "chat", claude_code())
    assert out["messages"][0] == {"role": "system", "content": "part 0\n\npart 1\n\npart 2"}
    assert [message["role"] for message in out["messages"]] == [
        "system",
        "user",
        "assistant",
        "tool",
        "tool",
        "user",
        "user",
    ]
    assert out["messages"][1]["content"] == "<system-reminder/>\n\nLook."
    assert out["messages"][4]["content"] == "Error: exit 1"
    assert out["messages"][5]["content"][1]["image_url"] == {"url": "data:image/png;base64,aGk="}
    assert out["messages"][6]["content"] == "And now?"
    assert out["reasoning_effort"] == "high"
    assert len(out["user"]) == 64
    assert "cache_control" not in json.dumps(out)


def test_claude_code_on_responses_with_the_reasoning_it_was_given():
    out = converted("messages", "responses", claude_code(TOKENS[Protocol.RESPONSES]))
    assert out["instructions"] == "part 0\n\npart 1\n\npart 2"
    kinds = [item.get("type", item.get("role")) for item in out["input"]]
    assert kinds == [
        "user",
        "reasoning",
        "assistant",
        "function_call",
        "function_call",
        "function_call_output",
        "function_call_output",
        "user",
    ]
    assert out["input"][1] == {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "I need to read."}],
        "encrypted_content": "token-responses",
    }
    assert out["input"][5]["output"] == [
        {"type": "input_image", "image_url": "data:image/png;base64,aGk=", "detail": "auto"}
    ]
    assert (out["store"], out["include"]) == (False, ["reasoning.encrypted_content"])
    assert out["reasoning"] == {"effort": "high", "summary": "auto"}


def test_claude_code_on_gemini():
    out = converted("messages", "gemini", claude_code(TOKENS[Protocol.GEMINI]))
    parts = out["contents"][1]["parts"]
    assert [next(iter(part)) for part in parts] == ["text", "functionCall", "functionCall"]
    assert parts[0]["thoughtSignature"] == "token-gemini"
    kinds = [next(iter(part)) for part in out["contents"][2]["parts"]]
    assert kinds == ["functionResponse", "inlineData", "functionResponse", "text"]
    assert out["contents"][2]["parts"][2]["functionResponse"]["response"] == {"error": "exit 1"}


def test_gemini_cli_on_messages_pairs_calls_and_results_without_ids():
    out = converted("gemini", "messages", gemini_cli(TOKENS[Protocol.MESSAGES]))
    uses = [block for block in out["messages"][1]["content"] if block["type"] == "tool_use"]
    results = out["messages"][2]["content"]
    assert [block["id"] for block in uses] == [block["tool_use_id"] for block in results]
    assert len({block["id"] for block in uses}) == 2
    assert [block.get("is_error") for block in results] == [None, True]
    assert out["messages"][1]["content"][0] == {
        "type": "thinking",
        "thinking": "Both then.",
        "signature": "token-messages",
    }
    assert out["thinking"] == {"type": "enabled", "budget_tokens": 8192}
    assert "temperature" not in out


def test_a_thinking_budget_is_left_out_where_the_thoughts_are_lost():
    """With a budget, Anthropic wants the thoughts of a running tool loop back; the request would be refused."""
    assert "thinking" not in converted("gemini", "messages", gemini_cli())
    ended = gemini_cli()
    ended["contents"] += [{"role": "model", "parts": [{"text": "Done."}]}, {"role": "user", "parts": [{"text": "?"}]}]
    assert "thinking" in converted("gemini", "messages", ended)


@pytest.mark.parametrize("channel", ["chat", "responses"])
def test_gemini_cli_on_openai(channel):
    out = converted("gemini", channel, gemini_cli())
    assert "You are an agent." in json.dumps(out)
    assert "top_k" not in out
    assert out["tools"]
