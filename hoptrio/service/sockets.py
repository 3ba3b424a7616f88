"""Listening sockets that are opened before there is an event loop, and inherited by those that have one."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, NamedTuple

from hoptrio.limits import LISTEN_BACKLOG

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Listening", "inherit", "listen", "url_of"]


class Listening(NamedTuple):
    """The URLs of a process that is ready: of the data plane, and of the control plane if it is served."""

    data: tuple[str, ...]
    control: tuple[str, ...] = ()


def listen(host: str, port: int) -> list[socket.socket]:
    """A listening socket for each address of `host`. Raises OSError, which names the address."""
    sockets: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, address in found:
            opened = socket.socket(family, kind, protocol)
            sockets.append(opened)
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            opened.bind(address)
            opened.listen(LISTEN_BACKLOG)
    except OSError as error:
        for opened in sockets:
            opened.close()
        raise OSError(error.errno, error.strerror, f"{host}:{port}") from error
    return sockets


def inherit(numbers: Iterable[int]) -> list[socket.socket]:
    """Sockets that the process was started with; none that it starts gets them."""
    sockets = []
    for number in numbers:
        os.set_inheritable(number, False)
        sockets.append(socket.socket(fileno=number))
    return sockets


def url_of(sockname: tuple[str, int], *, tls: bool) -> str:
    """The URL of a listening address."""
    host, port = sockname[:2]
    return f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"
