"""The base line: a naive byte relay on trio.

``python -m bench.contestants.naive HOST:PORT`` prints the port it listens on.
"""

from __future__ import annotations

import sys

import trio


async def copy(source: trio.SocketStream, sink: trio.SocketStream) -> None:
    """Every byte, as it comes."""
    async for data in source:
        await sink.send_all(data)
    await sink.send_eof()


async def relay(client: trio.SocketStream, host: str, port: int) -> None:
    """One client connection, one provider connection."""
    provider = await trio.open_tcp_stream(host, port)
    async with client, provider, trio.open_nursery() as nursery:
        nursery.start_soon(copy, client, provider)
        await copy(provider, client)
        nursery.cancel_scope.cancel()


async def main(target: str) -> None:
    """Serve until killed."""
    host, _, port = target.rpartition(":")
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1", backlog=4096)

    async def handle(client: trio.SocketStream) -> None:
        try:
            await relay(client, host, int(port))
        except* (trio.BrokenResourceError, OSError):
            pass

    sys.stdout.write(f"{listeners[0].socket.getsockname()[1]}\n")
    sys.stdout.flush()
    await trio.serve_listeners(handle, listeners)


if __name__ == "__main__":
    trio.run(main, sys.argv[1])
