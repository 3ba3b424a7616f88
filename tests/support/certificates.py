"""A certificate authority of the test's own, and the two files that a listener is told of."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import trustme

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Certificates"]


class Certificates:
    """``chain.pem``, ``key.pem`` and ``ca.pem`` in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._authority = trustme.CA()
        self._authority.cert_pem.write_to_path(folder / "ca.pem")
        self.renew()

    def renew(self, name: str = "127.0.0.1") -> bytes:
        """Write another pair; its certificate in DER, as a handshake shows it."""
        issued = self._authority.issue_cert(name)
        issued.private_key_pem.write_to_path(self.folder / "key.pem")
        issued.cert_chain_pems[0].write_to_path(self.folder / "chain.pem")
        return self.der

    @property
    def der(self) -> bytes:
        """The certificate in the file."""
        return ssl.PEM_cert_to_DER_cert((self.folder / "chain.pem").read_text())

    @property
    def table(self) -> dict[str, str]:
        """What a table of the config says."""
        return {"tls_certificate": str(self.folder / "chain.pem"), "tls_key": str(self.folder / "key.pem")}

    def trusting(self) -> ssl.SSLContext:
        """A client's context that trusts the authority alone."""
        return ssl.create_default_context(cafile=self.folder / "ca.pem")
