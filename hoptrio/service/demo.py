"""The demo: a complete gateway, its embedded ledger and a simulated provider behind it, in one process on loopback."""

from __future__ import annotations

import json
import shlex
from functools import partial
from typing import TYPE_CHECKING, Any

import trio

from hoptrio.certification.certifier import Certifier, what_to_probe
from hoptrio.config import build
from hoptrio.errors import Conflict
from hoptrio.ledger.ledger import open_ledger
from hoptrio.money import parse_nanos
from hoptrio.service.run import serve
from hoptrio.simulator.provider import SimulatedProvider
from hoptrio.simulator.server import serve_listeners
from hoptrio.upstream.client import Upstream

if TYPE_CHECKING:
    from pathlib import Path

    from hoptrio.config import Config
    from hoptrio.service.sockets import Listening

__all__ = ["DEMO_KEY", "DEMO_TOKEN", "curl_lines", "demo"]

DEMO_KEY = "sk-hoptrio-demo"
DEMO_TOKEN = "demo"
DEMO_ACCOUNT = "demo"
DEMO_BALANCE = "100"

#: Names that SDK users type anyway, at made-up prices per million tokens: (input, output).
MODELS = {
    "sim-small": ("0.50", "2.00"),
    "sim-large": ("3.00", "15.00"),
    "gpt-5.6-sol": ("1.25", "10.00"),
    "claude-sonnet-5": ("3.00", "15.00"),
    "gemini-3-pro": ("2.00", "12.00"),
}
#: Models that generate no text.
WHOLE_MODELS = {
    "sim-embedding": {"input": "0.02", "max_input_tokens": 8_192},
    "sim-image": {"input": "0", "image": "0.04", "max_input_tokens": 4_000},
}


async def demo(
    directory: Path, listen: str, control: str, *, task_status: trio.TaskStatus[Listening] = trio.TASK_STATUS_IGNORED
) -> None:
    """Run until SIGTERM or SIGINT; reports where it listens once it is ready."""
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listeners[0].socket.getsockname()[1]
        nursery.start_soon(serve_listeners, SimulatedProvider(), listeners)
        config = _config(directory, listen, control, f"http://127.0.0.1:{port}")
        await _fill_ledger(config)
        await _certify(config)
        listening = await nursery.start(partial(_serve_then_stop, nursery.cancel_scope, config))
        task_status.started(listening)


async def _serve_then_stop(
    scope: trio.CancelScope, config: Config, *, task_status: trio.TaskStatus[Listening] = trio.TASK_STATUS_IGNORED
) -> None:
    await serve(config, task_status=task_status)
    scope.cancel()


def _config(directory: Path, listen: str, control: str, provider: str) -> Config:
    models: dict[str, Any] = {
        name: {"input": input_, "output": output, "max_input_tokens": 200_000, "max_output_tokens": 8_192}
        for name, (input_, output) in MODELS.items()
    }
    channel = {
        "protocols": ["chat", "responses", "messages", "gemini"],
        "base_url": {
            "chat": f"{provider}/v1",
            "responses": f"{provider}/v1",
            "messages": provider,
            "gemini": provider,
        },
        "api_key": "sk-simulated-provider",
        "models": [*MODELS, *WHOLE_MODELS],
    }
    raw: dict[str, Any] = {
        "server": {"listen": listen},
        "control": {"listen": control, "token": DEMO_TOKEN},
        "ledger": {"url": f"sqlite:///{directory / 'hoptrio.db'}"},
        "models": models | WHOLE_MODELS,
        "channels": {"simulated": channel},
    }
    return build(raw, directory=directory)


async def _fill_ledger(config: Config) -> None:
    """The demo's account and key; in a directory that was used before they are there already."""
    async with open_ledger(config.ledger.url) as ledger:
        try:
            await ledger.create_account(DEMO_ACCOUNT, parse_nanos(DEMO_BALANCE))
            await ledger.create_key(DEMO_ACCOUNT, secret=DEMO_KEY)
        except Conflict:
            pass


async def _certify(config: Config) -> None:
    """Probe the simulated provider before anything listens, so that the first request finds a certified channel."""
    async with open_ledger(config.ledger.url) as ledger, Upstream() as upstream:
        certifier = Certifier(ledger, upstream, valid_days=config.certification.valid_days)
        await certifier.certify_all(config.catalogue, what_to_probe(config.catalogue), tell=lambda *_: None)


def curl_lines(url: str) -> list[str]:
    """One streaming call in each protocol, ready to be pasted."""
    prompt = "Why does a stream need a gateway?"
    message = [{"role": "user", "content": prompt}]
    chat = {"model": "gpt-5.6-sol", "stream": True, "messages": message}
    responses = {"model": "gpt-5.6-sol", "stream": True, "input": prompt}
    messages = {"model": "claude-sonnet-5", "stream": True, "max_tokens": 200, "messages": message}
    gemini = {"contents": [{"role": "user", "parts": [{"text": prompt}]}]}
    bearer, api_key, goog = (
        f"{name}{DEMO_KEY}" for name in ("authorization: Bearer ", "x-api-key: ", "x-goog-api-key: ")
    )
    return [
        _curl(f"{url}/v1/chat/completions", chat, bearer),
        _curl(f"{url}/v1/responses", responses, bearer),
        _curl(f"{url}/v1/messages", messages, api_key, "anthropic-version: 2023-06-01"),
        _curl(f"{url}/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse", gemini, goog),
    ]


def _curl(url: str, body: dict[str, Any], *headers: str) -> str:
    parts = ["curl", "-N", url, "-H", "content-type: application/json"]
    for header in headers:
        parts += ["-H", header]
    return shlex.join([*parts, "-d", json.dumps(body)])
