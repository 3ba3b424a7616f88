"""TLS on our listeners: 1.2 and newer, Python's own choice of ciphers, and identities that a reload changes.

A new certificate is loaded into a context of its own, which takes the old one's place as a whole. It is the one that
was checked with the config: no file is read here. Connections that are open keep what they have.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from hoptrio.config.certificate import load_pair
from hoptrio.service.sockets import url_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hoptrio.config import Config, Control, Server

__all__ = ["Identities", "Identity"]


class Identity:
    """What the next connections of one listener are shown."""

    def __init__(self) -> None:
        #: None = the listener speaks without TLS.
        self.context: ssl.SSLContext | None = None

    def urls(self, addresses: Sequence[tuple[str, int]]) -> tuple[str, ...]:
        """Of a listener at these socket addresses."""
        return tuple(url_of(each, tls=self.context is not None) for each in addresses)


class Identities:
    """Those of both listeners."""

    def __init__(self, config: Config) -> None:
        """Raises BadPair."""
        self.server = Identity()
        self.control = Identity()
        self.take(config)

    def take(self, config: Config) -> None:
        """Show what this config has from now on. Raises BadPair, and goes on as before then."""
        server, control = _context(config.server, config.files), _context(config.control, config.files)
        self.server.context, self.control.context = server, control


def _context(table: Server | Control, files: Mapping[str, bytes]) -> ssl.SSLContext | None:
    """None where the table names no certificate. Raises BadPair."""
    if not table.tls_certificate:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    load_pair(context, table.tls_certificate, table.tls_key, files)
    return context
