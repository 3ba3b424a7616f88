"""The official Node SDKs, unmodified: each file in ``node/`` is run by node's own test runner."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import asdict
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.sdk,
    pytest.mark.timeout(300),
    pytest.mark.skipif(shutil.which("node") is None or shutil.which("npm") is None, reason="node is not here"),
]

NODE = Path(__file__).parent / "node"
SUITES = sorted(path.name for path in NODE.glob("*.test.mjs"))


def test_there_is_a_suite_for_each_sdk():
    assert SUITES == ["anthropic.test.mjs", "genai.test.mjs", "openai.test.mjs", "websocket.test.mjs"]


@pytest.mark.parametrize("suite", SUITES)
def test_node(gateway, packages, suite):
    environment = os.environ | {"HOPTRIO_SDK_GATEWAY": json.dumps(asdict(gateway)), "NO_COLOR": "1"}
    run = subprocess.run(
        ["node", "--test", "--test-reporter=spec", suite],
        cwd=NODE,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-8000:] + run.stderr[-2000:]
