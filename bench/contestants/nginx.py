"""nginx: ``proxy_buffering off``, one worker, connections to the provider kept. The one on PATH."""

from __future__ import annotations

import re
import resource
import shutil
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bench.contestants.contestant import Absent, Contestant, Limits
from bench.counters import tree
from bench.dialogs import DIALOGS
from bench.process import free_port, running, wait_for_port

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.contestants.contestant import Place
    from bench.process import Running

__all__ = ["Nginx"]

_READY_S = 10.0
_FILES = 65_536
_CONFIG = """
daemon off;
worker_processes 1;
worker_rlimit_nofile {files};
pid {folder}/nginx.pid;
error_log {folder}/nginx.log warn;
events {{ worker_connections 32768; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    upstream provider {{ server 127.0.0.1:{provider_port}; keepalive 64; }}
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        location / {{
            proxy_pass http://provider;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffering off;
            proxy_read_timeout 600s;
        }}
    }}
}}
"""


class Nginx:
    """A relay in C."""

    name = "nginx"
    limits = Limits(streams=16_000)
    protocols = frozenset(DIALOGS)

    def version(self) -> str:
        told = subprocess.run([_program(), "-v"], capture_output=True, text=True, check=False)
        found = re.search(r"nginx/(\S+)", told.stderr)
        return found[1] if found else "of an unknown version"

    @contextmanager
    def start(self, place: Place) -> Iterator[Contestant]:
        program, port = _program(), free_port()
        path = place.folder / "nginx.conf"
        path.write_text(
            _CONFIG.format(files=_files(), folder=place.folder, port=port, provider_port=place.provider_port)
        )
        argv = [program, "-p", str(place.folder), "-e", str(place.folder / "nginx.log"), "-c", str(path)]
        with running(self.name, argv, cores=place.cores.gateway) as process:
            process.listen()
            wait_for_port(port, process, _READY_S)
            yield Contestant(self.name, "127.0.0.1", port, pids=_with_worker(process))


def _with_worker(process: Running) -> tuple[int, ...]:
    """The master listens before it has forked who serves, whose cost is what is measured. Raises RuntimeError."""
    until = time.monotonic() + _READY_S
    while process.alive and time.monotonic() < until:
        if len(found := tree(process.pid)) > 1:
            return found
        time.sleep(0.01)
    raise RuntimeError(f"nginx started no worker:\n{process.output}")


def _files() -> int:
    """More would need rights."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)


def _program() -> str:
    found = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    if found is None:
        raise Absent("no nginx on PATH (Debian: the package nginx)")
    return found
