"""Random histories of all stores against a model of a few lines: the books always balance, nothing is taken twice."""

from __future__ import annotations

import itertools
import shutil
import tempfile

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule
from msgspec.structs import replace

from hoptrio.errors import HoptrioError
from hoptrio.ledger.audit import audit
from hoptrio.ledger.memory import MemoryStore
from hoptrio.ledger.model import EntryKind, Hold, Placed, RequestRecord, Resolution, Resolved
from hoptrio.ledger.operations import CreateAccount, CreateKey, Move, Release, Renew
from hoptrio.ledger.postgres import PostgresStore
from hoptrio.ledger.sqlite import SqliteStore
from tests.support.postgres import empty_ledger

NAMES = ("a", "b")
amounts = st.integers(0, 500)


class History(RuleBasedStateMachine):
    """Accounts a and b, each with a key; b is also the supplier of half of a's holds."""

    holds = Bundle("holds")

    @initialize()
    def open(self):
        self.folder = tempfile.mkdtemp()
        database = empty_ledger()
        database.set_clock(0)
        self.stores = [
            MemoryStore(lambda: 0),
            SqliteStore(f"{self.folder}/ledger.db", lambda: 0),
            PostgresStore(database.url),
        ]
        self.numbers = itertools.count()
        self.balance, self.held = dict.fromkeys(NAMES, 1000), dict.fromkeys(NAMES, 0)
        self.open_holds: dict[str, tuple[str, int, bool]] = {}
        self.swept: dict[str, tuple[str, int, bool]] = {}
        self.all(Renew("o"))
        for name in NAMES:
            self.all(CreateAccount(id=f"acct_{name}", name=name, deposit_nanos=1000, ref=f"first {name}"))
            self.all(CreateKey(id=f"key_{name}", secret_hash=name, account=name))

    def all(self, *operations):
        """Apply to all stores; the first answer. They must be alike."""
        first, *others = [store.apply(operations) for store in self.stores]
        for answers in others:
            assert [_plain(answer) for answer in answers] == [_plain(answer) for answer in first]
        return first[0]

    @rule(target=holds, name=st.sampled_from(NAMES), amount=amounts, shared=st.booleans())
    def place(self, name, amount, shared):
        number = next(self.numbers)
        request = RequestRecord(
            id=f"req_{number}", account_id=f"acct_{name}", key_id=f"key_{name}", created_at_ms=0, protocol="chat",
            model="m", contract="hoptrio", stream=True, state="running",
        )  # fmt: skip
        hold = Hold(id=f"hold_{number}", request=request, amount_nanos=amount, prices="", owner="o")
        if shared:
            hold = replace(hold, supplier="b", revenue_share_nanos=500_000_000)
        placed = isinstance(self.all(hold), Placed)
        assert placed == (amount <= self.balance[name] - self.held[name])
        if not placed:
            return multiple()
        self.held[name] += amount
        self.open_holds[hold.id] = (name, amount, shared)
        return hold

    @rule(hold=holds, amount=amounts)
    def capture(self, hold, amount):
        answer = self.all(Resolution(hold_id=hold.id, capture_nanos=amount, request=hold.request))
        if hold.id in self.open_holds:
            name, held, shared = self.open_holds.pop(hold.id)
            self.held[name] -= held
            self.take(name, min(amount, held), shared, answer)
        elif hold.id in self.swept:
            name, held, shared = self.swept.pop(hold.id)
            self.take(name, min(amount, held, self.balance[name] - self.held[name]), shared, answer)
        else:
            assert not answer.first

    def take(self, name, charge, shared, answer):
        assert answer == Resolved(True, charge, answer.flags)
        self.balance[name] -= charge
        if shared:
            self.balance["b"] += charge // 2

    @rule(hold=holds)
    def release(self, hold):
        answer = self.all(Resolution(hold_id=hold.id, capture_nanos=None, request=hold.request))
        assert answer.first == (hold.id in self.open_holds)
        if answer.first:
            name, held, _ = self.open_holds.pop(hold.id)
            self.held[name] -= held

    @rule(hold=consumes(holds))
    def sweep(self, hold):
        self.sweep_and_keep(hold)

    @rule(target=holds, hold=consumes(holds))
    def sweep_and_keep(self, hold):
        answer = self.all(Release(hold.id, "orphaned"))
        assert answer.first == (hold.id in self.open_holds)
        if answer.first:
            self.swept[hold.id] = self.open_holds.pop(hold.id)
            self.held[self.swept[hold.id][0]] -= self.swept[hold.id][1]
        return hold

    @rule(name=st.sampled_from(NAMES), amount=st.integers(-800, 800).filter(bool))
    def adjust(self, name, amount):
        move = Move(ref=f"{next(self.numbers)}", account=name, kind=EntryKind.ADJUST, amount_nanos=amount, why="w")
        refused = isinstance(self.all(move), HoptrioError)
        assert refused == (self.balance[name] - self.held[name] + amount < 0)
        if not refused:
            self.balance[name] += amount
        self.all(move)  # Repeated with the same reference it does nothing more.

    @invariant()
    def case_77_the_books_balance_and_no_balance_was_ever_negative(self):
        for store in self.stores:
            for name in NAMES:
                account = store.account(name)
                assert (account.balance_nanos, account.held_nanos) == (self.balance[name], self.held[name])
                assert 0 <= account.held_nanos <= account.balance_nanos
            with store.books() as books:
                assert audit(books).violations == ()

    def teardown(self):
        for store in self.stores:
            store.close()
        shutil.rmtree(self.folder)


def _plain(answer):
    return (type(answer), str(answer)) if isinstance(answer, HoptrioError) else answer


test_case_77_random_histories = History.TestCase
test_case_77_random_histories.settings = settings(max_examples=12, stateful_step_count=20, deadline=None)
