"""A certificate and its key: the two PEM files that a listener shows, and what is wrong with them."""

from __future__ import annotations

import os
import ssl
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["BadPair", "load_pair"]


class BadPair(OSError):
    """The files cannot be used; `key` is the config's key of the one to mend. `reason` quotes neither."""

    def __init__(self, key: str, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.key = key
        self.reason = reason


class _Encrypted(Exception):
    """A password is needed: nobody is there to type it, and OpenSSL would ask at the terminal."""


def load_pair(context: ssl.SSLContext, certificate: str, key: str, files: Mapping[str, bytes]) -> None:
    """Load a certificate chain and its key into `context`, as `files` has them under these paths. Raises BadPair; the
    context is of no use then."""
    paths = {"tls_certificate": certificate, "tls_key": key}
    if wrong := _load(context, files[certificate], files[key]):
        name, reason = wrong
        raise BadPair(name, paths[name], reason)


def _load(context: ssl.SSLContext, certificate: bytes, key: bytes) -> tuple[str, str] | None:
    """What is wrong: the config's key of the one to mend, and the reason."""
    try:
        with _file(certificate) as chain, _file(key) as private:
            try:
                context.load_cert_chain(chain, private, password=_refuse_password)
            except ssl.SSLError as error:
                return _told(chain, error)
    except _Encrypted:
        return "tls_key", "the key is encrypted: write it without a password"
    except OSError as error:
        return "tls_certificate", f"cannot be used: {error.strerror or type(error).__name__}"
    return None


@contextmanager
def _file(content: bytes) -> Iterator[str]:
    """A path with this content, for one call: Python hands OpenSSL nothing else. It is in memory where the system can
    do that, and otherwise on a disk, for this user alone."""
    if hasattr(os, "memfd_create") and os.path.exists("/proc/self/fd"):
        with os.fdopen(os.memfd_create("hoptrio-tls"), "wb") as file:
            file.write(content)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
    else:
        with tempfile.NamedTemporaryFile() as named:
            named.write(content)
            named.flush()
            yield named.name


def _refuse_password() -> str:
    raise _Encrypted


def _told(chain: str, error: ssl.SSLError) -> tuple[str, str]:
    """OpenSSL says what is wrong, but not always with which of the two."""
    if error.reason == "KEY_VALUES_MISMATCH":
        return "tls_key", "this is not the key of tls_certificate"
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(chain)
    except ssl.SSLError:
        return "tls_certificate", "holds no certificate in PEM"
    if error.reason in (None, "PEM_LIB"):
        return "tls_key", "holds no private key in PEM"
    return "tls_certificate", f"cannot be used: {error.reason.lower().replace('_', ' ')}"
