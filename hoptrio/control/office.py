"""What the control plane stands on: the ledger, the config in force, and what this machine knows of its channels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoptrio.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hoptrio.admission.breaker import Breakers
    from hoptrio.admission.certificates import Certificates
    from hoptrio.admission.pauses import Pauses
    from hoptrio.config import Config
    from hoptrio.control.figures import Figures
    from hoptrio.control.shapes import Certification
    from hoptrio.ledger.ledger import Ledger
    from hoptrio.ledger.model import Account

__all__ = ["Office"]


class Office:
    """One for a process, a gateway's or a command's. `config` is replaced by a reload.

    `certify` probes (channel, model), None for all, and tells what it found; the views are those of the process.
    """

    def __init__(
        self,
        *,
        ledger: Ledger,
        config: Config,
        breakers: Breakers,
        certificates: Certificates,
        pauses: Pauses,
        figures: Figures,
        certify: Callable[[str | None, str | None], Awaitable[list[Certification]]],
        health_known: bool = True,
    ) -> None:
        self.ledger = ledger
        self.config = config
        self.breakers = breakers
        self.certificates = certificates
        self.pauses = pauses
        self.figures = figures
        self.certify = certify
        #: `breakers` are those of a running server.
        self.health_known = health_known
        #: Where the data plane listens; empty until it does.
        self.data_urls: tuple[str, ...] = ()

    @property
    def currency(self) -> str:
        """Of all amounts."""
        return self.config.ledger.currency

    async def account(self, name_or_id: str) -> Account:
        """The account. Raises NotFound."""
        found = await self.ledger.account(name_or_id)
        if found is None:
            raise NotFound(f"no account {name_or_id}")
        return found

    async def account_names(self) -> dict[str, str]:
        """The name of every account by its id."""
        return {account.id: account.name for account in await self.ledger.accounts()}

    async def refresh(self) -> None:
        """Read again what other processes may have changed: certificates and pauses. Raises LedgerUnavailable."""
        await self.certificates.refresh()
        await self.pauses.refresh()
