"""The run: cases tried on a gateway, many streams at a time, with what the provider and the books saw of each.

A stream is over when its client has its end and the provider is done with; only then its record is asked for. A case's
verdict in a protocol is the worst of its streams'.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from decimal import Decimal
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

import msgspec
import trio

from hoptrio.conform.books import ACCOUNTS, Account, Books, judge, read_account
from hoptrio.conform.case import Charge, Trial
from hoptrio.conform.client import Unreachable, call
from hoptrio.conform.request import lookup, request
from hoptrio.conform.turns import NoTurns, turns
from hoptrio.conform.upstream import TAG
from hoptrio.conform.verdict import Finding, Verdict, departs, worst
from hoptrio.conform.wire import Ending, as_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hoptrio.conform.case import Case, Play
    from hoptrio.conform.settings import Settings
    from hoptrio.conform.target import Target
    from hoptrio.conform.upstream import Asked, Upstream
    from hoptrio.protocols.events import Protocol

__all__ = ["ACCOUNT", "STREAMS", "Row", "Runner"]

#: At a time.
STREAMS = 40
#: What stands in a row's place of the protocol where the case is about all of them.
ACCOUNT = "account"
#: Beyond what a conforming gateway needs.
_GRACE_S = 10.0
#: A provider's stream that its gateway is done with is over by then.
_OVER_S = 10.0
#: A client that left before the provider was asked may have been the reason that it never is.
_ASKED_S = 2.0
_SETTLED_S = 20.0
_LOOK_S = 0.1
_ASK_S = 10.0
_BALANCE_EVERY_S = 2.0


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one case in one protocol."""

    number: int
    protocol: str
    verdict: Verdict
    #: Of the money; None: nothing is asked of it.
    money: Verdict | None = None
    findings: tuple[Finding, ...] = ()


class _Found(msgspec.Struct, frozen=True):
    """What was found in one play: on the wire, and in the books."""

    wire: tuple[Finding, ...]
    money: tuple[Finding, ...]


class Runner:
    """Tries cases on `target`, whose provider is `upstream`."""

    def __init__(self, target: Target, upstream: Upstream, settings: Settings, *, streams: int = STREAMS) -> None:
        self._target = target
        self._upstream = upstream
        self._settings = settings
        self._places = trio.CapacityLimiter(streams)
        # Elsewhere in every run, so that no gateway answers from what it kept of another.
        self._numbers = count(secrets.randbits(31))
        self._records: list[dict[str, Any] | None] = []
        self._unknown = 0
        #: Whether the gateway shows its books.
        self._account: Account | None = None
        self._lowest = Decimal(0)

    async def attempt(self, protocol: Protocol, play: Play) -> Trial:
        """One stream, and nothing concluded. Raises Unreachable."""
        tag, script, asked = self._prepared(play)

        async def until_asked() -> None:
            while not asked:  # noqa: ASYNC110 - the gateway decides when
                await trio.sleep(_LOOK_S)

        data = request(self._target, protocol, f"{tag}\nsim: {script}", play.ask)
        limit_s, over = play.seconds + _GRACE_S, partial(_over, asked)
        wire = await call(self._target, data, play.manner, limit_s=limit_s, asked=until_asked, over=over)
        if wire.ending is Ending.LEFT:
            with trio.move_on_after(_ASKED_S):
                await until_asked()
        with trio.move_on_after(play.seconds + _OVER_S if wire.ending is Ending.LEFT else _OVER_S):
            await over()
        self._upstream.forget(tag)
        channel = play.ask.channel or protocol
        return Trial(protocol=protocol, channel=channel, settings=self._settings, wire=wire, asked=tuple(asked))

    async def attempt_turns(self, protocol: Protocol, play: Play) -> list[Trial]:
        """The turns of a play, one after the other on one connection. Raises NoTurns."""
        made = [self._prepared(play) for _ in play.turns]
        asks = [
            (self._target.model_for(channel), f"{tag}\nsim: {script}")
            for channel, (tag, script, _) in zip(play.turns, made, strict=True)
        ]
        wires = await turns(self._target, asks, limit_s=play.seconds + _GRACE_S)
        for tag, _, _ in made:
            self._upstream.forget(tag)
        if not any(asked for _, _, asked in made):
            # It took the connection and no turn.
            raise NoTurns
        return [
            Trial(protocol=protocol, channel=channel, settings=self._settings, wire=wire, asked=tuple(asked))
            for channel, wire, (_, _, asked) in zip(play.turns, wires, made, strict=True)
        ]

    def _prepared(self, play: Play) -> tuple[str, str, list[Asked]]:
        """A tag of its own, the script that goes with it, and what the provider will be asked by it."""
        tag = TAG % next(self._numbers)
        script = play.script if play.exact is None else self._upstream.play(tag, play.exact)
        return tag, script, self._upstream.asked.setdefault(tag, [])

    async def run(self, cases: Iterable[Case], protocols: Sequence[Protocol], tell: Callable[[Row], None]) -> list[Row]:
        """Try `cases` in `protocols`, those that come last behind the others; each row is told as it is there."""
        rows: list[Row] = []

        def add(row: Row) -> None:
            rows.append(row)
            tell(row)

        cases = list(cases)
        before = self._account = await self._look()
        async with trio.open_nursery() as nursery:
            if before is not None:
                self._lowest = before.balance
                nursery.start_soon(self._watch_balance)
            for last in (False, True):
                await self._run_all([case for case in cases if case.last is last], protocols, add)
            nursery.cancel_scope.cancel()
        for row in await self._accounts(before):
            add(row)
        return rows

    async def _run_all(self, cases: list[Case], protocols: Sequence[Protocol], add: Callable[[Row], None]) -> None:
        jobs = [(case, protocol) for case in cases for protocol in case.protocols if protocol in protocols]
        # The longest first, so that none is left for the end.
        jobs.sort(key=lambda job: -job[0].seconds(self._settings))
        async with trio.open_nursery() as nursery:
            for case, protocol in jobs:
                nursery.start_soon(self._case, case, protocol, add)

    async def _case(self, case: Case, protocol: Protocol, add: Callable[[Row], None]) -> None:
        plays = case.plays(protocol, self._settings)
        found: dict[str, _Found] = {}

        async def one(play: Play) -> None:
            async with self._places:
                found[play.label] = await self._judged(protocol, play)

        async with trio.open_nursery() as nursery:
            for play in plays:
                nursery.start_soon(one, play)
        add(self._row(case, protocol, {play.label: found[play.label] for play in plays}, plays))

    async def _judged(self, protocol: Protocol, play: Play) -> _Found:
        if (play.ask.channel is not None or play.turns) and not self._target.converts:
            return _absent("there is one model for all protocols")
        try:
            trials = await (self.attempt_turns(protocol, play) if play.turns else self._one(protocol, play))
        except Unreachable as error:
            return _Found((departs(str(error)),), ())
        except NoTurns:
            return _absent("no WebSocket mode")
        if play.ask.channel is not None and not _converted(trials[0]):
            return _absent("no conversion")
        wire = [found for trial in trials for check in play.checks if (found := check(trial)) is not None]
        money = [found for trial in trials if (found := await self._money(play, trial)) is not None]
        return _Found(tuple(dict.fromkeys(wire)), tuple(dict.fromkeys(money)))

    async def _one(self, protocol: Protocol, play: Play) -> list[Trial]:
        return [await self.attempt(protocol, play)]

    async def _money(self, play: Play, trial: Trial) -> Finding | None:
        """What is wrong with the record of a stream, or why there is none to look at."""
        if self._account is None:
            return None
        if not trial.asked:
            return (
                Finding(Verdict.NOT_REACHABLE, "the provider was not asked") if isinstance(play.money, Charge) else None
            )
        if trial.wire.request_id is None:
            self._unknown += 1
            return Finding(Verdict.NOT_REACHABLE, "the answer has no request id") if play.money is not None else None
        record = await self._record(trial.wire.request_id)
        self._records.append(record)
        return None if play.money is None else judge(play.money, record)

    async def _record(self, request_id: str) -> dict[str, Any] | None:
        """The record, settled if it is within `_SETTLED_S`; None if there is none."""
        record: dict[str, Any] | None = None
        with trio.move_on_after(_SETTLED_S):
            while True:
                value = await self._get(f"/v1/requests/{request_id}")
                record = value if isinstance(value, dict) and "state" in value else None
                if record is None or record["state"] != "running":
                    break
                await trio.sleep(_LOOK_S)
        return record

    async def _get(self, path: str) -> Any:
        try:
            wire = await call(self._target, lookup(self._target, path), limit_s=_ASK_S)
        except Unreachable:
            return None
        return as_json(wire.body) if wire.status == 200 else None

    async def _look(self) -> Account | None:
        return read_account(await self._get("/v1/account"))

    async def _watch_balance(self) -> None:
        while True:
            await trio.sleep(_BALANCE_EVERY_S)
            account = await self._look()
            if account is not None:
                self._lowest = min(self._lowest, account.balance)

    async def _accounts(self, before: Account | None) -> list[Row]:
        after = await self._settled() if before is not None else None
        if before is None or after is None:
            return [
                Row(number=case.number, protocol=ACCOUNT, verdict=Verdict.NOT_REACHABLE, money=Verdict.NOT_REACHABLE)
                for case in ACCOUNTS
            ]
        books = Books(
            before=before,
            after=after,
            lowest=min(self._lowest, after.balance),
            records=tuple(self._records),
            unknown=self._unknown,
        )
        rows = []
        for case in ACCOUNTS:
            found = case.check(books)
            verdict = Verdict.PASS if found is None else found.verdict
            findings = () if found is None else (found,)
            rows.append(Row(number=case.number, protocol=ACCOUNT, verdict=verdict, money=verdict, findings=findings))
        return rows

    async def _settled(self) -> Account | None:
        """The account once nothing is held any more, or after a while."""
        account = await self._look()
        with trio.move_on_after(_SETTLED_S):
            while account is not None and account.held:
                await trio.sleep(_LOOK_S)
                account = await self._look()
        return account

    def _row(self, case: Case, protocol: Protocol, found: dict[str, _Found], plays: Sequence[Play]) -> Row:
        told: dict[Finding, list[str]] = defaultdict(list)
        for label, each in found.items():
            for finding in dict.fromkeys((*each.wire, *each.money)):
                told[finding].append(label)
        money = None
        if any(play.money is not None for play in plays):
            verdicts = [finding.verdict for each in found.values() for finding in each.money]
            money = Verdict.NOT_REACHABLE if self._account is None else worst(verdicts)
        seen = worst(finding.verdict for each in found.values() for finding in each.wire)
        if money is not None and not any(play.checks for play in plays):
            seen = money
        return Row(
            number=case.number,
            protocol=protocol.value,
            verdict=seen,
            money=money,
            findings=tuple(_labelled(finding, labels, len(plays)) for finding, labels in told.items()),
        )


def _absent(why: str) -> _Found:
    """The gateway does not offer what a play is about."""
    finding = Finding(Verdict.NOT_SERVED, why)
    return _Found((finding,), (finding,))


def _converted(trial: Trial) -> bool:
    """Whether the provider was asked in its channel's protocol, or the gateway tried and failed."""
    if not trial.asked:
        return trial.wire.status not in (400, 404)
    return trial.asked[-1].protocol is trial.channel


async def _over(asked: list[Asked]) -> None:
    for each in asked:
        await each.seen.over.wait()


def _labelled(finding: Finding, labels: list[str], plays: int) -> Finding:
    """What was found, and in which of several streams."""
    if plays == 1 or not any(labels):
        return finding
    return finding._replace(words=f"{finding.words} ({', '.join(labels)})")
