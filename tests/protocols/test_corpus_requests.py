"""Every recorded request is read, and sent on as the same JSON but for the documented changes."""

from __future__ import annotations

import importlib
import json
import os
from pathlib import Path

import pytest

from hoptrio.errors import BadRequest
from hoptrio.limits import HOSTED_CALLS_MAX

ROOT = Path(__file__).parents[2]
CORPUS = Path(os.environ.get("HOPTRIO_CORPUS", ROOT.parent / "shared" / "corpus"))
PROTOCOLS = ("chat", "responses", "messages", "gemini")

#: What a recorded request may be refused for: (protocol, param, code). Azure's and Vertex's own forms name the model in
#: the path; audio and background are not sold.
REFUSED = {
    ("chat", "model", "missing_required_parameter"),
    ("chat", "audio", "unsupported_parameter"),
    ("messages", "model", "missing_required_parameter"),
    ("responses", "background", "unsupported_parameter"),
}

REQUESTS = sorted(file for protocol in PROTOCOLS for file in CORPUS.glob(f"{protocol}/*/request.json"))


@pytest.mark.skipif(not REQUESTS, reason="the corpus of recorded streams is not here")
@pytest.mark.parametrize("file", REQUESTS, ids=lambda file: file.parent.name)
def test_a_recorded_request_is_read_and_sent_on(file):
    protocol = file.parent.parent.name
    rules = importlib.import_module(f"hoptrio.protocols.{protocol}.request")
    body = file.read_bytes()
    try:
        call = rules.parse("/v1beta/models/m:streamGenerateContent", {"alt": "sse"}, {}, body)
    except BadRequest as error:
        if (protocol, error.param, error.code) not in REFUSED:
            raise
        return
    sent = rules.encode(
        call, model=call.model, output_limit=None, ask_usage=True, drop_unknown=False, drop_tools=frozenset()
    )
    assert json.loads(sent) == documented_changes(protocol, json.loads(body))


def documented_changes(protocol, body):
    """Usage is asked for on a Chat stream; a hosted tool without a bound gets ours."""
    if protocol == "chat" and body.get("stream"):
        body["stream_options"] = {**body.get("stream_options", {}), "include_usage": True}
    if protocol == "responses" and any(
        tool["type"] not in ("function", "tool_search") for tool in body.get("tools", [])
    ):
        body.setdefault("max_tool_calls", HOSTED_CALLS_MAX)
    if protocol == "messages":
        for tool in body.get("tools", []):
            if tool.get("type", "").startswith(("web_search_", "web_fetch_")) and tool.get("max_uses") is None:
                tool["max_uses"] = HOSTED_CALLS_MAX
    return body
