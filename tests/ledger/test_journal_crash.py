"""kill -9 of a process that settles through a journal on a real disk: what it confirmed is there at the next start."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from hoptrio.ledger import journal
from hoptrio.ledger.ledger import open_ledger
from hoptrio.ledger.model import HoldState
from hoptrio.ledger.owner import this_process
from hoptrio.ledger.recover import recover

#: Runs streams until it is killed, and prints what is confirmed. With "away" the store is gone once it has 20 holds,
#: so that all it settles stays in the journal.
GATEWAY = """
import itertools, structlog, sys, trio
from hoptrio import limits
from hoptrio.ledger.ledger import open_ledger
from hoptrio.ledger.model import Hold, RequestRecord, Resolution
from hoptrio.ledger.owner import this_process
from hoptrio.ledger.sqlite import SqliteStore
from hoptrio.ledger.store import StoreUnavailable

async def stream(ledger, key, numbers, door):
    while not door.away:
        number = next(numbers)
        request = RequestRecord(
            id=f"req_{number:06d}", account_id=key.account.id, key_id=key.id, created_at_ms=number, protocol="chat",
            model="m", contract="hoptrio", stream=True, state="running",
        )
        hold = Hold(id=f"hold_{number:06d}", request=request, amount_nanos=100, prices="", owner=ledger.owner)
        await ledger.place(hold)
        print("placed", hold.id, flush=True)
        await door.passed()
        await ledger.settle(Resolution(hold_id=hold.id, capture_nanos=number % 100, request=request))
        print("settled", hold.id, flush=True)

class Door:
    def __init__(self, shuts):
        self.shuts, self.away, self.count, self.all = shuts, False, 0, trio.Event()

    async def passed(self):
        self.count += 1
        if self.shuts and self.count == 20:
            SqliteStore.apply = self.refuse
            self.away = True
            self.all.set()
        if self.shuts:
            await self.all.wait()

    def refuse(self, *_):
        raise StoreUnavailable("down")

async def main(url, folder, secret, way):
    limits.JOURNAL_RECLAIM_BYTES = 4096
    door = Door(way == "away")
    async with open_ledger(url, owner=this_process(), journal=folder) as ledger, trio.open_nursery() as nursery:
        numbers = itertools.count(1)
        key = await ledger.find_key(secret)
        for _ in range(20):
            nursery.start_soon(stream, ledger, key, numbers, door)
        await trio.sleep_forever()

structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
trio.run(main, *sys.argv[1:])
"""


def run_and_kill(url, folder, secret, lines, way):
    """Kill it after it confirmed so many things; all that it confirmed."""
    command = [sys.executable, "-c", GATEWAY, url, str(folder), secret, way]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as gateway:
        told = [gateway.stdout.readline().split() for _ in range(lines)]
        gateway.kill()
        rest = gateway.stdout.read().splitlines()
    return told + [line.split() for line in rest if line.count("hold_") == 1 and len(line.split()[-1]) == 11]


@pytest.mark.parametrize(
    ("lines", "way"), [(3, "here"), (150, "here"), (400, "here"), (22, "away"), (30, "away"), (40, "away")]
)
async def test_case_71_what_was_confirmed_before_a_kill_is_captured_after_it(tmp_path, lines, way):
    url, folder = f"sqlite:///{tmp_path}/ledger.db", tmp_path / "journal"
    async with open_ledger(url) as ledger:
        await ledger.create_account("acme", 10**9)
        _, secret = await ledger.create_key("acme")
    told = run_and_kill(url, folder, secret, lines, way)
    [path] = folder.glob("*.journal")
    settled = {hold_id for what, hold_id in told if what == "settled"}
    if way == "away":
        assert settled <= {each.hold_id for each in journal.read(path.read_bytes()).settlements}
    async with open_ledger(url, owner=this_process(), journal=folder) as ledger:
        await recover(ledger)
        for hold_id in settled:
            hold = await ledger.hold(hold_id)
            assert (hold.state, hold.charge_nanos, hold.late) == (HoldState.CAPTURED, int(hold_id[-6:]) % 100, False)
        report = await ledger.audit()
        assert (report.violations, report.open_holds) == ((), 0)
        assert settled or lines == 3
        assert not path.exists()


async def test_a_journal_cut_at_any_byte_is_applied_as_far_as_it_was_whole(tmp_path, make):
    """The file of a process that died, cut as a torn write leaves it; each cut goes into a copy of one database."""
    folder, whole = tmp_path / "journal", tmp_path / "whole.db"
    async with open_ledger(f"sqlite:///{whole}", owner="gateway") as ledger:
        await ledger.create_account("acme", 1000)
        key, _ = await ledger.create_key("acme")
        holds = [make.hold(key, 100) for _ in range(2)]
        for hold in holds:
            await ledger.place(hold)
    frames = [journal.as_record(make.capture(hold, 20)) for hold in holds]
    data = journal.header("dead") + b"".join(frames)
    for size in range(0, len(data) + 1, 23):
        shutil.copy(whole, tmp_path / "ledger.db")
        folder.mkdir(exist_ok=True)
        (folder / "dead.journal").write_bytes(data[:size])
        async with open_ledger(f"sqlite:///{tmp_path}/ledger.db", owner="next", journal=folder) as ledger:
            await ledger.adopt()
            applied = sum(size >= len(data) - sum(map(len, frames[i + 1 :])) for i in range(2))
            assert (await ledger.account("acme")).balance_nanos == 1000 - 20 * applied
        assert list(folder.iterdir()) == [], "nothing damaged, nothing left"
