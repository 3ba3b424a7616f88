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

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

START_MS = 1_796_000_000_000


@dataclass
class Wall:
    """The wall clock as the ledger reads it."""

    at_ms: int = START_MS

    def __call__(self) -> int:
        return self.at_ms


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


@pytest.fixture(params=["memory", "sqlite"])
def engine(request: pytest.FixtureRequest, tmp_path: Path, wall: Wall) -> Engine:
    return Engine(request.param, f"sqlite:///{tmp_path}/ledger.db", wall, MemoryStore(wall))


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
