"""kill -9 in the middle of commits: what was confirmed is there, the rest is resolved, and the books balance."""

from __future__ import annotations

import subprocess
import sys

import pytest

from hoptrio.ledger.ledger import open_ledger
from hoptrio.ledger.model import HoldState
from hoptrio.ledger.owner import this_process
from hoptrio.ledger.recover import recover

#: Opens the ledger and runs streams until it is killed; prints each id when it is confirmed.
GATEWAY = """
import itertools, sys, trio
from hoptrio.ledger.ledger import open_ledger
from hoptrio.ledger.model import Hold, RequestRecord, Resolution
from hoptrio.ledger.owner import this_process

async def stream(ledger, key, numbers):
    while True:
        number = next(numbers)
        request = RequestRecord(
            id=f"req_{number:06d}", account_id=key.account.id, key_id=key.id, created_at_ms=number, protocol="chat",
            model="m", contract="hoptrio", stream=True, state="running",
        )
        hold = Hold(id=f"hold_{number:06d}", request=request, amount_nanos=100, prices="", owner=ledger.owner,
                    supplier="maker", revenue_share_nanos=500_000_000)
        await ledger.place(hold)
        print("placed", hold.id, flush=True)
        await ledger.settle(Resolution(hold_id=hold.id, capture_nanos=number % 100, request=request))
        print("settled", hold.id, flush=True)

async def main(url, secret):
    async with open_ledger(url, owner=this_process()) as ledger, trio.open_nursery() as nursery:
        numbers = itertools.count(1)
        for _ in range(20):
            nursery.start_soon(stream, ledger, await ledger.find_key(secret), numbers)

trio.run(main, sys.argv[1], sys.argv[2])
"""


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    """A ledger on a disk that keeps what it confirms."""
    if request.param == "postgres":
        return request.getfixturevalue("durable_server").ledger().url
    return f"sqlite:///{tmp_path}/ledger.db"


@pytest.mark.parametrize("lines", [1, 37, 150, 400])
async def test_case_71_kill_during_commits_then_recover(url, lines):
    async with open_ledger(url) as ledger:
        await ledger.create_account("acme", 10**9)
        _, secret = await ledger.create_key("acme")
    told = _run_and_kill(url, secret, lines)
    async with open_ledger(url, owner=this_process()) as ledger:
        await _check_confirmed(ledger, told)
        swept = len(await ledger.open_holds())
        assert await recover(ledger) == swept
        report = await ledger.audit()
        assert report.violations == ()
        assert (report.open_holds, report.held_nanos) == (0, 0)
        assert report.balance_nanos == 10**9 - report.platform_nanos


def _run_and_kill(url, secret, lines):
    """Kill the gateway after it confirmed so many things; all that it confirmed."""
    command = [sys.executable, "-c", GATEWAY, url, secret]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as gateway:
        told = [gateway.stdout.readline().split() for _ in range(lines)]
        gateway.kill()
        rest = gateway.stdout.read().splitlines()
    return told + [line.split() for line in rest if line.count("hold_") == 1 and len(line.split()[-1]) == 11]


async def _check_confirmed(ledger, told):
    for what, hold_id in told:
        hold = await ledger.hold(hold_id)
        assert hold is not None
        if what == "settled":
            assert (hold.state, hold.charge_nanos) == (HoldState.CAPTURED, int(hold_id[-6:]) % 100)
