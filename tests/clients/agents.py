"""Agents: how each is run for one turn without a terminal. Their settings are those of their guides (docs/clients)."""

from __future__ import annotations

import json
from typing import NamedTuple

__all__ = ["AGENTS", "NOTE", "Agent"]

#: The file that the model wants to read; nobody but the tool can know what is in it.
NOTE = "note.txt"
_READ = f"cat {NOTE}"
#: Codex runs this in an interpreter of its own, in which its other tools are functions.
_SCRIPT = f"text(JSON.stringify(await tools.exec_command({{cmd: '{_READ}'}})))"


class Agent(NamedTuple):
    """`argv` is completed by the prompt, unless that goes to its standard input; `guide` is the page whose settings it
    runs with."""

    name: str
    guide: str
    #: The protocol it speaks.
    protocol: str
    model: str
    #: The tool that the model calls, and its arguments.
    tool: str
    arguments: dict[str, str]
    argv: tuple[str, ...]
    environment: dict[str, str]
    by_stdin: bool = False

    def prompt(self, script: dict[str, object]) -> str:
        """What to say, so that the simulated model calls the tool; `script` has further keys of its language."""
        called = {"tool": self.tool, "args": self.arguments}
        return f"Read the note.\nsim: {json.dumps(script | called)}\n"


_SHELL = {"command": _READ, "description": "Reads the note"}
_CODEX = ("codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")
_CODEX_KEY = {"HOPTRIO_API_KEY": "sk-hoptrio-demo"}

AGENTS = (
    Agent(
        name="Codex CLI",
        guide="codex",
        protocol="responses",
        model="gpt-5.6-sol",
        tool="functions__exec",
        arguments={"input": _SCRIPT},
        argv=(*_CODEX, "-m", "gpt-5.6-sol"),
        environment=_CODEX_KEY,
    ),
    # A name that Codex does not know gets plain functions.
    Agent(
        name="Codex, any model",
        guide="codex",
        protocol="responses",
        model="sim-small",
        tool="exec_command",
        arguments={"cmd": _READ},
        argv=(*_CODEX, "-m", "sim-small"),
        environment=_CODEX_KEY,
    ),
    Agent(
        name="Claude Code",
        guide="claude-code",
        protocol="messages",
        model="claude-sonnet-5",
        tool="Bash",
        arguments=_SHELL,
        # As root it works without asking only where it is told that this is a sandbox.
        argv=("claude", "-p", "--dangerously-skip-permissions"),
        environment={"IS_SANDBOX": "1"},
    ),
    Agent(
        name="Gemini CLI",
        guide="gemini-cli",
        protocol="gemini",
        model="gemini-3-pro",
        tool="run_shell_command",
        arguments=_SHELL,
        argv=("gemini", "--yolo", "--skip-trust", "-m", "gemini-3-pro", "-p"),
        environment={},
    ),
    Agent(
        name="opencode",
        guide="opencode",
        protocol="chat",
        model="gpt-5.6-sol",
        tool="bash",
        arguments=_SHELL,
        argv=("opencode", "run"),
        environment={},
        # It puts what comes as an argument into quotes.
        by_stdin=True,
    ),
)
