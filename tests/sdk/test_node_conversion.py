"""The golden streams converted for every client, heard by the official Node SDKs' accumulators."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.converting import DIRECTIONS, GOLDEN, convert_stream
from tests.support.sdks import hear

pytestmark = [
    pytest.mark.sdk,
    pytest.mark.timeout(300),
    pytest.mark.skipif(shutil.which("node") is None or shutil.which("npm") is None, reason="node is not here"),
]

NODE = Path(__file__).parent / "node"


def test_node_hears_what_python_hears_of_the_original(packages):
    wires = [(client, convert_stream(GOLDEN[channel], channel, client).wire) for channel, client in DIRECTIONS]
    asked = [{"protocol": client, "wire": base64.b64encode(wire).decode()} for client, wire in wires]
    run = subprocess.run(
        ["node", "converted.mjs"], cwd=NODE, input=json.dumps(asked), capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr[-4000:]
    for (channel, client), heard in zip(DIRECTIONS, json.loads(run.stdout), strict=True):
        original = hear(channel, GOLDEN[channel])
        expected = {
            "text": original.text,
            "calls": [list(call) for call in original.calls],
            "finish": original.finish,
            "usage": list(original.usage),
        }
        assert heard == expected, (channel, client)
