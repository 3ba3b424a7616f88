"""A batch is its operations one after another: each store in batches against the memory store one by one."""

from __future__ import annotations

import itertools
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from hoptrio.errors import HoptrioError
from hoptrio.ledger.memory import MemoryStore
from hoptrio.ledger.model import Account, ApiKey, EntryKind, Hold, RequestFilter, RequestRecord, Resolution
from hoptrio.ledger.operations import (
    CreateAccount,
    CreateKey,
    Move,
    Note,
    Operation,
    Ping,
    Purge,
    Release,
    Renew,
    RevokeKey,
    SetDisabled,
)
from hoptrio.ledger.postgres import PostgresStore
from hoptrio.ledger.sqlite import SqliteStore
from tests.support.postgres import empty_ledger

NAMES = ("a", "b", "c")
numbers = st.integers(0, 7)
names = st.sampled_from(NAMES)
amounts = st.integers(0, 400)


def record(number: int, name: str) -> RequestRecord:
    return RequestRecord(
        id=f"req_{number}", account_id=f"acct_{name}", key_id=f"key_{name}", created_at_ms=number, protocol="chat",
        model="m", contract="hoptrio", stream=True, state="running", provider_ids=(f"resp_{number}",),
    )  # fmt: skip


def hold(number: int, name: str, amount: int, supplier: str) -> Hold:
    share = 500_000_000 if supplier else 0
    return Hold(
        id=f"hold_{number}", request=replace(record(number, name), provider_ids=()), amount_nanos=amount, prices="{}",
        owner="o", supplier=supplier, revenue_share_nanos=share,
    )  # fmt: skip


#: Suppliers are accounts that exist, one that a batch may open, or none.
holds = st.builds(hold, numbers, names, amounts, st.sampled_from(["", "b", "c", "new"]))
operations: st.SearchStrategy[Operation] = st.one_of(
    holds,
    holds,
    st.builds(
        lambda number, name, amount: Resolution(
            hold_id=f"hold_{number}", capture_nanos=amount, request=record(number, name)
        ),
        numbers, names, st.none() | amounts,
    ),
    st.builds(lambda number: Release(f"hold_{number}", "orphaned"), numbers),
    st.builds(lambda number, name: Note(replace(record(100 + number, name), state="refused")), numbers, names),
    st.builds(
        lambda number, name: CreateAccount(id=f"acct_{name}", name=name, deposit_nanos=500, ref=f"first {number}"),
        numbers, names,
    ),
    st.builds(
        lambda name, streams, budget: CreateKey(
            id=f"key_{name}", secret_hash=name, account=name, max_streams=streams, budget_nanos=budget,
            budget_per="day" if budget is not None else None,
        ),
        names, st.none() | st.integers(0, 3), st.none() | amounts,
    ),
    st.builds(
        lambda number, name, amount: Move(
            ref=f"move {number}", account=name, kind=EntryKind.ADJUST, amount_nanos=amount, why="w"
        ),
        numbers, names, st.integers(-400, 400).filter(bool),
    ),
    st.builds(SetDisabled, names, st.booleans()),
    st.builds(lambda name: RevokeKey(f"key_{name}"), names),
    st.just(Renew("o")),
    st.just(Ping()),
)  # fmt: skip


def placed_once(history: list[Operation]) -> list[Operation]:
    """A hold is placed once, whatever becomes of it."""
    seen: set[str] = set()
    fresh = (not isinstance(each, Hold) or not (each.id in seen or seen.add(each.id)) for each in history)
    return list(itertools.compress(history, list(fresh)))


FIRST = [
    Renew("o"),
    *(CreateAccount(id=f"acct_{name}", name=name, deposit_nanos=500, ref=f"opened {name}") for name in NAMES[:2]),
    CreateKey(id="key_a", secret_hash="a", account="a", max_streams=2),
    CreateKey(id="key_b", secret_hash="b", account="b", budget_nanos=300, budget_per="day"),
]


@contextmanager
def sqlite_store():
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(str(Path(folder) / "ledger.db"), lambda: 0)
        yield store
        store.close()


@contextmanager
def postgres_store():
    database = empty_ledger()
    database.set_clock(0)
    store = PostgresStore(database.url)
    yield store
    store.close()


@pytest.mark.parametrize("opened", [sqlite_store, postgres_store])
@settings(max_examples=30)
@given(history=st.lists(operations, max_size=40).map(placed_once), sizes=st.lists(st.integers(1, 20), min_size=1))
def test_a_batch_is_its_operations_one_after_another(opened, history, sizes):
    memory = MemoryStore(lambda: 0)
    expected = [memory.apply([operation])[0] for operation in FIRST + history]
    with opened() as store:
        answers, rest = store.apply(FIRST), iter(history)
        for size in itertools.cycle(sizes):
            if not (batch := list(itertools.islice(rest, size))):
                break
            answers += store.apply(batch)
        alike([plain(answer) for answer in answers], [plain(answer) for answer in expected])
        alike(books_of(store), books_of(memory))
        alike(purged(store), purged(memory))
        alike(books_of(store), books_of(memory))


def alike(found, expected):
    """Name the first thing that differs: pytest's own account of two long lists takes minutes."""
    for one, other in itertools.zip_longest(found, expected):
        if one != other:
            pytest.fail(f"{one}\ninstead of\n{other}", pytrace=False)


def purged(store):
    return store.apply([Ping(), Purge(5, 3), Renew("o")])


def plain(answer):
    """An answer without what a store chooses: the id of an account that a capture opened."""
    if isinstance(answer, HoptrioError):
        return type(answer), str(answer)
    if isinstance(answer, ApiKey):
        return replace(answer, account=plain(answer.account))
    return replace(answer, id="") if isinstance(answer, Account) else answer


def books_of(store):
    """Everything that a store says, as one list."""
    with store.books() as books:
        names_of = {account.id: account.name for account in books.accounts}
        entries = [replace(entry, account_id=names_of[entry.account_id], seq=0) for entry in books.entries]
        return [
            *(plain(account) for account in books.accounts),
            *sorted((key.id, key.revoked, key.account.name, *rest) for key, *rest in books.keys),
            *sorted(books.holds, key=lambda audited: audited.hold.id),
            *entries,
            *store.requests(RequestFilter(limit=1000)),
            *store.owners_of([f"resp_{number}" for number in range(8)]).items(),
            *sorted(hold.id for hold in store.open_holds(None)),
            *store.owners(),
        ]
