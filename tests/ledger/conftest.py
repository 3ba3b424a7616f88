"""The contract suite's engines, a wall clock that tests turn, and builders of holds and resolutions."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from hoptrio.ledger.ledger import Ledger, memory_ledger, open_ledger
from hoptrio.ledger.memory import MemoryStore
from hoptrio.ledger.model import ApiKey, Hold, RequestRecord, Resolution
from tests.support.postgres import Database, Server, empty_ledger

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

START_MS = 1_796_000_000_000


class Wall:
    """The clock as the ledger reads it; PostgreSQL has its own, which is set with it."""

    def __init__(self) -> None:
        self._at_ms = START_MS
        self.database: Database | None = None

    @property
    def at_ms(self) -> int:
        return self._at_ms

    @at_ms.setter
    def at_ms(self, at_ms: int) -> None:
        self._at_ms = at_ms
        if self.database is not None:
            self.database.set_clock(at_ms)

    def __call__(self) -> int:
        return self._at_ms


@dataclass
class Engine:
    """One database, opened as often as a test likes: each opening stands for a process."""

    kind: str
    url: str
    wall: Wall
    memory: MemoryStore

    def open(self, owner: str | None = "gateway") -> AbstractAsyncContextManager[Ledger]:
        if self.kind == "memory":
            return memory_ledger(self.memory, owner=owner, now_ms=self.wall)
        return open_ledger(self.url, owner=owner, now_ms=self.wall)


@dataclass
class Make:
    """Holds and resolutions with as little noise as possible."""

    numbers: Any = field(default_factory=lambda: itertools.count(1))

    def hold(self, key: ApiKey, amount_nanos: int, **changes: Any) -> Hold:
        number = next(self.numbers)
        request = RequestRecord(
            id=f"req_{number:04d}",
            account_id=key.account.id,
            key_id=key.id,
            created_at_ms=START_MS + number,
            protocol="chat",
            model=changes.pop("model", "m"),
            contract="hoptrio",
            stream=True,
            state="running",
            timeline=((0, "held"),),
        )
        hold = Hold(id=f"hold_{number:04d}", request=request, amount_nanos=amount_nanos, prices="{}", owner="gateway")
        return replace(hold, **changes)

    def capture(self, hold: Hold, amount_nanos: int, **changes: Any) -> Resolution:
        request = replace(
            hold.request, state="captured", evidence="sse_terminal", charge_nanos=amount_nanos, channel="c", **changes
        )
        return Resolution(hold_id=hold.id, capture_nanos=amount_nanos, request=request)

    def release(self, hold: Hold, reason: str = "truncated") -> Resolution:
        request = replace(hold.request, state="released", reason=reason, charge_nanos=0)
        return Resolution(hold_id=hold.id, capture_nanos=None, request=request)


@pytest.fixture
def make() -> Make:
    return Make()


@pytest.fixture
def wall() -> Wall:
    return Wall()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def engine(request: pytest.FixtureRequest, tmp_path: Path, wall: Wall) -> Engine:
    if request.param == "postgres":
        return request.getfixturevalue("postgres_engine")
    return Engine(request.param, f"sqlite:///{tmp_path}/ledger.db", wall, MemoryStore(wall))


@pytest.fixture
def database() -> Database:
    """An empty ledger on PostgreSQL."""
    return empty_ledger()


@pytest.fixture(scope="module")
def durable_server() -> Iterator[Server]:
    """A PostgreSQL server that may be killed, and keeps what it confirms."""
    server = Server()
    yield server
    server.close()


@pytest.fixture
def postgres_engine(database: Database, wall: Wall) -> Engine:
    wall.database = database
    database.set_clock(wall.at_ms)
    return Engine("postgres", database.url, wall, MemoryStore(wall))


@pytest.fixture
def sqlite_engine(tmp_path: Path, wall: Wall) -> Engine:
    return Engine("sqlite", f"sqlite:///{tmp_path}/ledger.db", wall, MemoryStore(wall))


@pytest.fixture
async def ledger(engine: Engine) -> Any:
    async with engine.open() as ledger:
        yield ledger


@pytest.fixture
async def key(ledger: Ledger) -> ApiKey:
    """A key without limits on an account with a balance of 1000."""
    await ledger.create_account("acme", 1000)
    made, _ = await ledger.create_key("acme")
    return made
