"""A certificate and its key: the two PEM files that a listener shows, and what is wrong with them."""

from __future__ import annotations

import ssl

__all__ = ["BadPair", "load_pair"]


class BadPair(OSError):
    """The files cannot be used; `key` is the config's key of the one to mend. `reason` quotes neither."""

    def __init__(self, key: str, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.key = key
        self.reason = reason


class _Encrypted(Exception):
    """A password is needed: nobody is there to type it, and OpenSSL would ask at the terminal."""


def load_pair(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Load a certificate chain and its key into `context`. Raises BadPair; the context is of no use then."""
    for name, path in (("tls_certificate", certificate), ("tls_key", key)):
        _check_readable(name, path)
    try:
        context.load_cert_chain(certificate, key, password=_refuse_password)
    except _Encrypted:
        raise BadPair("tls_key", key, "the key is encrypted: write it without a password") from None
    except ssl.SSLError as error:
        raise _told(certificate, key, error) from None


def _check_readable(name: str, path: str) -> None:
    try:
        with open(path, "rb"):
            pass
    except OSError as error:
        raise BadPair(name, path, f"cannot be read: {error.strerror or type(error).__name__}") from None


def _refuse_password() -> str:
    raise _Encrypted


def _told(certificate: str, key: str, error: ssl.SSLError) -> BadPair:
    """OpenSSL says what is wrong, but not always with which of the two."""
    if error.reason == "KEY_VALUES_MISMATCH":
        return BadPair("tls_key", key, "this is not the key of tls_certificate")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(certificate)
    except ssl.SSLError:
        return BadPair("tls_certificate", certificate, "holds no certificate in PEM")
    if error.reason in (None, "PEM_LIB"):
        return BadPair("tls_key", key, "holds no private key in PEM")
    return BadPair("tls_certificate", certificate, f"cannot be used: {error.reason.lower().replace('_', ' ')}")
