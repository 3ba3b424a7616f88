"""What the control plane stands on: the ledger, the config in force, and what this machine knows of its channels."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hoptrio.admission.breaker import Breakers
    from hoptrio.admission.certificates import Certificates
    from hoptrio.config import Config
    from hoptrio.ledger.ledger import Ledger

__all__ = ["Office"]


class Office:
    """One for a process; a reload replaces `config`."""

    def __init__(self, *, ledger: Ledger, config: Config, breakers: Breakers, certificates: Certificates) -> None:
        self.ledger = ledger
        self.config = config
        self.breakers = breakers
        self.certificates = certificates
        #: Where the data plane listens; empty until it does.
        self.data_urls: tuple[str, ...] = ()

    @property
    def currency(self) -> str:
        """Of all amounts."""
        return self.config.ledger.currency
