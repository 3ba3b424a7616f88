"""The API over a ledger in memory: what each operation does, and how a request that cannot be is refused."""

from __future__ import annotations

from urllib.parse import quote

import pytest
import trio
import trio.testing
from msgspec.structs import replace

from hoptrio import limits
from hoptrio.control.operations import OPERATIONS
from hoptrio.ledger.model import Hold, RequestRecord, Resolution
from hoptrio.money import BALANCE_NANOS_MAX


@pytest.fixture
async def api(control):
    async with control.program() as client:
        yield Api(control, client)


class Api:
    """Calls that are expected to succeed, as JSON; and `refused`, for those that are not."""

    def __init__(self, control, client):
        self.office = control.office
        self.client = client

    async def get(self, path, **query):
        answer = await self.client.get(f"/api{path}", params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def post(self, path, body=None, *, status=200):
        answer = await self.client.post(f"/api{path}", json=body)
        assert answer.status_code == status, answer.text
        return answer.json()

    async def put(self, path, body):
        answer = await self.client.put(f"/api{path}", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def refused(self, method, path, body=None):
        answer = await self.client.request(method, f"/api{path}", json=body)
        return answer.status_code, answer.json()["error"]["code"]

    async def stream(self, key, number, *, capture_nanos=None, **changes):
        """A request of `key` with a hold of 1, captured for `capture_nanos` if that is given."""
        record = RequestRecord(
            id=f"req_{number}", account_id="", key_id=key["id"], created_at_ms=1000 + number, protocol="chat",
            model="m", contract="hoptrio", stream=True, state="running", timeline=((0, "held"), (3, "dispatched")),
        )  # fmt: skip
        record = replace(record, **changes)
        hold = Hold(id=f"hold_{number}", request=record, amount_nanos=10**9, prices="{}", owner="test")
        await self.office.ledger.place(hold)
        if capture_nanos is not None:
            usage = (
                '{"input_tokens":1,"cached_input_tokens":0,"cache_write_tokens":0,"output_tokens":2,'
                '"reasoning_tokens":0}'
            )
            settled = replace(record, channel="simulated", usage=usage, evidence="sse_terminal")
            await self.office.ledger.settle(Resolution(hold_id=hold.id, capture_nanos=capture_nanos, request=settled))


async def test_an_account_from_its_opening_to_its_end(api):
    made = await api.post("/accounts", {"name": "acme", "deposit": "10.5"}, status=201)
    assert (made["name"], made["balance"], made["held"], made["available"]) == ("acme", "10.5", "0", "10.5")
    assert (await api.post("/accounts/acme/deposits", {"amount": "0.25"}))["balance"] == "10.75"
    assert (await api.post("/accounts/acme/adjustments", {"amount": "-0.75", "why": "typo"}))["balance"] == "10"
    assert (await api.put("/accounts/acme/disabled", {"disabled": True, "why": "fraud"}))["disabled"] is True
    assert (await api.put(f"/accounts/{made['id']}/disabled", {"disabled": False}))["disabled"] is False
    told = [(each["kind"], each["amount"], each["why"]) for each in await api.get("/accounts/acme/entries")]
    assert told == [
        ("deposit", "10.5", ""),
        ("deposit", "0.25", ""),
        ("adjust", "-0.75", "typo"),
        ("adjust", "0", "disabled: fraud"),
        ("adjust", "0", "enabled"),
    ]
    assert [each["kind"] for each in await api.get("/accounts/acme/entries", after=1, limit=2)] == ["deposit", "adjust"]
    assert [each["name"] for each in await api.get("/accounts")] == ["acme"]
    assert await api.get("/accounts", after="acme") == []


@pytest.mark.parametrize("name", ["a/b", "a?b#c", "ä %2F", "account:1", "...", ".a"])
async def test_an_account_of_any_name_has_a_path(api, name):
    await api.post("/accounts", {"name": name}, status=201)
    assert (await api.get(f"/accounts/{quote(name, safe='')}"))["name"] == name


@pytest.mark.parametrize("name", [".", ".."])
async def test_an_account_is_not_named_as_no_path_can_be(api, name):
    """Every client takes such a name out of a path, escaped or not (RFC 3986 section 5.2.4)."""
    assert await api.refused("POST", "/accounts", {"name": name}) == (400, "invalid_value")


async def test_a_balance_that_would_be_too_large_is_a_conflict(control, api):
    account = await control.office.ledger.create_account("acme", BALANCE_NANOS_MAX)
    for path, body in (("deposits", {"amount": "0.000000001"}), ("adjustments", {"amount": "1", "why": "w"})):
        assert await api.refused("POST", f"/accounts/acme/{path}", body) == (409, "conflict")
    assert await control.office.ledger.account("acme") == account


async def test_a_deposit_that_is_sent_again_with_its_ref_is_made_once(api):
    await api.post("/accounts", {"name": "acme"}, status=201)
    for _ in range(2):
        paid = await api.post("/accounts/acme/deposits", {"amount": "5", "ref": "invoice 7"})
    assert paid["balance"] == "5"


async def test_a_key_is_made_with_its_limits_and_its_secret_told_once(api):
    await api.post("/accounts", {"name": "acme"}, status=201)
    asked = {
        "account": "acme", "contract": "hopbase", "max_streams": 3, "rpm": 60, "budget": "2.5", "per": "day",
        "expires": "2099-01-31T12:00:00+01:00", "models": ["sim-small", "no-such"],
    }  # fmt: skip
    made = await api.post("/keys", asked, status=201)
    secret = made.pop("secret")
    assert secret.startswith("sk-")
    assert made.pop("unknown_models") == ["no-such"]
    assert (made["budget"], made["per"], made["expires_at"]) == ("2.5", "day", "2099-01-31T11:00:00.000Z")
    listed = await api.get("/keys", account="acme")
    assert listed == [made]
    assert secret not in str(listed)
    assert (await api.post(f"/keys/{made['id']}/revoke"))["revoked"] is True


async def test_requests_are_searched_and_come_in_pages(api):
    await api.post("/accounts", {"name": "acme", "deposit": "100"}, status=201)
    key = await api.post("/keys", {"account": "acme"}, status=201)
    for number in range(5):
        await api.stream(key, number, capture_nanos=250_000_000 if number % 2 else None)
    first = await api.get("/requests", limit=2)
    assert [each["id"] for each in first["requests"]] == ["req_4", "req_3"]
    second = await api.get("/requests", limit=2, before=first["next"])
    assert [each["id"] for each in second["requests"]] == ["req_2", "req_1"]
    last = await api.get("/requests", limit=2, before=second["next"])
    assert ([each["id"] for each in last["requests"]], last["next"]) == (["req_0"], None)

    async def found(**query):
        return [each["id"] for each in (await api.get("/requests", **query))["requests"]]

    assert await found(state="captured", account="acme") == ["req_3", "req_1"]
    assert await found(channel="simulated", key=key["id"], model="m", protocol="chat") == ["req_3", "req_1"]
    assert await found(since="1970-01-01T00:00:01.003Z") == ["req_4", "req_3"]
    assert await found(until="1970-01-01T01:00:01.001+01:00") == ["req_0"]
    assert await found(reason="stalled") == await found(client_request_id="mine") == []


async def test_a_request_is_shown_with_its_timeline_evidence_and_charge(api):
    await api.post("/accounts", {"name": "acme", "deposit": "100"}, status=201)
    key = await api.post("/keys", {"account": "acme"}, status=201)
    await api.stream(key, 1, capture_nanos=250_000_000)
    shown = await api.get("/requests/req_1")
    assert (shown["account"], shown["key"], shown["channel"]) == ("acme", key["id"], "simulated")
    assert (shown["hold"], shown["charge"], shown["currency"], shown["state"]) == ("1", "0.25", "USD", "captured")
    assert shown["usage"]["output_tokens"] == 2
    assert shown["timeline"] == [{"at_ms": 0, "event": "held"}, {"at_ms": 3, "event": "dispatched"}]


async def test_a_stuck_hold_is_found_by_its_age_and_released_by_hand_once(api):
    await api.post("/accounts", {"name": "acme", "deposit": "100"}, status=201)
    key = await api.post("/keys", {"account": "acme"}, status=201)
    await api.stream(key, 1)
    [hold] = await api.get("/holds", account="acme")
    assert (hold["id"], hold["request"], hold["account"], hold["amount"]) == ("hold_1", "req_1", "acme", "1")
    assert await api.get("/holds", older_than_seconds=60) == []
    assert await api.post("/holds/hold_1/release", {"why": "stuck"}) == {"hold": "hold_1", "state": "released"}
    assert await api.refused("POST", "/holds/hold_1/release", {"why": "again"}) == (409, "conflict")
    assert await api.refused("POST", "/holds/hold_2/release", {"why": "none"}) == (404, "not_found")
    assert [each["why"] for each in await api.get("/entries", limit=1)] == ["stuck"]


async def test_the_audit_recomputes_everything(api):
    await api.post("/accounts", {"name": "acme", "deposit": "100"}, status=201)
    key = await api.post("/keys", {"account": "acme"}, status=201)
    await api.stream(key, 1, capture_nanos=250_000_000)
    await api.stream(key, 2)
    found = await api.get("/audit")
    assert (found["ok"], found["violations"], found["open_holds"], found["captured"]) == (True, [], 1, 1)
    assert (found["captured_amount"], found["balances"], found["held"]) == ("0.25", "99.75", "1")


async def test_a_channel_tells_its_health_and_certificates_and_no_credential(api):
    [channel] = await api.get("/channels")
    assert (channel["name"], channel["paused"]) == ("simulated", None)
    [model] = channel["models"]
    assert (model["name"], model["health"], model["fault"]) == ("sim-small", "good", None)
    assert [(each["protocol"], each["certified"]) for each in model["certificates"]] == [
        (protocol, False) for protocol in ("chat", "responses", "messages", "gemini")
    ]
    assert "sk-provider" not in str(channel)


async def test_a_paused_channel_is_so_until_it_is_resumed(api):
    paused = await api.post("/channels/simulated/pause", {"why": "it lies"})
    assert paused["paused"]["why"] == "it lies"
    [routes] = (await api.get("/routes", model="sim-small", protocol="chat"))["routes"]
    assert routes["not_asked"] == [{"channel": "simulated", "why": "is paused by an operator"}]
    assert api.office.pauses.paused("simulated")
    assert (await api.post("/channels/simulated/resume"))["paused"] is None
    assert await api.refused("POST", "/channels/nobody/pause") == (404, "not_found")


async def test_contracts_and_models_are_told_as_configured(api):
    contracts = {each["name"]: each for each in await api.get("/contracts")}
    assert contracts.keys() == {"hopbase", "anypath", "hoptrio", "test"}
    assert [name for name, each in contracts.items() if each["default"]] == ["test"]
    [model] = await api.get("/models")
    assert (model["name"], model["input"], model["output"], model["channels"]) == (
        "sim-small",
        "0.5",
        "2",
        ["simulated"],
    )


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/accounts", {}),
        ("POST", "/accounts", {"name": ""}),
        ("POST", "/accounts", {"name": "a\nb"}),
        ("POST", "/accounts", {"name": "a", "deposit": 5}),
        ("POST", "/accounts", {"name": "a", "deposit": "1e3"}),
        ("POST", "/accounts", {"name": "a", "deposit": "-1"}),
        ("POST", "/accounts", {"name": "a", "deposit": "1\n"}),
        ("POST", "/accounts", {"name": "a", "deposit": "999999999999999"}),
        ("POST", "/accounts", {"name": "a", "nmae": "b"}),
        ("POST", "/accounts", []),
        ("POST", "/accounts/a/deposits", {"account": "b", "amount": "1"}),
        ("POST", "/keys", {"account": "a", "budget": "1"}),
        ("POST", "/keys", {"account": "a", "contract": "none"}),
        ("POST", "/keys", {"account": "a", "expires": "2099-01-01T00:00:00"}),
        ("POST", "/keys", {"account": "a", "expires": "2026-01-31T00:00:00Z"}),
        ("POST", "/certifications", {"channel": "none"}),
        ("GET", "/accounts?limit=0", None),
        ("GET", "/accounts?limit=many", None),
        ("GET", "/accounts?limit=1&limit=2", None),
        ("GET", "/accounts?nothing=1", None),
        ("GET", "/requests?since=null", None),
        ("GET", "/requests?since=0.5", None),
        ("GET", "/requests?since=2026-02-30T00:00:00Z", None),
        ("GET", "/requests?since=2026-02-01T00:00:00", None),
        ("GET", "/entries?before=null", None),
        ("GET", "/requests?before=x", None),
        ("GET", "/requests?state=paid", None),
        ("GET", "/accounts/%ff", None),
    ],
)
async def test_what_cannot_be_is_refused_with_a_code(api, method, path, body):
    assert await api.refused(method, path, body) == (400, "invalid_value")


@pytest.mark.parametrize(
    "body", [b'{"name": "a", "name": "b"}', b'{"name": " a"}', b'{"name": "a "}', '{"name": "a\u00a0"}'.encode()]
)
async def test_an_account_has_one_name_without_blanks_around_it(api, body):
    answer = await api.client.post("/api/accounts", content=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_value")


@pytest.mark.parametrize("body", [b"{", b'"\xff"', b"[" * 100_000, b'{"name": "\\ud800"}'])
async def test_a_body_that_is_no_json_is_refused(api, body):
    answer = await api.client.post("/api/accounts", content=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_value")


@pytest.mark.parametrize(
    ("method", "path", "refusal"),
    [
        ("GET", "/accounts/nobody", (404, "not_found")),
        ("GET", "/keys?account=nobody", (404, "not_found")),
        ("GET", "/requests/req_none", (404, "not_found")),
        ("GET", "/routes?model=none", (404, "not_found")),
        ("GET", "/nothing", (404, "unknown_path")),
        ("DELETE", "/accounts", (405, "method_not_allowed")),
    ],
)
async def test_what_is_not_there_is_refused_with_a_code(api, method, path, refusal):
    assert await api.refused(method, path) == refusal


async def test_a_page_changes_things_with_its_csrf_token_alone(control):
    async with control.person() as person:
        path, body = "/api/accounts", {"name": "acme"}
        assert (await person.client.post(path, json=body)).json()["error"]["code"] == "forged_request"
        made = await person.client.post(path, json=body, headers={"x-csrf-token": person.csrf_token})
        assert made.status_code == 201


async def test_every_operation_is_described_and_on_the_reference_page(api):
    description = await api.get("/openapi.json")
    described = {(method.upper(), path) for path, methods in description["paths"].items() for method in methods}
    assert described == {(each.method, each.path) for each in OPERATIONS}
    page = (await api.client.get("/api/")).text
    assert all(f"{each.method} {each.path}" in page for each in OPERATIONS)
    # It works without any other host.
    assert "://" not in page.replace("http://127.0.0.1", "")


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
async def test_no_operation_is_a_strangers(control, operation):
    async with control.client() as stranger:
        answer = await stranger.request(operation.method, operation.path)
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_api_key")


async def test_a_method_that_a_path_does_not_take_is_told_all_that_it_does(api):
    answer = await api.client.delete("/api/accounts")
    assert set(answer.headers["allow"].split(", ")) == {"GET", "HEAD", "POST"}


async def test_a_model_may_be_named_null(api):
    assert await api.get("/requests", model="null") == {"requests": [], "next": None}


async def test_a_page_has_at_most_so_many_rows(api):
    assert await api.refused("GET", f"/requests?limit={limits.CONTROL_PAGE_ROWS_MAX + 1}", None) == (
        400,
        "invalid_value",
    )


async def test_questions_beyond_those_that_may_wait_are_told_to_come_again(control, monkeypatch, nursery):
    monkeypatch.setattr(limits, "CONTROL_QUESTIONS_WAITING_MAX", 1)
    asked, answer, answered = trio.Semaphore(0), trio.Event(), []

    async def accounts():
        asked.release()
        await answer.wait()
        return []

    monkeypatch.setattr(control.office.ledger, "accounts", accounts)
    async with control.program() as program:

        async def ask():
            answered.append((await program.get("/api/accounts")).status_code)

        for _ in range(limits.CONTROL_QUESTIONS + 1):
            nursery.start_soon(ask)
        for _ in range(limits.CONTROL_QUESTIONS):
            await asked.acquire()
        await trio.testing.wait_all_tasks_blocked()
        refused = await program.get("/api/accounts")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        # Changes do not wait for them.
        assert (await program.post("/api/accounts", json={"name": "acme"})).status_code == 201
        answer.set()
        await trio.testing.wait_all_tasks_blocked()
    assert answered == [200] * (limits.CONTROL_QUESTIONS + 1)
