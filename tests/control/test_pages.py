"""Pages say what the ledger has, escaped, and change it through forms; what is wrong is said and changes nothing."""

from __future__ import annotations

import re

import pytest
import trio

from hoptrio import limits
from hoptrio.ledger.model import RequestRecord
from hoptrio.money import NANOS

HOSTILE = "<script>alert('x')</script>"
#: Every page that takes no form.
PATHS = ["/", "/streams", "/requests", "/channels", "/accounts", "/ledger"]


@pytest.fixture
async def person(control):
    async with control.person() as person:
        yield person


async def post(person, path, **fields):
    return await person.client.post(path, data={"csrf_token": person.csrf_token, **fields})


def refused_request(number, **changes):
    """A record as the data plane notes it."""
    fields = {
        "id": f"req_{number:04}", "account_id": "acct_1", "key_id": "key_1",
        "created_at_ms": 1_796_000_000_000 + number, "protocol": "chat", "model": "m", "contract": "hoptrio",
        "stream": True, "state": "refused", "reason": "model_not_found", "charge_nanos": 0,
    }  # fmt: skip
    return RequestRecord(**fields | changes)


async def noted(control, *records):
    for record in records:
        control.office.ledger.note(record)
    await control.office.ledger.ping()


@pytest.mark.parametrize("path", PATHS)
async def test_every_page_is_whole_and_empty_at_first(person, path):
    answer = await person.client.get(path)
    assert answer.status_code == 200
    assert answer.text.count("<h1") == 1
    assert answer.text.rstrip().endswith("</html>")


@pytest.mark.parametrize("path", [*PATHS, "/accounts/acct_x", "/requests/req_x", "/playground"])
async def test_a_program_may_read_pages_too(control, path):
    async with control.program() as program:
        assert (await program.get(path)).status_code in (200, 404, 503)


async def test_hostile_names_are_text_on_every_page(control, person):
    ledger = control.office.ledger
    account = await ledger.create_account(HOSTILE, 5 * NANOS)
    await ledger.deposit(account.id, NANOS, HOSTILE)
    key, _ = await ledger.create_key(account.id, contract=HOSTILE, models=[HOSTILE])
    record = refused_request(1, account_id=account.id, key_id=key.id, model=HOSTILE, client_request_id=HOSTILE)
    await noted(control, record)
    for path in [
        *PATHS,
        f"/accounts/{account.id}",
        f"/requests/{record.id}",
        f"/requests?model={HOSTILE}&id={HOSTILE}",
    ]:
        text = (await person.client.get(path)).text
        assert "<script>alert" not in text, path
        assert "alert(" not in re.sub(r"&lt;script&gt;alert\(&#39;x&#39;\)", "", text), path


async def test_an_account_is_made_paid_disabled_and_enabled(control, person):
    made = await post(person, "/accounts", name="acme", deposit="12.5")
    page = made.headers["location"]
    await post(person, f"{page}/deposit", amount="0.000000001", why="gift")
    await post(person, f"{page}/disable", why="unpaid")
    account = await control.office.ledger.account("acme")
    assert (account.balance_nanos, account.disabled) == (12_500_000_001, True)
    text = (await person.client.get(page)).text
    for words in ("12.500000001", "gift", "Enable account"):
        assert words in text
    await post(person, f"{page}/enable")
    assert not (await control.office.ledger.account("acme")).disabled


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"name": ""}, "printable name"),
        ({"name": "taken"}, "taken"),
        ({"name": "new", "deposit": "1e3"}, "not a decimal amount"),
        ({"name": "new", "deposit": "-1"}, "deposit of at least 0"),
        ({"name": "new", "deposit": "1.0000000001"}, "not a decimal amount"),
    ],
)
async def test_an_account_that_cannot_be_made_is_said_to_be_wrong(control, person, fields, words):
    await control.office.ledger.create_account("taken")
    answer = await post(person, "/accounts", **fields)
    assert answer.status_code == 422
    assert words in answer.text
    assert [account.name for account in await control.office.ledger.accounts()] == ["taken"]


@pytest.mark.parametrize("amount", ["0", "-1", "x", "", "1e2"])
async def test_a_deposit_that_is_none_changes_nothing(control, person, amount):
    account = await control.office.ledger.create_account("acme")
    answer = await post(person, f"/accounts/{account.id}/deposit", amount=amount)
    assert (answer.status_code, 'role="alert"' in answer.text) == (422, True)
    assert (await control.office.ledger.account("acme")).balance_nanos == 0


async def test_a_deposit_button_that_is_pressed_twice_pays_once(control, person):
    account = await control.office.ledger.create_account("acme")
    text = (await person.client.get(f"/accounts/{account.id}")).text
    ref = re.search(r'name="ref" value="([^"]+)"', text)[1]
    for _ in range(2):
        await post(person, f"/accounts/{account.id}/deposit", amount="5", ref=ref)
    assert (await control.office.ledger.account("acme")).balance_nanos == 5 * NANOS
    assert ref not in (await person.client.get(f"/accounts/{account.id}")).text


async def test_a_page_with_a_new_key_that_is_loaded_again_makes_no_second_one(control, person):
    account = await control.office.ledger.create_account("acme")
    form = (await person.client.get(f"/accounts/{account.id}")).text
    ref = re.search(r'/keys" class="form">.*?name="ref" value="([^"]+)"', form, re.DOTALL)[1]
    first, again = [await post(person, f"/accounts/{account.id}/keys", ref=ref) for _ in range(2)]
    secret = re.search(r'id="secret"[^>]*>(sk-[^<]+)<', first.text)[1]
    assert (again.status_code, secret in again.text, "created before" in again.text) == (422, False, True)
    [key] = await control.office.ledger.keys()
    assert await control.office.ledger.find_key(secret) == key
    other = await post(person, f"/accounts/{account.id}/keys", ref="../../x")
    assert 'id="secret"' in other.text


async def test_a_deposit_form_that_is_sent_again_with_another_amount_says_so(control, person):
    account = await control.office.ledger.create_account("acme")
    await post(person, f"/accounts/{account.id}/deposit", amount="5", ref="r")
    answer = await post(person, f"/accounts/{account.id}/deposit", amount="6", ref="r")
    assert (answer.status_code, "another change" in answer.text) == (422, True)
    assert (await control.office.ledger.account("acme")).balance_nanos == 5 * NANOS


async def test_a_keys_secret_is_on_one_page_once(control, person):
    account = await control.office.ledger.create_account("acme")
    answer = await post(
        person,
        f"/accounts/{account.id}/keys",
        contract="hopbase",
        models="sim-small, ",
        max_streams="3",
        rpm="60",
        budget="2.5",
        budget_per="day",
        expires="2100-01-02T03:04",
    )
    secret = re.search(r'id="secret"[^>]*>(sk-[^<]+)<', answer.text)[1]
    key = await control.office.ledger.find_key(secret)
    assert (key.contract, key.models, key.max_streams, key.rpm) == ("hopbase", ("sim-small",), 3, 60)
    assert (key.budget_nanos, key.budget_per, key.expires_at_ms) == (2_500_000_000, "day", 4_102_542_240_000)
    again = await person.client.get(f"/accounts/{account.id}")
    assert secret not in again.text
    assert "2.5 USD a day" in again.text
    await post(person, f"/keys/{key.id}/revoke")
    assert (await control.office.ledger.find_key(secret)).revoked


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"contract": "nobody"}, "there is no contract nobody"),
        ({"models": "sim-small,nothing"}, "there is no model nothing"),
        ({"max_streams": "0"}, "Streams at once"),
        ({"rpm": "1.5"}, "Requests a minute"),
        ({"budget": "a"}, "not a decimal amount"),
        ({"budget": "1", "budget_per": "year"}, "period, day or month"),
        ({"expires": "tomorrow"}, "Expires"),
        ({"expires": "2026-01-31T10:00"}, "is over"),
    ],
)
async def test_a_key_that_cannot_be_made_is_said_to_be_wrong(control, person, fields, words):
    account = await control.office.ledger.create_account("acme")
    answer = await post(person, f"/accounts/{account.id}/keys", **fields)
    assert answer.status_code == 422
    assert words in answer.text
    assert await control.office.ledger.keys() == []


@pytest.mark.parametrize("path", ["/accounts/acct_x", "/requests/req_x", "/requests/req_x/live", "/nothing"])
async def test_what_is_not_there_is_a_page_that_says_so(person, path):
    answer = await person.client.get(path)
    assert (answer.status_code, "There is nothing here" in answer.text) == (404, True)


@pytest.mark.parametrize(
    "path", ["/accounts/acct_x/deposit", "/accounts/acct_x/keys", "/keys/key_x/revoke", "/channels/x/pause"]
)
async def test_what_is_not_there_cannot_be_changed(person, path):
    assert (await post(person, path, amount="1")).status_code == 404


async def test_requests_are_found_by_every_field(control, person):
    account = await control.office.ledger.create_account("acme")
    await noted(
        control,
        refused_request(1, model="one", client_request_id="mine"),
        refused_request(2, channel="c", state="released", reason="stalled"),
        refused_request(3, key_id="key_2", account_id=account.id),
    )

    async def found(**query):
        text = (await person.client.get("/requests", params=query)).text
        return re.findall(r'data-key="(req_\d+)"', text)

    assert await found() == ["req_0003", "req_0002", "req_0001"]
    assert await found(id="req_0001") == ["req_0001"]
    assert await found(id="mine") == ["req_0001"]
    assert await found(id="nobody") == []
    assert await found(model="one") == ["req_0001"]
    assert await found(channel="c") == ["req_0002"]
    assert await found(outcome="released") == ["req_0002"]
    assert await found(outcome="stalled") == ["req_0002"]
    assert await found(key="key_2") == ["req_0003"]
    assert await found(account="acme") == await found(account=account.id) == ["req_0003"]
    assert await found(since="2026-11-30T01:00") == []
    assert await found(until="2026-11-30T01:00") == ["req_0003", "req_0002", "req_0001"]


async def test_requests_are_read_page_by_page(control, person):
    await noted(control, *(refused_request(number) for number in range(120)))
    seen, path = [], "/requests?model=m"
    while path:
        text = (await person.client.get(path)).text
        seen += re.findall(r'data-key="(req_\d+)"', text)
        older = re.search(r'href="([^"]+)" rel="next"', text)
        path = older and older[1].replace("&amp;", "&")
    assert seen == [f"req_{number:04}" for number in reversed(range(120))]


@pytest.mark.parametrize(
    "query", ["since=yesterday", "until=2026-13-01", "before=x", "before=99999999999999999999,x", "account=nobody"]
)
async def test_a_search_that_cannot_be_read_is_said_to_be_wrong(person, query):
    answer = await person.client.get(f"/requests?{query}")
    assert (answer.status_code, 'role="alert"' in answer.text) == (422, True)


async def test_entries_are_read_page_by_page_and_by_account(control, person):
    ledger = control.office.ledger
    acme, other = await ledger.create_account("acme"), await ledger.create_account("other", 7)
    for amount in range(1, 71):
        await ledger.deposit(acme.id, amount)
    first = (await person.client.get(f"/ledger?account={acme.id}")).text
    rest = (await person.client.get(re.search(r'href="([^"]+)" rel="next"', first)[1].replace("&amp;", "&"))).text
    amounts = re.findall(r'data-label="Amount" class="number"><span>([^<]+)', first + rest)
    assert amounts == [f"0.{number:09}".rstrip("0") for number in range(70, 0, -1)]
    assert f'href="/accounts/{other.id}"' not in first + rest


@pytest.mark.parametrize("before", ["x", "0", "-1", "9" * 30])
async def test_a_page_of_entries_that_is_none_is_refused(person, before):
    assert (await person.client.get(f"/ledger?before={before}")).status_code == 400


async def test_entries_of_nobody_are_said_to_be_none(person):
    answer = await person.client.get("/ledger?account=nobody")
    assert (answer.status_code, "there is no account nobody" in answer.text) == (422, True)


async def test_accounts_are_found_by_name_and_read_page_by_page(control, person):
    for number in range(150):
        await control.office.ledger.create_account(f"customer {number:03}")
    await control.office.ledger.create_account("acme & co")
    seen, path = [], "/accounts?name=Customer"
    while path:
        text = (await person.client.get(path)).text
        seen += re.findall(r'<a href="/accounts/acct_[^"]+">([^<]+)<', text)
        further = re.search(r'href="([^"]+)" rel="next"', text)
        path = further and further[1].replace("&amp;", "&")
    assert seen == [f"customer {number:03}" for number in range(150)]
    assert "acme &amp; co" in (await person.client.get("/accounts?name=%26")).text


async def test_the_audit_shows_the_rows_that_break_an_invariant(control, person):
    ledger = control.office.ledger
    account = await ledger.create_account("acme", 5)
    assert "The audit passed" in (await post(person, "/ledger/audit")).text
    rows = ledger._store._rows
    rows.accounts[account.id] = type(account)(**{**_members(account), "balance_nanos": 6})
    text = (await post(person, "/ledger/audit")).text
    assert "The audit failed" in text
    assert "account acme: balance 6, its entries add up to 5" in text


def _members(struct):
    return {name: getattr(struct, name) for name in struct.__struct_fields__}


async def test_a_channel_is_paused_and_resumed(control, person):
    name = next(iter(control.office.config.catalogue.channels))
    await post(person, f"/channels/{name}/pause", why="maintenance")
    text = (await person.client.get("/channels")).text
    assert "maintenance" in text
    assert f"/channels/{name}/resume" in text
    await post(person, f"/channels/{name}/resume")
    assert "maintenance" not in (await person.client.get("/channels")).text


async def test_a_note_that_is_a_book_is_refused(control, person):
    account = await control.office.ledger.create_account("acme")
    book = "x" * (limits.CONTROL_WHY_CHARS_MAX + 1)
    assert (await post(person, f"/accounts/{account.id}/deposit", amount="1", why=book)).status_code == 422
    assert (await post(person, f"/accounts/{account.id}/disable", why=book)).status_code == 422
    name = next(iter(control.office.config.catalogue.channels))
    assert (await post(person, f"/channels/{name}/pause", why=book)).status_code == 400
    assert await control.office.ledger.account("acme") == account


async def parts(answer):
    """The events of a live page, until it ends: (name, data)."""
    events, name, data = [], "message", []
    async for line in answer.aiter_lines():
        if line.startswith("event: "):
            name = line[7:]
        elif line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
        elif not line:
            events.append((name, "\n".join(data)))
            name, data = "message", []
    return events


async def test_a_live_page_ends_with_the_session(control, person, autojump_clock):
    began_at = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(person.client.get, "/overview/live")
        await trio.sleep(3 * limits.LIVE_EVERY_S)
        await post(person, "/logout")
    assert trio.current_time() - began_at < 6 * limits.LIVE_EVERY_S


async def test_a_live_page_sends_what_changed_and_ends_to_be_opened_anew(control, person, autojump_clock):
    name = next(iter(control.office.config.catalogue.channels))

    async def change():
        await trio.sleep(10)
        await control.office.pauses.pause(name, "maintenance")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(change)
        began = trio.current_time()
        answer = await person.client.get("/channels/live")
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = [event for event in await parts(answer) if event[1]]
    assert ["maintenance" in html for _, html in events] == [False, True]
    assert person.csrf_token in events[-1][1]
    assert trio.current_time() - began == pytest.approx(limits.LIVE_S, abs=2 * limits.LIVE_EVERY_S)


async def test_a_page_of_a_request_that_is_over_says_that_it_is(control, person, autojump_clock):
    await noted(control, refused_request(1))
    events = await parts(await person.client.get("/requests/req_0001/live"))
    assert [name for name, _ in events] == ["message", "over"]
    assert 'data-live="' not in (await person.client.get("/requests/req_0001")).text


async def test_what_is_the_same_for_everybody_is_rendered_once_for_all_who_look_on(control, person, autojump_clock):
    asked = []
    total = control.office.figures.total

    def counted():
        asked.append(trio.current_time())
        return total()

    control.office.figures.total = counted
    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(person.client.get, "/overview/live")
    turns = limits.LIVE_S / limits.LIVE_EVERY_S
    assert turns <= len(asked) <= turns + 25
