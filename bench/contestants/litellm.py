"""litellm: LiteLLM's proxy, from PyPI, in a virtual environment of its own, with the log of spends that it has anyway.

The environment is made when the contestant is asked for by name; it takes some minutes and a gigabyte or so.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bench.contestants.contestant import Absent, Contestant, Limits
from bench.counters import tree
from bench.process import free_port, running, wait_for_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bench.contestants.contestant import Place

__all__ = ["Litellm"]

_READY_S = 120.0
_CONFIG = """
model_list:
  - model_name: bench-chat
    litellm_params:
      model: openai/bench-chat
      api_base: http://127.0.0.1:{provider_port}/v1
      api_key: sk-bench
litellm_settings:
  telemetry: false
  num_retries: 0
"""
#: It asks no other host for anything.
_ENVIRONMENT = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_TELEMETRY": "False", "LITELLM_LOG": "ERROR"}


class Litellm:
    """It costs so much that longer runs would measure nothing but patience."""

    name = "litellm"
    limits = Limits(streams=50, events=1_000, rounds=1, families=("paced", "first-event", "burst", "short"))
    protocols = frozenset({"chat"})

    def version(self) -> str:
        python = _home() / "bin" / "python"
        if not python.exists():
            raise Absent(f"it is not installed: `python -m bench --contestant {self.name}` makes its environment")
        ask = "import importlib.metadata as m; print(m.version('litellm'))"
        told = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=False)
        if told.returncode:
            raise Absent("its environment is broken; remove " + str(_home()))
        return told.stdout.strip()

    def install(self) -> None:
        """Make its environment, if it is not there. Raises Absent."""
        if (_home() / "bin" / "litellm").exists():
            return
        for argv in (
            [sys.executable, "-m", "venv", str(_home())],
            [str(_home() / "bin" / "pip"), "install", "--quiet", "litellm[proxy]"],
        ):
            done = subprocess.run(argv, capture_output=True, text=True, check=False)
            if done.returncode:
                raise Absent(f"its environment could not be made: {done.stderr.strip().splitlines()[-1:]}")

    @contextmanager
    def start(self, place: Place) -> Iterator[Contestant]:
        config = _CONFIG.format(provider_port=place.provider_port)
        with self.serving(config, place.folder, place.cores.gateway) as it:
            yield it

    @contextmanager
    def serving(
        self, config: str, folder: Path, cores: frozenset[int], environment: Mapping[str, str] | None = None
    ) -> Iterator[Contestant]:
        """Run it with a config until the block ends."""
        port = free_port()
        path = folder / "litellm.yaml"
        path.write_text(config)
        argv = [str(_home() / "bin" / "litellm"), "--config", str(path)]
        argv += ["--host", "127.0.0.1", "--port", str(port), "--num_workers", "1"]
        # It does not start without one.
        key = f"sk-{secrets.token_hex(32)}"
        environment = {**_ENVIRONMENT, **(environment or {}), "LITELLM_MASTER_KEY": key}
        with running(self.name, argv, cores=cores, environment=environment, folder=folder) as it:
            it.listen()
            wait_for_port(port, it, _READY_S)
            yield Contestant(self.name, "127.0.0.1", port, key=key, pids=tree(it.pid))


def _home() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "hoptrio-bench" / "litellm"
