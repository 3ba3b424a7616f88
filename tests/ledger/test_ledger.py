"""The contract suite: what every store must do."""

from __future__ import annotations

import pytest
import trio
from msgspec.structs import replace

from hoptrio.contract import Reason
from hoptrio.errors import Conflict, InsufficientBalance, NotFound
from hoptrio.ledger.model import EntryKind, HoldRefusal, HoldRefused, HoldState, Placed, RequestFilter, Resolved, Terms
from hoptrio.ledger.operations import Release
from hoptrio.money import BALANCE_NANOS_MAX, NANOS, NANOS_MAX
from hoptrio.protocols.events import Protocol
from tests.ledger.conftest import START_MS


async def amounts(ledger, name="acme"):
    account = await ledger.account(name)
    return account.balance_nanos, account.held_nanos


async def kinds(ledger, name="acme"):
    entries = await ledger.entries((await ledger.account(name)).id)
    return [(entry.kind.value, entry.amount_nanos, entry.memo_nanos) for entry in entries]


# -- hold, capture, release ----------------------------------------------------------------------------------------


async def test_a_hold_freezes_part_of_the_balance(ledger, key, make):
    assert await ledger.place(make.hold(key, 300)) == Placed(700)
    assert await amounts(ledger) == (1000, 300)


async def test_a_capture_takes_its_amount_and_returns_the_rest(ledger, key, make):
    hold = make.hold(key, 300)
    await ledger.place(hold)
    assert await ledger.settle(make.capture(hold, 120)) == Resolved(True, 120)
    assert await amounts(ledger) == (880, 0)
    assert await kinds(ledger) == [("deposit", 1000, 0), ("capture", -120, 180)]


async def test_a_release_returns_everything(ledger, key, make):
    hold = make.hold(key, 300)
    await ledger.place(hold)
    assert await ledger.settle(make.release(hold)) == Resolved(True, 0)
    assert await amounts(ledger) == (1000, 0)
    assert await kinds(ledger) == [("deposit", 1000, 0), ("release", 0, 300)]


async def test_a_capture_of_zero_is_a_capture(ledger, key, make):
    hold = make.hold(key, 300)
    await ledger.place(hold)
    assert await ledger.settle(make.capture(hold, 0)) == Resolved(True, 0)
    assert (await ledger.request(hold.request.id)).state == "captured"
    assert (await ledger.hold(hold.id)).state is HoldState.CAPTURED


async def test_a_capture_beyond_the_hold_takes_the_hold_and_says_so(ledger, key, make):
    hold = make.hold(key, 300)
    await ledger.place(hold)
    assert await ledger.settle(make.capture(hold, 5000)) == Resolved(True, 300, ("clamped",))
    record = await ledger.request(hold.request.id)
    assert (record.charge_nanos, record.flags) == (300, ("clamped",))
    assert (await ledger.audit()).ok


@pytest.mark.parametrize("first", ["capture", "release"])
@pytest.mark.parametrize("second", ["capture", "release"])
async def test_case_72_a_hold_is_resolved_once_and_a_repeat_changes_nothing(ledger, key, make, first, second):
    hold = make.hold(key, 300)
    await ledger.place(hold)
    ways = {"capture": make.capture(hold, 120), "release": make.release(hold)}
    done = await ledger.settle(ways[first])
    before = await amounts(ledger), await kinds(ledger), await ledger.request(hold.request.id)
    assert await ledger.settle(ways[second]) == Resolved(False, done.charge_nanos)
    assert (await amounts(ledger), await kinds(ledger), await ledger.request(hold.request.id)) == before
    assert (await ledger.audit()).ok


async def test_case_72_fifty_settlements_of_one_hold_at_once_are_one(ledger, key, make):
    hold = make.hold(key, 300)
    await ledger.place(hold)
    answers = []

    async def settle(way):
        answers.append(await ledger.settle(way))

    async with trio.open_nursery() as nursery:
        for i in range(50):
            nursery.start_soon(settle, make.capture(hold, 120) if i % 2 else make.release(hold))
    assert sum(answer.first for answer in answers) == 1
    assert len({answer.charge_nanos for answer in answers}) == 1
    assert (await ledger.audit()).ok


async def test_a_capture_of_a_hold_that_never_was_is_an_error(ledger, key, make):
    with pytest.raises(NotFound):
        await ledger.settle(make.capture(make.hold(key, 1), 1))


async def test_a_release_of_a_hold_that_never_was_has_nothing_to_do(ledger, key, make):
    assert await ledger.settle(make.release(make.hold(key, 1))) == Resolved(False, 0)


async def test_negative_amounts_are_refused(ledger, key, make):
    hold = make.hold(key, 1)
    with pytest.raises(ValueError, match="negative"):
        await ledger.place(make.hold(key, -1))
    with pytest.raises(ValueError, match="negative"):
        await ledger.settle(make.capture(hold, -1))


async def test_a_hold_is_owned_by_the_process_that_places_it(engine, key, make):
    async with engine.open(None) as cli:
        with pytest.raises(ValueError, match="owned"):
            await cli.place(make.hold(key, 1))


async def test_a_placed_hold_is_never_placed_again(ledger, key, make):
    hold = make.hold(key, 300)
    await ledger.place(hold)
    with pytest.raises(Exception, match="could not apply"):
        await ledger.place(hold)
    assert await amounts(ledger) == (1000, 300)


# -- refusals ------------------------------------------------------------------------------------------------------


async def test_case_70_a_hold_beyond_the_balance_says_what_is_there(ledger, key, make):
    await ledger.place(make.hold(key, 300))
    assert await ledger.place(make.hold(key, 701)) == HoldRefused(HoldRefusal.BALANCE, 700)
    assert await amounts(ledger) == (1000, 300)


async def test_case_68_fifty_holds_at_once_with_a_balance_for_three(ledger, key, make):
    answers = []

    async def place(hold):
        answers.append(await ledger.place(hold))

    async with trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(place, make.hold(key, 333))
    assert sum(isinstance(answer, Placed) for answer in answers) == 3
    assert answers.count(HoldRefused(HoldRefusal.BALANCE, 1)) == 47
    assert await amounts(ledger) == (1000, 999)


async def test_case_68_two_processes_with_a_balance_for_three(engine, ledger, key, make):
    answers = []

    async def place(process, hold):
        answers.append(await process.place(hold))

    async with engine.open("other") as other, trio.open_nursery() as nursery:
        for i in range(50):
            process = (ledger, other)[i % 2]
            nursery.start_soon(place, process, make.hold(key, 333, owner=process.owner))
    assert sum(isinstance(answer, Placed) for answer in answers) == 3
    assert await amounts(ledger) == (1000, 999)


async def test_a_revoked_key_holds_nothing_while_its_open_holds_go_on(ledger, key, make):
    hold = make.hold(key, 300)
    await ledger.place(hold)
    assert (await ledger.revoke_key(key.id)).revoked
    assert await ledger.place(make.hold(key, 1)) == HoldRefused(HoldRefusal.KEY_REVOKED)
    assert (await ledger.settle(make.capture(hold, 120))).first


async def test_an_unknown_key_holds_nothing(ledger, key, make):
    assert await ledger.place(make.hold(replace(key, id="key_none"), 1)) == HoldRefused(HoldRefusal.KEY_REVOKED)


async def test_a_key_expires(ledger, key, make, wall):
    short, _ = await ledger.create_key("acme", expires_at_ms=wall.at_ms + 10)
    assert isinstance(await ledger.place(make.hold(short, 1)), Placed)
    wall.at_ms += 10
    assert await ledger.place(make.hold(short, 1)) == HoldRefused(HoldRefusal.KEY_EXPIRED)


async def test_a_disabled_account_holds_nothing(ledger, key, make):
    await ledger.disable("acme")
    assert await ledger.place(make.hold(key, 1)) == HoldRefused(HoldRefusal.ACCOUNT_DISABLED)
    await ledger.disable("acme", disabled=False)
    assert isinstance(await ledger.place(make.hold(key, 1)), Placed)


async def test_max_streams_counts_the_open_holds_of_the_key(engine, ledger, key, make):
    two, _ = await ledger.create_key("acme", max_streams=2)
    holds = [make.hold(two, 1) for _ in range(3)]
    async with engine.open("other") as other:
        assert isinstance(await ledger.place(holds[0]), Placed)
        assert isinstance(await other.place(replace(holds[1], owner="other")), Placed)
        assert (await ledger.place(holds[2])).why is HoldRefusal.MAX_STREAMS
        await other.settle(make.release(holds[0]))
        assert isinstance(await ledger.place(holds[2]), Placed)
    assert isinstance(await ledger.place(make.hold(key, 1)), Placed)


async def test_a_keys_rate_counts_the_requests_of_every_process_in_the_last_minute(engine, ledger, key, make, wall):
    two, _ = await ledger.create_key("acme", rpm=2)
    async with engine.open("other") as other:
        assert await ledger.place(make.hold(two, 1)) == Placed(999, 1)
        wall.at_ms += 10_000
        assert await other.place(replace(make.hold(two, 1), owner="other")) == Placed(998, 0)
        wall.at_ms += 20_000
        assert await ledger.place(make.hold(two, 1)) == HoldRefused(HoldRefusal.RATE, wait_ms=30_000)
        wall.at_ms += 29_999
        assert await other.place(replace(make.hold(two, 1), owner="other")) == HoldRefused(HoldRefusal.RATE, wait_ms=1)
        wall.at_ms += 1
        assert await ledger.place(make.hold(two, 1)) == Placed(997, 0)
        assert await ledger.place(make.hold(two, 1)) == HoldRefused(HoldRefusal.RATE, wait_ms=10_000)
    assert await ledger.place(make.hold(key, 1)) == Placed(996)


async def test_a_request_counts_whatever_became_of_it(ledger, key, make):
    one, _ = await ledger.create_key("acme", rpm=1)
    hold = make.hold(one, 1)
    await ledger.place(hold)
    await ledger.settle(make.release(hold))
    assert (await ledger.place(make.hold(one, 1))).why is HoldRefusal.RATE


async def test_a_refused_request_does_not_count(ledger, key, make, wall):
    one, _ = await ledger.create_key("acme", rpm=1)
    assert (await ledger.place(make.hold(one, 1001))).why is HoldRefusal.BALANCE
    assert isinstance(await ledger.place(make.hold(one, 1)), Placed)
    for _ in range(100):
        wall.at_ms += 500
        await ledger.place(make.hold(one, 1))
    wall.at_ms += 10_000
    assert isinstance(await ledger.place(make.hold(one, 1)), Placed)


async def test_a_wall_clock_that_is_set_back_makes_nobody_wait_longer_than_a_minute(ledger, key, make, wall):
    one, _ = await ledger.create_key("acme", rpm=1)
    await ledger.place(make.hold(one, 1))
    wall.at_ms -= 3_600_000
    assert await ledger.place(make.hold(one, 1)) == HoldRefused(HoldRefusal.RATE, wait_ms=60_000)


async def test_fifty_at_once_are_as_many_as_the_rate(ledger, key, make):
    ten, _ = await ledger.create_key("acme", rpm=10)
    answers = []

    async def place():
        answers.append(await ledger.place(make.hold(ten, 1)))

    async with trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(place)
    assert sorted(answer.requests_left for answer in answers if isinstance(answer, Placed)) == list(range(10))


async def test_a_budget_counts_captures_and_open_holds_of_its_period(ledger, key, make, wall):
    daily, _ = await ledger.create_key("acme", budget_nanos=100, budget_per="day")
    hold = make.hold(daily, 60)
    await ledger.place(hold)
    assert await ledger.place(make.hold(daily, 41)) == HoldRefused(HoldRefusal.BUDGET, 40)
    await ledger.settle(make.capture(hold, 30))
    assert await ledger.place(make.hold(daily, 71)) == HoldRefused(HoldRefusal.BUDGET, 70)
    wall.at_ms += 86_400_000
    assert isinstance(await ledger.place(make.hold(daily, 100)), Placed)
    await ledger.renew()
    assert (await ledger.audit()).ok


async def test_the_first_refusal_that_applies_is_the_answer(ledger, key, make, wall):
    bad, _ = await ledger.create_key(
        "acme", max_streams=0, rpm=0, budget_nanos=0, budget_per="day", expires_at_ms=wall.at_ms + 10
    )
    over, _ = await ledger.create_key("acme", rpm=0, budget_nanos=0, budget_per="day")
    assert (await ledger.place(make.hold(over, 5000))).why is HoldRefusal.RATE
    reasons = []

    async def next_reason():
        reasons.append((await ledger.place(make.hold(bad, 5000))).why)

    await next_reason()
    await ledger.disable("acme")
    await next_reason()
    wall.at_ms += 10
    await next_reason()
    await ledger.revoke_key(bad.id)
    await next_reason()
    assert [reason.value for reason in reasons] == ["max_streams", "account_disabled", "key_expired", "key_revoked"]


# -- suppliers -----------------------------------------------------------------------------------------------------


async def test_a_capture_credits_the_supplier_with_its_share_rounded_down(ledger, key, make):
    await ledger.create_account("maker")
    hold = make.hold(key, 300, supplier="maker", revenue_share_nanos=800_000_000)
    await ledger.place(hold)
    await ledger.settle(make.capture(hold, 99))
    assert await amounts(ledger, "maker") == (79, 0)
    report = await ledger.audit()
    assert (report.ok, report.captured_nanos, report.supplier_nanos, report.platform_nanos) == (True, 99, 79, 20)


async def test_a_suppliers_account_is_opened_by_its_first_credit(ledger, key, make):
    hold = make.hold(key, 300, supplier="new", revenue_share_nanos=500_000_000)
    await ledger.place(hold)
    await ledger.settle(make.capture(hold, 100))
    assert await amounts(ledger, "new") == (50, 0)


async def test_a_release_is_no_revenue(ledger, key, make):
    hold = make.hold(key, 300, supplier="maker", revenue_share_nanos=500_000_000)
    await ledger.place(hold)
    await ledger.settle(make.release(hold))
    assert await ledger.account("maker") is None


async def test_a_capture_on_other_terms_credits_their_supplier_and_the_hold_keeps_them(ledger, key, make):
    """Of several attempts, the last went to another supplier's channel."""
    hold = make.hold(key, 300, supplier="first", revenue_share_nanos=500_000_000)
    await ledger.place(hold)
    await ledger.settle(replace(make.capture(hold, 99), terms=Terms("second", 800_000_000)))
    assert await ledger.account("first") is None
    assert await amounts(ledger, "second") == (79, 0)
    kept = await ledger.hold(hold.id)
    assert (kept.supplier, kept.revenue_share_nanos) == ("second", 800_000_000)
    again = await ledger.settle(replace(make.capture(hold, 99), terms=Terms("third", 1)))
    assert (again.first, again.charge_nanos) == (False, 99)
    assert (await ledger.hold(hold.id)).supplier == "second"
    assert (await ledger.audit()).ok


async def test_terms_without_a_supplier_are_no_revenue_for_anybody(ledger, key, make):
    hold = make.hold(key, 300, supplier="first", revenue_share_nanos=500_000_000)
    await ledger.place(hold)
    await ledger.settle(replace(make.capture(hold, 99), terms=Terms("", 0)))
    assert await ledger.account("first") is None
    assert (await ledger.audit()).platform_nanos == 99


async def test_an_existing_supplier_is_credited_by_a_capture_that_names_it_first(ledger, key, make):
    await ledger.create_account("second", 10)
    hold = make.hold(key, 300)
    await ledger.place(hold)
    await ledger.settle(replace(make.capture(hold, 100), terms=Terms("second", 500_000_000)))
    assert await amounts(ledger, "second") == (60, 0)
    assert (await ledger.audit()).ok


# -- late capture --------------------------------------------------------------------------------------------------


async def orphan(ledger, hold):
    await ledger.place(hold)
    await ledger.release_all([Release(hold.id, "orphaned")])


async def test_late_evidence_is_a_new_entry_that_names_the_hold(ledger, key, make):
    hold = make.hold(key, 300, supplier="maker", revenue_share_nanos=500_000_000)
    await orphan(ledger, hold)
    assert await ledger.settle(make.capture(hold, 120)) == Resolved(True, 120, ("late_capture",))
    assert await kinds(ledger) == [("deposit", 1000, 0), ("release", 0, 300), ("late_capture", -120, 0)]
    record = await ledger.request(hold.request.id)
    assert (record.state, record.reason, record.charge_nanos) == ("released", "orphaned", 120)
    assert record.flags == ("late_capture",)
    assert await amounts(ledger) == (880, 0)
    assert await amounts(ledger, "maker") == (60, 0)
    assert (await ledger.audit()).ok


async def test_late_evidence_on_other_terms_credits_their_supplier(ledger, key, make):
    hold = make.hold(key, 300, supplier="first", revenue_share_nanos=500_000_000)
    await orphan(ledger, hold)
    await ledger.settle(replace(make.capture(hold, 120), terms=Terms("second", 250_000_000)))
    assert await ledger.account("first") is None
    assert await amounts(ledger, "second") == (30, 0)
    assert (await ledger.audit()).ok


async def test_late_evidence_takes_no_more_than_is_available(ledger, key, make):
    hold = make.hold(key, 300)
    await orphan(ledger, hold)
    await ledger.place(make.hold(key, 950))
    assert await ledger.settle(make.capture(hold, 120)) == Resolved(True, 50, ("late_capture",))
    assert (await kinds(ledger))[-2:] == [("late_capture", -50, 0), ("uncollected", 0, 70)]
    assert await amounts(ledger) == (950, 950)
    report = await ledger.audit()
    assert (report.ok, report.uncollected_nanos) == (True, 70)


async def test_late_evidence_counts_once(ledger, key, make):
    hold = make.hold(key, 300)
    await orphan(ledger, hold)
    await ledger.settle(make.capture(hold, 120))
    assert await ledger.settle(make.capture(hold, 120)) == Resolved(False, 120, ("late_capture",))
    assert await amounts(ledger) == (880, 0)


async def test_a_gateways_own_release_is_final(ledger, key, make):
    hold = make.hold(key, 300)
    await ledger.place(hold)
    await ledger.settle(make.release(hold, "deadline"))
    assert await ledger.settle(make.capture(hold, 120)) == Resolved(False, 0)


async def test_a_hold_released_by_hand_keeps_its_reason(ledger, key, make):
    hold = make.hold(key, 300)
    await ledger.place(hold)
    assert (await ledger.release(hold.id, "stuck since Monday")).first
    entry = (await ledger.entries(key.account.id))[-1]
    assert (entry.kind, entry.why) == (EntryKind.RELEASE, "stuck since Monday")
    assert (await ledger.request(hold.request.id)).reason == "operator"
    assert await ledger.release("hold_none", "why not") is None


# -- requests ------------------------------------------------------------------------------------------------------


async def test_a_request_is_kept_from_its_hold_to_its_settlement(ledger, key, make):
    hold = make.hold(key, 300)
    await ledger.place(hold)
    assert await ledger.request(hold.request.id) == replace(hold.request, hold_nanos=300)
    capture = make.capture(
        hold, 120, usage='{"input_tokens":1}', raw_usage="{}", flags=("estimated",), attempts=2,
        provider_ids=("resp_1",), timeline=((0, "held"), (9, "captured")),
    )  # fmt: skip
    await ledger.settle(capture)
    assert await ledger.request(hold.request.id) == replace(capture.request, hold_nanos=300)
    assert await ledger.request("req_none") is None


async def test_members_of_enumerations_are_kept_as_their_text(ledger, key, make):
    hold = make.hold(key, 300)
    hold = replace(hold, request=replace(hold.request, protocol=Protocol.MESSAGES))
    await ledger.place(hold)
    await ledger.settle(make.release(hold, Reason.DEADLINE))
    record = await ledger.request(hold.request.id)
    assert (record.protocol, record.reason) == ("messages", "deadline")


async def test_a_refused_request_is_noted(engine, make):
    async with engine.open() as ledger:
        await ledger.create_account("acme")
        key, _ = await ledger.create_key("acme")
        record = replace(make.hold(key, 1).request, state="refused", reason="insufficient_balance")
        ledger.note(record)
    async with engine.open() as ledger:
        assert await ledger.request(record.id) == record


async def test_a_provider_side_id_belongs_to_the_account_whose_answer_made_it(ledger, key, make):
    hold = make.hold(key, 300)
    await ledger.place(hold)
    await ledger.settle(make.capture(hold, 1, provider_ids=("resp_1", "msg_1")))
    owner = (key.account.id, "c")
    assert await ledger.owners_of(["resp_1", "msg_1", "resp_2"]) == {"resp_1": owner, "msg_1": owner}


async def test_requests_are_listed_newest_first_by_what_is_asked_for(ledger, key, make):
    holds = [make.hold(key, 1, model=model) for model in ("a", "b", "a")]
    for hold in holds:
        await ledger.place(hold)
    await ledger.settle(make.release(holds[0]))

    async def ids(**where):
        return [record.id for record in await ledger.requests(RequestFilter(**where))]

    first, second, third = (hold.request.id for hold in holds)
    assert await ids() == [third, second, first]
    assert await ids(model="a") == [third, first]
    assert await ids(state="released") == [first]
    assert await ids(since_ms=holds[1].request.created_at_ms) == [third, second]
    assert await ids(until_ms=holds[1].request.created_at_ms) == [first]
    assert await ids(limit=1) == [third]
    assert await ids(account_id=key.account.id, key_id=key.id, limit=2) == [third, second]
    assert await ids(account_id="acct_none") == await ids(client_request_id="none") == []


# -- accounts and keys ---------------------------------------------------------------------------------------------


async def test_requests_are_found_by_the_channel_and_the_reason_of_their_end(ledger, key, make):
    for reason, channel in (("truncated", "one"), ("stalled", "one"), ("stalled", "two")):
        hold = make.hold(key, 10)
        await ledger.place(hold)
        released = make.release(hold, reason)
        await ledger.settle(replace(released, request=replace(released.request, channel=channel)))

    async def found(**where):
        return [record.id for record in await ledger.requests(RequestFilter(**where))]

    assert await found(channel="one") == ["req_0002", "req_0001"]
    assert await found(reason="stalled") == ["req_0003", "req_0002"]
    assert await found(reason="stalled", channel="two", protocol="chat") == ["req_0003"]
    assert await found(protocol="messages") == []


async def test_a_page_of_requests_begins_behind_the_last_one(ledger, key, make):
    """Requests of one millisecond are told apart by their ids."""
    for number in (1, 2, 2, 2, 3):
        hold = make.hold(key, 10)
        await ledger.place(replace(hold, request=replace(hold.request, created_at_ms=START_MS + number)))
    pages, before = [], None
    while page := await ledger.requests(RequestFilter(limit=2, before=before)):
        pages.append([record.id for record in page])
        before = page[-1].created_at_ms, page[-1].id
    assert pages == [["req_0005", "req_0004"], ["req_0003", "req_0002"], ["req_0001"]]


async def test_the_last_entries_are_told_newest_first_of_one_account_or_of_all(ledger, key):
    await ledger.create_account("other", 5)
    await ledger.deposit("acme", 7)

    async def told(**where):
        return [(entry.kind.value, entry.amount_nanos) for entry in await ledger.last_entries(**where)]

    assert await told() == [("deposit", 7), ("deposit", 5), ("deposit", 1000)]
    assert await told(account_id=key.account.id) == [("deposit", 7), ("deposit", 1000)]
    newest, *_ = await ledger.last_entries(limit=1)
    assert await told(before_seq=newest.seq, limit=1) == [("deposit", 5)]
    assert await told(before_seq=0) == []


async def test_a_deposit_that_is_repeated_with_its_ref_is_made_once(ledger, key):
    for _ in range(2):
        assert (await ledger.deposit("acme", 5, ref="invoice 1")).balance_nanos == 1005
    await ledger.create_account("other", 50)
    others = (
        lambda: ledger.deposit("acme", 6, ref="invoice 1"),
        lambda: ledger.deposit("other", 5, ref="invoice 1"),
        lambda: ledger.adjust("acme", 5, "typo", ref="invoice 1"),
        lambda: ledger.adjust("acme", -2000, "more than there is", ref="invoice 1"),
    )
    for another in others:
        with pytest.raises(Conflict, match="invoice 1"):
            await another()
    assert ((await ledger.account("acme")).balance_nanos, (await ledger.account("other")).balance_nanos) == (1005, 50)
    assert (await ledger.adjust("acme", -5, "typo", ref="typo 1")).balance_nanos == 1000
    assert (await ledger.adjust("acme", -5, "the same typo", ref="typo 1")).balance_nanos == 1000


async def test_a_keys_id_belongs_to_one_key(ledger, key):
    made, secret = await ledger.create_key("acme", key_id="key_0123")
    assert made.id == "key_0123"
    with pytest.raises(Conflict):
        await ledger.create_key("acme", key_id="key_0123")
    assert (await ledger.find_key(secret)).id == "key_0123"
    assert len(await ledger.keys()) == 2


async def test_the_age_and_the_sum_of_open_holds_are_told(ledger, key, make, wall):
    assert await ledger.held_nanos() == 0
    first, second = make.hold(key, 10), make.hold(key, 20)
    await ledger.place(first)
    wall.at_ms += 7
    await ledger.place(second)
    assert sorted(await ledger.open_since_ms()) == [START_MS, START_MS + 7]
    assert await ledger.held_nanos() == 30
    await ledger.settle(make.release(first))
    assert await ledger.open_since_ms() == [START_MS + 7]
    assert await ledger.held_nanos() == 20


async def test_an_account_has_a_name_of_its_own(ledger, key):
    with pytest.raises(Conflict):
        await ledger.create_account("acme")
    for name in ("", "x" * 201, "a\nb", ".", ".."):
        with pytest.raises(ValueError, match="name"):
            await ledger.create_account(name)


async def test_an_account_is_found_by_name_and_by_id(ledger, key):
    assert await ledger.account("acme") == await ledger.account(key.account.id) == key.account
    assert await ledger.account("other") is None
    await ledger.create_account("a first one")
    assert [account.name for account in await ledger.accounts()] == ["a first one", "acme"]


async def test_deposits_and_adjustments_are_entries(ledger, key, make):
    await ledger.place(make.hold(key, 900))
    assert (await ledger.deposit("acme", 5)).balance_nanos == 1005
    assert (await ledger.adjust("acme", -105, "typo")).balance_nanos == 900
    with pytest.raises(InsufficientBalance):
        await ledger.adjust("acme", -1, "would leave less than is held")
    with pytest.raises(NotFound):
        await ledger.deposit("nobody", 1)
    for amount in (0, -1):
        with pytest.raises(ValueError, match="deposit"):
            await ledger.deposit("acme", amount)
    with pytest.raises(ValueError, match="reason"):
        await ledger.adjust("acme", 1, " ")
    assert await kinds(ledger) == [("deposit", 1000, 0), ("deposit", 5, 0), ("adjust", -105, 0)]


async def test_a_balance_has_a_largest_amount_and_room_above_it_for_shares(ledger, key, make):
    left = BALANCE_NANOS_MAX - 1000
    for _ in range(2):
        assert (await ledger.deposit("acme", left, ref="all")).balance_nanos == BALANCE_NANOS_MAX
    others = (
        lambda: ledger.deposit("acme", 1),
        lambda: ledger.deposit("acme", 2**63),
        lambda: ledger.adjust("acme", NANOS_MAX, "typo"),
    )
    for another in others:
        with pytest.raises(Conflict, match=r"9007199254\.740992 at most"):
            await another()
    with pytest.raises(ValueError, match="at most"):
        await ledger.create_account("other", BALANCE_NANOS_MAX + 1)
    hold = make.hold(key, NANOS_MAX, supplier="acme", revenue_share_nanos=NANOS)
    await ledger.place(hold)
    await ledger.settle(make.capture(hold, NANOS_MAX))
    assert (await ledger.account("acme")).balance_nanos == BALANCE_NANOS_MAX
    assert (await ledger.adjust("acme", -1, "typo")).balance_nanos == BALANCE_NANOS_MAX - 1
    assert (await ledger.deposit("acme", 1)).balance_nanos == BALANCE_NANOS_MAX


async def test_entries_are_read_in_pages(ledger, key):
    for amount in (1, 2, 3):
        await ledger.deposit("acme", amount)
    page = await ledger.entries(key.account.id, limit=2)
    rest = await ledger.entries(key.account.id, after_seq=page[-1].seq)
    assert [entry.amount_nanos for entry in page + rest] == [1000, 1, 2, 3]


async def test_a_key_is_found_by_its_secret_with_its_account_as_it_stands(ledger, key, make):
    made, secret = await ledger.create_key(
        "acme", contract="patient", max_streams=3, rpm=60, budget_nanos=10, budget_per="month", expires_at_ms=7,
        models=["m", "n"],
    )  # fmt: skip
    assert secret.startswith("sk-")
    await ledger.place(make.hold(key, 300))
    await ledger.disable("acme")
    await ledger.revoke_key(made.id)
    found = await ledger.find_key(secret)
    assert found == replace(made, revoked=True, expired=True, account=await ledger.account("acme"))
    assert found.account.disabled
    assert found.account.held_nanos == 300
    assert await ledger.find_key("sk-none") is None


async def test_a_key_made_by_another_process_is_found_at_once(engine, ledger, key):
    async with engine.open(None) as cli:
        made, secret = await cli.create_key("acme", secret="sk-fixed")
        assert await ledger.find_key("sk-fixed") == made
        await cli.revoke_key(made.id)
        assert (await ledger.find_key(secret)).revoked


async def test_a_secret_belongs_to_one_key(ledger, key):
    await ledger.create_key("acme", secret="sk-fixed")
    with pytest.raises(Conflict):
        await ledger.create_key("acme", secret="sk-fixed")
    with pytest.raises(NotFound):
        await ledger.create_key("nobody")
    with pytest.raises(NotFound):
        await ledger.revoke_key("key_none")
    with pytest.raises(ValueError, match="budget"):
        await ledger.create_key("acme", budget_nanos=1)


async def test_keys_are_listed_by_account(ledger, key):
    await ledger.create_account("other")
    second, _ = await ledger.create_key("other")
    assert {each.id for each in await ledger.keys()} == {key.id, second.id}
    assert await ledger.keys(second.account.id) == [second]


# -- life ----------------------------------------------------------------------------------------------------------


async def test_what_was_committed_is_there_after_a_restart(engine, make):
    async with engine.open() as ledger:
        await ledger.create_account("acme", 1000)
        key, secret = await ledger.create_key("acme")
        await ledger.place(make.hold(key, 300))
    async with engine.open() as ledger:
        assert (await ledger.find_key(secret)).account.held_nanos == 300
        assert len(await ledger.open_holds()) == 1
        assert (await ledger.audit()).open_holds == 1


async def test_a_cancelled_gateway_closes_its_ledger(engine, make):
    with trio.CancelScope() as scope:
        async with engine.open() as ledger:
            await ledger.create_account("acme", 1000)
            key, _ = await ledger.create_key("acme")
            hold = make.hold(key, 300)
            await ledger.place(hold)
            scope.cancel()
            assert (await ledger.settle(make.capture(hold, 120))).first
    async with engine.open() as ledger:
        assert (await ledger.account("acme")).balance_nanos == 880


async def test_a_ledger_that_can_be_written_answers_a_ping(ledger):
    assert await ledger.ping()
    assert ledger.reachable


async def test_a_cancelled_caller_still_learns_what_became_of_its_hold(ledger, key, make):
    hold = make.hold(key, 300)
    with trio.CancelScope() as scope:
        scope.cancel()
        assert isinstance(await ledger.place(hold), Placed)
        assert (await ledger.settle(make.capture(hold, 120))).first
        await trio.lowlevel.checkpoint()
    assert scope.cancelled_caught
    assert await amounts(ledger) == (880, 0)


async def test_case_78_a_thousand_odd_settlements_add_up_exactly(ledger, key, make):
    await ledger.deposit("acme", 10**12)
    charged = 0

    async def stream(number):
        hold = make.hold(key, 10**6)
        await ledger.place(hold)
        await ledger.settle(make.capture(hold, number * 333 % 10**6))

    for batch in range(10):
        async with trio.open_nursery() as nursery:
            for number in range(batch * 100, batch * 100 + 100):
                nursery.start_soon(stream, number)
                charged += number * 333 % 10**6
    assert await amounts(ledger) == (10**12 + 1000 - charged, 0)
    assert (await ledger.audit()).ok
