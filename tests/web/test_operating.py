"""What an operator does with the dashboard, from the login to the audit."""

from __future__ import annotations

import re

import httpx
from playwright.sync_api import expect

from tests.web.conftest import KEYS, TOKEN
from tests.web.test_playground import FAILED, ask, state


def test_a_wrong_token_does_not_open_and_the_right_one_leads_back(stranger):
    stranger.expected.append("status of 401")
    page = stranger.open("/accounts")
    assert page.url == f"{stranger.site.control}/login?next=%2Faccounts"
    page.get_by_label("Control token").fill("wrong")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_have_text("That is not the control token.")
    page.get_by_label("Control token").fill(TOKEN)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Accounts", level=1)).to_be_visible()
    page.get_by_role("button", name="Log out").click()
    page.goto(stranger.site.control + "/accounts")
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()


def test_an_account_a_deposit_and_a_key_that_works_until_it_is_revoked(operator):
    page = operator.open("/accounts")
    name = "<script>alert(1)</script> & co"
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("First deposit").fill("1.5")
    page.get_by_role("button", name="Create account").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(name)
    page.get_by_label("Amount in USD").fill("0.000000001")
    page.get_by_role("button", name="Deposit").click()
    expect(page.locator(".figures")).to_contain_text("1.500000001")
    page.get_by_text("New key", exact=True).click()
    page.get_by_label("Models, with commas").fill("sim-small")
    page.get_by_label("Streams at once").fill("3")
    page.get_by_role("button", name="Create key").click()
    secret = page.locator("#secret").inner_text()
    assert secret.startswith("sk-")
    expect(page.get_by_role("row").filter(has_text="sim-small")).to_contain_text("3 streams")
    account = page.url.removesuffix("/keys").removeprefix(operator.site.control)
    page.goto(operator.site.control + account)
    expect(page.get_by_text(secret)).to_have_count(0)

    operator.open("/playground")
    page.get_by_label("API key").fill(secret)
    answer = ask(operator, "Hello\nsim: events=2 pace=0", model="sim-small")
    state(answer, "complete")
    operator.open(account)
    page.get_by_role("button", name="Revoke").click()
    expect(page.get_by_text("revoked")).to_be_visible()
    operator.expected.append("status of 401")
    operator.open("/playground")
    state(ask(operator, "Hello", model="sim-small"), "refused")


def test_a_form_that_cannot_be_read_says_what_is_wrong_and_changes_nothing(operator):
    operator.expected.append("status of 422")
    page = operator.open("/accounts")
    page.get_by_label("Name", exact=True).fill("nobody")
    page.get_by_label("First deposit").fill("1e3")
    page.get_by_role("button", name="Create account").click()
    expect(page.get_by_role("alert")).to_contain_text("'1e3' is not a decimal amount")
    assert page.get_by_label("Name", exact=True).input_value() == "nobody"
    expect(page.get_by_role("link", name="nobody")).to_have_count(0)


def test_a_stream_is_watched_until_it_is_settled_and_its_timeline_drawn(operator):
    operator.open("/playground")
    page = operator.page
    page.get_by_label("API key").fill(KEYS["lively"])
    answer = ask(operator, "x\nsim: events=4 pace=1200ms")
    link = answer.get_by_role("link")
    expect(link).to_have_text(re.compile("^req_"))
    request_id = link.inner_text()
    with page.context.new_page() as watching:
        watching.goto(f"{operator.site.control}/requests/{request_id}")
        expect(watching.get_by_text("running", exact=True)).to_be_visible()
        expect(watching.get_by_text("captured", exact=True)).to_be_visible()
        expect(watching.locator("#live-state")).to_have_text("settled; this is final")
        rows = watching.get_by_role("table", name="Timeline in words").get_by_role("row")
        for words in ("Hold placed", "First event", "Keep-alive sent", "Terminal event", "Settled: charged"):
            expect(rows.filter(has_text=words).first).to_be_visible()
        assert watching.locator(".timeline .wide .span.answer").count() == 2
    state(answer, "complete")


def test_a_stream_appears_among_the_live_ones_of_all_workers_and_goes_when_it_is_over(operator):
    operator.open("/playground")
    page = operator.page
    page.get_by_label("API key").fill(KEYS[""])
    with page.context.new_page() as watching:
        watching.goto(f"{operator.site.control}/streams")
        expect(watching.locator("#live-state")).to_have_text("live")
        answer = ask(operator, "x\nsim: events=60 pace=50ms")
        link = answer.get_by_role("link")
        expect(link).to_have_text(re.compile("^req_"))
        row = watching.get_by_role("row").filter(has_text=link.inner_text())
        expect(row).to_contain_text("answering")
        expect(row).to_contain_text("acme")
        # Whichever worker is asked: each new connection is accepted by one or the other.
        with httpx.Client(base_url=operator.site.control, headers={"authorization": f"Bearer {TOKEN}"}) as program:
            for _ in range(8):
                assert link.inner_text() in program.get("/streams", headers={"connection": "close"}).text
        watching.goto(f"{operator.site.control}/")
        figure = watching.locator(".figures > div").filter(has_text="Streams open")
        expect(figure).to_contain_text(re.compile(r"Streams open[1-9]"))
        state(answer, "complete")
        watching.goto(f"{operator.site.control}/streams")
        expect(row).to_have_count(0)


def test_a_stream_whose_client_left_is_seen_draining(operator):
    operator.open("/playground")
    page = operator.page
    page.get_by_label("API key").fill(KEYS[""])
    answer = ask(operator, "x\nsim: events=100 pace=50ms")
    expect(answer.locator(".said")).to_contain_text("You said")
    page.get_by_role("button", name="Stop").click()
    request_id = answer.get_by_role("link").inner_text()
    operator.open("/streams")
    expect(page.get_by_role("row").filter(has_text=request_id)).to_contain_text("draining")


def test_a_page_that_is_kept_current_leaves_the_focus_where_it_is(operator):
    operator.open("/playground")
    page = operator.page
    page.get_by_label("API key").fill(KEYS[""])
    answer = ask(operator, "x\nsim: events=100 pace=50ms")
    link = answer.get_by_role("link")
    expect(link).to_have_text(re.compile("^req_"))
    request_id = link.inner_text()
    operator.open("/streams")
    row = page.get_by_role("row").filter(has_text=request_id)
    row.get_by_role("link").focus()
    events = row.get_by_role("cell").nth(5)
    before = events.inner_text()
    expect(events).not_to_have_text(before)
    expect(row.get_by_role("link")).to_be_focused()


def test_requests_are_found_by_their_id_and_outcome(operator):
    operator.expected.append("INCOMPLETE_CHUNKED")
    operator.open("/playground")
    page = operator.page
    page.get_by_label("API key").fill(KEYS[""])
    answer = ask(operator, "x\nsim: events=3 fail=cut@1 pace=0")
    state(answer, FAILED)
    request_id = answer.get_by_role("link").inner_text()
    operator.open("/requests")
    page.get_by_label("Request id").fill(request_id)
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_role("rowheader")).to_have_text([request_id])
    page.get_by_role("link", name="Clear").click()
    page.get_by_label("Outcome").select_option("truncated")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_role("rowheader").first).to_have_text(request_id)
    assert page.get_by_label("Outcome").input_value() == "truncated"


def test_the_audit_passes_and_says_what_it_added_up(operator):
    page = operator.open("/ledger")
    page.get_by_role("button", name="Run the audit").click()
    verdict = page.get_by_role("heading", name="The audit passed")
    expect(verdict).to_be_visible()
    expect(page.get_by_text("entries of")).to_be_visible()


def test_a_paused_channel_gets_no_streams_until_it_is_resumed(operator):
    page = operator.open("/channels")
    name = "<b>simulated</b>"
    panel = page.locator("section", has=page.get_by_role("heading", name=name))
    panel.get_by_role("button", name="Pause").click()
    expect(panel.get_by_text("paused")).to_be_visible()
    operator.open("/playground")
    page.get_by_label("API key").fill(KEYS[""])
    operator.expected.append("status of 503")
    answer = ask(operator, "x")
    state(answer, "refused")
    expect(answer.locator(".why")).to_contain_text("model_unavailable")
    # Another channel has this model.
    state(ask(operator, "x\nsim: events=1", model="sim-small"), "complete")
    operator.open("/channels")
    panel.get_by_role("button", name="Resume").click()
    expect(panel.get_by_text("paused")).to_have_count(0)
    operator.open("/playground")
    state(ask(operator, "x\nsim: events=1"), "complete")


def test_a_probe_now_says_what_it_found(operator):
    page = operator.open("/channels")
    panel = page.locator("section", has=page.get_by_role("heading", name="reserve"))
    panel.get_by_role("button", name="Probe now").click()
    expect(page.get_by_role("heading", name="reserve was probed")).to_be_visible()
    expect(page.locator(".notice")).to_contain_text(
        "certified sim-small, chat: the stream ended with its terminal and usage"
    )
    expect(panel.get_by_role("row").last).to_contain_text("chat: certified")
