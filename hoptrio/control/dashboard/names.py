"""Names of accounts, for pages that show rows of many. A name never changes, so one that was read is not read again."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.requests import Request

    from hoptrio.control.office import Office

__all__ = ["account_id_of", "names_of"]

KEPT_MAX = 10_000


async def names_of(request: Request, account_ids: Iterable[str]) -> dict[str, str]:
    """The name of each account by its id; what is no account is missing. Raises LedgerUnavailable."""
    state = request.app.state
    known: dict[str, str] = getattr(state, "account_names", {})
    wanted = set(account_ids)
    if missing := wanted - known.keys():
        if len(known) > KEPT_MAX:
            known = {}
        for account_id in missing:
            account = await state.office.ledger.account(account_id)
            if account is not None:
                known[account_id] = account.name
        state.account_names = known
    return {account_id: known[account_id] for account_id in wanted if account_id in known}


async def account_id_of(office: Office, given: str) -> str | None:
    """The id of the account that somebody typed, by its name or id; None for nothing. Raises ValueError."""
    if not given:
        return None
    account = await office.ledger.account(given)
    if account is None:
        raise ValueError(f"there is no account {given}")
    return account.id
