"""A hold that takes long, or fails late: nothing has been said to the client until it stands."""

from __future__ import annotations

import trio

from hoptrio.ledger.store import StoreUnavailable
from tests.support.harness import gateway, settings
from tests.support.provider import sse
from tests.support.streams import CHAT

IMPATIENT = settings(contracts={"impatient": {"preset": "hoptrio", "keepalive_seconds": 0.5}})


class Locked:
    """The ledger's writes, which another process keeps waiting until `until`."""

    def __init__(self, ledger, until):
        self._apply = ledger._store.apply
        self._until = until

    def __call__(self, operations):
        if trio.current_time() < self._until:
            raise StoreUnavailable("locked", busy=True)
        return self._apply(operations)


async def test_a_hold_that_fails_late_is_a_503_however_short_the_keepalive(autojump_clock):
    async with gateway(sse(*CHAT.events), config=IMPATIENT, contract="impatient") as world:
        world.ledger._store.apply = Locked(world.ledger, trio.current_time() + 8)
        response = await world.call("chat")
        assert response.status == 503
        assert response.clean
        assert world.provider.seen == []


async def test_a_hold_that_comes_late_is_followed_by_the_whole_stream(autojump_clock):
    async with gateway(sse(*CHAT.events), config=IMPATIENT, contract="impatient") as world:
        world.ledger._store.apply = Locked(world.ledger, trio.current_time() + 3)
        response = await world.call("chat")
        assert response.status == 200
        assert response.data[-1] == b"[DONE]"
        assert (await world.record(response)).state == "captured"
