"""Claims: of the holds under one name one is placed, in every store, over all processes of a ledger."""

from __future__ import annotations

import trio

from hoptrio.contract import Reason
from hoptrio.ledger.model import Claim, Claimed, HoldRefusal, HoldRefused, Placed
from hoptrio.ledger.operations import Release
from hoptrio.limits import CLAIM_KEPT_MS

WINDOW_MS = 600_000
CLAIM = Claim("name", "digest", WINDOW_MS)


async def test_one_that_runs_stands_for_the_next(ledger, key, make):
    hold = make.hold(key, 300, claim=CLAIM)
    assert await ledger.claimed(CLAIM) is None
    assert await ledger.place(hold) == Placed(700)
    running = Claimed(hold.request.id, "digest", True)
    assert await ledger.place(make.hold(key, 300, claim=CLAIM)) == running
    assert await ledger.claimed(CLAIM) == running
    account = await ledger.account("acme")
    assert (account.held_nanos, len(await ledger.open_holds())) == (300, 1)


async def test_another_name_is_another_request(ledger, key, make):
    await ledger.place(make.hold(key, 300, claim=CLAIM))
    assert await ledger.place(make.hold(key, 300, claim=Claim("other", "digest", WINDOW_MS))) == Placed(400)
    assert await ledger.place(make.hold(key, 300)) == Placed(100)


async def test_one_that_was_captured_stands_for_others_for_the_window(ledger, key, make, wall):
    hold = make.hold(key, 300, claim=CLAIM)
    await ledger.place(hold)
    wall.at_ms += 1000
    await ledger.settle(make.capture(hold, 120))
    captured = Claimed(hold.request.id, "digest", False)
    wall.at_ms += WINDOW_MS - 1
    assert await ledger.place(make.hold(key, 300, claim=CLAIM)) == captured
    assert await ledger.claimed(CLAIM) == captured
    wall.at_ms += 1
    assert await ledger.claimed(CLAIM) is None
    assert await ledger.place(make.hold(key, 300, claim=CLAIM)) == Placed(580)


async def test_one_that_was_released_or_refused_stands_for_nobody(ledger, key, make):
    refused = await ledger.place(make.hold(key, 5000, claim=CLAIM))
    assert refused == HoldRefused(HoldRefusal.BALANCE, 1000)
    assert await ledger.claimed(CLAIM) is None
    released = make.hold(key, 300, claim=CLAIM)
    await ledger.place(released)
    await ledger.settle(make.release(released))
    assert await ledger.claimed(CLAIM) is None
    second = make.hold(key, 300, claim=Claim("name", "other digest", WINDOW_MS))
    assert await ledger.place(second) == Placed(700)
    assert await ledger.claimed(CLAIM) == Claimed(second.request.id, "other digest", True)


async def test_an_orphan_that_was_paid_late_stands_for_others(ledger, key, make):
    hold = make.hold(key, 300, claim=CLAIM)
    await ledger.place(hold)
    await ledger.release_all([Release(hold.id, Reason.ORPHANED.value)])
    assert await ledger.claimed(CLAIM) is None
    await ledger.settle(make.capture(hold, 120))
    assert await ledger.claimed(CLAIM) == Claimed(hold.request.id, "digest", False)


async def test_limits_and_balance_are_not_asked_of_the_next_but_its_key_is(ledger, make, key):
    limited, _ = await ledger.create_key("acme", rpm=1, max_streams=1)
    hold = make.hold(limited, 900, claim=CLAIM)
    await ledger.place(hold)
    assert await ledger.place(make.hold(limited, 900, claim=CLAIM)) == Claimed(hold.request.id, "digest", True)
    await ledger.revoke_key(limited.id)
    assert await ledger.place(make.hold(limited, 900, claim=CLAIM)) == HoldRefused(HoldRefusal.KEY_REVOKED)


async def test_fifty_at_once_over_two_processes_are_one(engine, key, ledger, make):
    answers = []
    async with engine.open("node-b") as other, trio.open_nursery() as nursery:

        async def place(at, owner):
            answers.append(await at.place(make.hold(key, 10, claim=CLAIM, owner=owner)))

        for _ in range(25):
            nursery.start_soon(place, ledger, "gateway")
            nursery.start_soon(place, other, "node-b")
    placed = [answer for answer in answers if isinstance(answer, Placed)]
    assert len(placed) == 1
    assert len({answer.request_id for answer in answers if isinstance(answer, Claimed)}) == 1
    assert (await ledger.account("acme")).held_nanos == 10
    assert (await ledger.audit()).ok


async def test_claims_are_forgotten_in_time_and_not_before(ledger, key, make, wall):
    hold = make.hold(key, 300, claim=CLAIM)
    await ledger.place(hold)
    wall.at_ms += CLAIM_KEPT_MS
    await ledger.renew()
    assert await ledger.claimed(CLAIM) is not None
    wall.at_ms += 1
    await ledger.renew()
    assert await ledger.claimed(CLAIM) is None
