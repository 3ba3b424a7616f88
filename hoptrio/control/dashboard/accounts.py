"""Accounts and keys: balances, deposits, new keys, and the end of old ones. A secret is on one page, once."""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from hoptrio import errors
from hoptrio.control.answers import page
from hoptrio.control.dashboard.forms import at_ms, count, names, note, text
from hoptrio.control.reading import to_come
from hoptrio.money import parse_nanos

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from starlette.requests import Request

    from hoptrio.control.office import Office
    from hoptrio.ledger.model import Account

__all__ = ["ROUTES"]

PAGE_ROWS = 100
ENTRIES_SHOWN = 20


async def show_all(request: Request) -> Response:
    """Every account."""
    return await _all(request)


async def create(request: Request) -> Response:
    """A new account, or the form again with what is wrong."""
    form = request.state.form
    try:
        deposit_nanos = parse_nanos(text(form, "deposit") or "0")
        account = await _office(request).ledger.create_account(text(form, "name"), deposit_nanos)
    except (ValueError, errors.Conflict) as error:
        return await _all(request, problem=str(error), given=form)
    return _to(account.id)


async def show(request: Request) -> Response:
    """One account."""
    return await _one(request)


async def deposit(request: Request) -> Response:
    """Pay in."""
    form = request.state.form

    async def change(account: Account) -> None:
        # A button that was pressed twice pays once: the form has the deposit's own id.
        ref = note(form, "ref") or None
        amount_nanos, why = parse_nanos(text(form, "amount")), note(form, "why")
        await _office(request).ledger.deposit(account.id, amount_nanos, why, ref=ref)

    return await _changed(request, change)


async def disable(request: Request) -> Response:
    """Refuse new requests of the account."""
    return await _set_disabled(request, disabled=True)


async def enable(request: Request) -> Response:
    """Take requests of the account again."""
    return await _set_disabled(request, disabled=False)


async def _set_disabled(request: Request, *, disabled: bool) -> Response:
    async def change(account: Account) -> None:
        why = note(request.state.form, "why")
        await _office(request).ledger.disable(account.id, disabled=disabled, why=why)

    return await _changed(request, change)


async def create_key(request: Request) -> Response:
    """A new key. Its secret is on the page that answers, and on no other: that page loaded again makes no second key,
    since the form has the id of the one it makes."""
    form, office = request.state.form, _office(request)
    account = await _account(request)
    ref = text(form, "ref")
    key_id = f"key_{ref}" if re.fullmatch("[0-9a-f]{16}", ref) else None
    try:
        key, secret = await office.ledger.create_key(account.id, key_id=key_id, **_limits(office, form))
    except ValueError as error:
        return await _one(request, problem=str(error), form_open=True)
    except errors.Conflict:
        return await _one(request, problem=f"The key {key_id} was created before. Its secret was shown then.")
    return await _one(request, secret=secret, secret_of=key.id)


def _limits(office: Office, form: Mapping[str, str]) -> dict[str, Any]:
    """The limits of a key. Raises ValueError."""
    budget, contract = text(form, "budget"), text(form, "contract")
    if contract and contract not in office.config.contracts:
        raise ValueError(f"there is no contract {contract}")
    models = names(form, "models")
    if unknown := [name for name in models if name not in office.config.catalogue.models]:
        raise ValueError(f"there is no model {unknown[0]}")
    return {
        "contract": contract or None,
        "models": models,
        "max_streams": count(form, "max_streams", "Streams at once"),
        "rpm": count(form, "rpm", "Requests a minute"),
        "budget_nanos": parse_nanos(budget) if budget else None,
        "budget_per": text(form, "budget_per") if budget else None,
        "expires_at_ms": to_come(at_ms(form, "expires", "Expires"), office.ledger.now_ms()),
    }


async def revoke_key(request: Request) -> Response:
    """Refuse a key from now on."""
    key = await _office(request).ledger.revoke_key(request.path_params["id"])
    return _to(key.account.id)


async def _changed(request: Request, change: Callable[[Account], Awaitable[None]]) -> Response:
    """Make a change, then show the account; or say what is wrong."""
    account = await _account(request)
    try:
        await change(account)
    except (ValueError, errors.InsufficientBalance, errors.Conflict) as error:
        return await _one(request, problem=str(error))
    return _to(account.id)


async def _all(request: Request, *, problem: str = "", given: Mapping[str, str] | None = None) -> Response:
    """Those whose name contains what was asked for, a page of them behind the name `after`."""
    asked, after = text(request.query_params, "name"), request.query_params.get("after", "")
    found = [
        account
        for account in await _office(request).ledger.accounts()
        if asked.casefold() in account.name.casefold() and account.name > after
    ]
    further = urlencode({"name": asked, "after": found[PAGE_ROWS - 1].name}) if len(found) > PAGE_ROWS else ""
    return page(
        request,
        "accounts.html",
        status=422 if problem else 200,
        accounts=found[:PAGE_ROWS],
        asked=asked,
        first="/accounts" if after else "",
        further=f"/accounts?{further}" if further else "",
        currency=_office(request).currency,
        problem=problem,
        given={name: text(given, name) for name in ("name", "deposit")},
    )


async def _one(
    request: Request, *, problem: str = "", secret: str = "", secret_of: str = "", form_open: bool = False
) -> Response:
    office = _office(request)
    account = await _account(request)
    return page(
        request,
        "account.html",
        status=422 if problem else 200,
        account=account,
        # Those that work stand first.
        keys=sorted(await office.ledger.keys(account.id), key=lambda key: key.revoked),
        entries=await office.ledger.last_entries(account.id, limit=ENTRIES_SHOWN),
        # All entries are this account's.
        accounts=None,
        contracts=sorted(office.config.contracts),
        currency=office.currency,
        now_ms=office.ledger.now_ms(),
        problem=problem,
        secret=secret,
        secret_of=secret_of,
        form_open=form_open,
        ref=secrets.token_hex(16),
        key_ref=secrets.token_hex(8),
    )


async def _account(request: Request) -> Account:
    account = await _office(request).ledger.account(request.path_params["id"])
    if account is None:
        raise errors.NotFound("There is no such account.")
    return account


def _office(request: Request) -> Office:
    office: Office = request.app.state.office
    return office


def _to(account_id: str) -> Response:
    return RedirectResponse(f"/accounts/{account_id}", status_code=303)


ROUTES = (
    Route("/accounts", show_all, methods=["GET"]),
    Route("/accounts", create, methods=["POST"]),
    Route("/accounts/{id}", show, methods=["GET"]),
    Route("/accounts/{id}/deposit", deposit, methods=["POST"]),
    Route("/accounts/{id}/disable", disable, methods=["POST"]),
    Route("/accounts/{id}/enable", enable, methods=["POST"]),
    Route("/accounts/{id}/keys", create_key, methods=["POST"]),
    Route("/keys/{id}/revoke", revoke_key, methods=["POST"]),
)
