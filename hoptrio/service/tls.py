"""TLS on our listeners: 1.2 and newer, Python's own choice of ciphers."""

from __future__ import annotations

import ssl

__all__ = ["server_context"]


def server_context(certificate: str, key: str) -> ssl.SSLContext | None:
    """A context for a certificate chain and key in PEM files; None where none is configured.

    Raises OSError (ssl.SSLError is one) for files that do not fit.
    """
    if not certificate:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    context.load_cert_chain(certificate, key)
    return context
