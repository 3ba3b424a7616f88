"""Weather: what operators do, and what becomes of the database, at random times; each as one coroutine a happening."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoptrio.errors import HoptrioError

if TYPE_CHECKING:
    from random import Random

    from bench.world.world import World
    from hoptrio.ledger.ledger import Ledger


class Operators:
    """Commands beside the running gateways, over a ledger of their own."""

    def __init__(self, world: World, ledger: Ledger, rng: Random) -> None:
        self._world = world
        self._ledger = ledger
        self._rng = rng

    async def live(self) -> None:
        """Something is done every half a minute or so."""
        commands = [self._new_prices, self._deposit, self._revoke, self._disable]
        commands += [self._release] * 3
        while await self._world.still_wild(self._rng.expovariate(1 / 20)):
            try:
                await self._rng.choice(commands)()
            except HoptrioError as refused:
                self._world.say(f"operator: {type(refused).__name__}")

    async def _new_prices(self) -> None:
        self._world.new_prices()

    async def _deposit(self) -> None:
        await self._ledger.deposit(self._rng.choice(self._world.accounts), self._rng.choice((10**6, 10**7)))
        self._world.say("deposit")

    async def _revoke(self) -> None:
        if self._rng.random() < 0.2:
            await self._ledger.revoke_key(self._rng.choice(self._world.key_ids))
            self._world.say("key revoked")

    async def _disable(self) -> None:
        name = self._rng.choice(("small", "middle"))
        await self._ledger.disable(name)
        self._world.say("account disabled")
        await self._world.still_wild(5)
        await self._ledger.disable(name, disabled=False)

    async def _release(self) -> None:
        """A hold is released by hand, whatever its stream does; sometimes all that is free is paid back, so that a late
        capture finds less than it is due."""
        held = list(self._world.books.open.values())
        if not held:
            return
        row = self._rng.choice(held)
        self._world.release_by_hand(row.hold.id)
        await self._ledger.release(row.hold.id, "by hand")
        account = await self._ledger.account(row.account)
        if account is not None and account.available_nanos and self._rng.random() < 0.5:
            await self._ledger.adjust(row.account, -account.available_nanos, "paid back")
            await self._world.still_wild(self._rng.expovariate(1 / 10))
            await self._ledger.deposit(row.account, max(account.available_nanos, 10**6))


class Weather:
    """What is wrong with the database for everyone."""

    def __init__(self, world: World, rng: Random) -> None:
        self._world = world
        self._rng = rng

    async def live(self) -> None:
        """One trouble after the other, with some quiet between most of them."""
        troubles = [self._lock, self._lock, self._outage, self._outage, self._lost_answers]
        while await self._world.still_wild(self._rng.choice((2.0, 30.0, self._rng.expovariate(1 / 60)))):
            await self._rng.choice(troubles)()

    async def _lock(self) -> None:
        await self._ill("locked", self._rng.choice((0.3, 3.0, 7.0, 14.0)), locked=True)

    async def _outage(self) -> None:
        """A third of them are longer than a lease."""
        await self._ill("away", self._rng.choice((0.3, 0.3, 2.0, 4.0, 8.0, 14.0, 16.0, 22.0, 40.0)), down=True)

    async def _lost_answers(self) -> None:
        await self._ill("losing answers", self._rng.choice((0.3, 3.0, 12.0)), lost=self._rng.choice((0.3, 1.0)))

    async def _ill(
        self, what: str, length_s: float, *, locked: bool = False, down: bool = False, lost: float = 0
    ) -> None:
        length = "short" if length_s < 1 else "longer than a lease" if length_s > 15 else "some seconds"
        self._world.faults[f"database {what}, {length}"] += 1
        self._world.say(f"the database is {what} for {length_s}")
        self._world.disturb()
        self._world.database.fall_ill(locked=locked, down=down, lost=lost)
        await self._world.still_wild(length_s)
        self._world.database.recover()
        self._world.disturb()
