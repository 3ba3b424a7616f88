"""Statements: entries or requests as CSV or JSON, in columns that stay as they are, a page in memory at a time.

New columns are added at the end. Amounts are decimal strings in the ledger's currency, times UTC; what is unknown is
empty in CSV and null in JSON. A file appears whole or not at all.
"""

from __future__ import annotations

import csv
import json
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from hoptrio.ledger.report import entry_report, operator_report

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence
    from pathlib import Path

    from hoptrio.ledger.ledger import Ledger

__all__ = ["LAYOUTS", "rows_of", "write"]

_USAGE = ("input_tokens", "cached_input_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens")
#: What is exported, and the order of its columns in CSV.
LAYOUTS: dict[str, tuple[str, ...]] = {
    "entries": ("seq", "at", "account", "kind", "amount", "returned", "uncollected", "currency", "hold", "why"),
    "requests": (
        *(
            "id",
            "created_at",
            "account",
            "key",
            "protocol",
            "model",
            "channel",
            "contract",
            "stream",
            "state",
            "reason",
        ),
        *("evidence", *_USAGE, "hold", "charge", "currency", "flags", "attempts", "client_request_id"),
    ),
}


async def rows_of(
    ledger: Ledger, what: str, account_id: str | None, since_ms: int, until_ms: int, currency: str
) -> AsyncIterator[dict[str, Any]]:
    """Each as ``account show --entries`` and ``request show`` have it, with the account's name and the currency."""
    names = {account.id: account.name for account in await ledger.accounts()}
    if what == "requests":
        async for record in ledger.all_requests(account_id, since_ms=since_ms, until_ms=until_ms):
            yield operator_report(record, currency, names.get(record.account_id, record.account_id))
        return
    async for entry in ledger.all_entries(account_id, since_ms=since_ms, until_ms=until_ms):
        # An account that was opened since is told by its id.
        yield {**entry_report(entry), "account": names.get(entry.account_id, entry.account_id), "currency": currency}


async def write(rows: AsyncIterator[dict[str, Any]], columns: Sequence[str], form: str, file: Path | None) -> int:
    """Write all `rows` as "csv" or "json" to `file`, or to the output; how many there were."""
    with _opened(file) as target:
        if form == "csv":
            return await _write_csv(rows, columns, target)
        return await _write_json(rows, target)


@contextmanager
def _opened(file: Path | None) -> Iterator[TextIO]:
    if file is None:
        yield sys.stdout
        sys.stdout.flush()
        return
    file = file.resolve()
    if file.exists() and not file.is_file():
        # A pipe or a device is written to; taking its place would take it away.
        with file.open("w", encoding="utf-8", newline="") as target:
            yield target
        return
    partial = file.with_name(f"{file.name}.partial")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as target:
            yield target
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)


async def _write_csv(rows: AsyncIterator[dict[str, Any]], columns: Sequence[str], target: TextIO) -> int:
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow(columns)
    count = 0
    async for row in rows:
        count += 1
        flat = {**row, **(row.get("usage") or {})}
        writer.writerow([_cell(flat.get(column)) for column in columns])
    return count


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return " ".join(value)
    return "" if value is None else str(value)


async def _write_json(rows: AsyncIterator[dict[str, Any]], target: TextIO) -> int:
    """One array, a row in each line."""
    count = 0
    async for row in rows:
        target.write((",\n" if count else "[\n") + json.dumps(row, ensure_ascii=False))
        count += 1
    target.write("\n]\n" if count else "[]\n")
    return count
