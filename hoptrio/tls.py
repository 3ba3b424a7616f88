"""TLS: the end of a connection's TLS stream, whichever side of the gateway it was on.

trio's stream keeps a method of its own for the handshake (``_handshook``, trio 0.35), which makes it a cycle with
OpenSSL's state in it. Only the cyclic collector would free that, and it looks after tens of thousands of new objects:
two workers with five requests a second grew by 48 and 75 MiB an hour. Once the cycle is cut, all of it goes with the
last reference.
"""

from __future__ import annotations

import trio

__all__ = ["cut"]


class _Over:
    """What stands for the handshake of a connection that is closed."""

    done = True

    async def ensure(self, *, checkpoint: bool) -> None:
        """It will not be shaken hands any more."""
        raise trio.ClosedResourceError


_OVER = _Over()


def cut(stream: object) -> None:
    """Of a TLS stream whose transport was closed. Any other stream has no such cycle, and is left as it is."""
    while isinstance(stream, trio.SSLStream):
        # Not by setattr, which it hands on to OpenSSL's object.
        vars(stream)["_handshook"] = _OVER
        stream = stream.transport_stream
