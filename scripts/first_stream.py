#!/usr/bin/env python3
"""Starts a demo with the given command, waits until it is ready, takes a stream to its end, and says how long it took.

    scripts/first_stream.py .venv/bin/hoptrio demo --listen 127.0.0.1:0 --control 127.0.0.1:0

Needs nothing but Python. Exit status 1: there was no whole stream.
"""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
import time
from urllib.parse import urlsplit

WAIT_S = 600


def main(command: list[str]) -> int:
    """Run `command`; the exit status."""
    began_at = time.monotonic()
    demo = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        address = urlsplit(find_url(demo)).netloc
        while ask(address, "GET", "/readyz")[0] != 200:
            if time.monotonic() > began_at + WAIT_S:
                return say("it did not get ready")
            time.sleep(0.05)
        ready_s = time.monotonic() - began_at
        body = {"model": "gpt-5.6-sol", "stream": True, "messages": [{"role": "user", "content": "Hello"}]}
        status, answer = ask(address, "POST", "/v1/chat/completions", json.dumps(body))
        if status != 200 or not answer.endswith("data: [DONE]\n\n"):
            return say(f"there was no whole stream (status {status})")
        whole_s = time.monotonic() - began_at
        sys.stdout.write(f"ready after {ready_s:.1f} s, a whole stream after {whole_s:.1f} s\n")
        return 0
    finally:
        demo.terminate()
        demo.wait(30)


def find_url(demo: subprocess.Popen[str]) -> str:
    """Where the demo's own lines say that it listens."""
    for line in demo.stdout or ():
        found = re.search(r"http://127\.0\.0\.1:\d+", line)
        if found:
            return found.group()
    raise SystemExit(say("the demo ended"))


def ask(address: str, method: str, path: str, body: str | None = None) -> tuple[int, str]:
    """One request; its status and its whole body."""
    connection = http.client.HTTPConnection(address, timeout=WAIT_S)
    headers = {"authorization": "Bearer sk-hoptrio-demo", "content-type": "application/json"}
    try:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def say(what: str) -> int:
    """Tell a failure; the exit status for it."""
    sys.stderr.write(f"first_stream: {what}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
