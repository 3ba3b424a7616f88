"""Outside: the network as clients see it, a proxy on loopback that refuses everybody and notes who was asked for."""

from __future__ import annotations

import socketserver
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Outside", "outside"]

_LINE_BYTES_MAX = 8192
_REFUSED = b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class Outside:
    """`hosts` are those asked for so far, sorted; `environment` sends programs this way, and to loopback directly."""

    def __init__(self, port: int) -> None:
        self.asked: set[str] = set()
        address = f"http://127.0.0.1:{port}"
        proxies = {
            name: address for upper in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY") for name in (upper, upper.lower())
        }
        self.environment = proxies | dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost")

    @property
    def hosts(self) -> list[str]:
        return sorted(self.asked)

    def forget(self) -> None:
        self.asked.clear()


@contextmanager
def outside() -> Iterator[Outside]:
    """Refuse everybody until the block ends."""

    class Refuse(socketserver.StreamRequestHandler):
        timeout = 10

        def handle(self) -> None:
            words = self.rfile.readline(_LINE_BYTES_MAX).split()
            if len(words) > 1:
                target = words[1].decode(errors="replace").rpartition("://")[2]
                view.asked.add(target.partition("/")[0].rpartition(":")[0] or target)
            self.wfile.write(_REFUSED)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Refuse) as server:
        server.daemon_threads = True
        view = Outside(server.server_address[1])
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield view
        finally:
            server.shutdown()
            thread.join(10)
