"""The playground as people use it: it calls the data plane from the browser, and says only what is true."""

from __future__ import annotations

import re

import httpx
import pytest
from playwright.sync_api import expect

from tests.web.conftest import COUNTED, COUNTED_KEY, KEY, KEYS, TOKEN

MODELS = {
    "chat": "gpt-5.6-sol",
    "responses": "gpt-5.6-sol",
    "messages": "claude-sonnet-5",
    "gemini": "gemini-3-pro",
}
#: What the raw events of a whole answer end with.
TERMINALS = {"chat": "[DONE]", "responses": "response.completed", "messages": "message_stop", "gemini": "finishReason"}
CUT = "ERR_INCOMPLETE_CHUNKED_ENCODING"


@pytest.fixture
def talk(operator):
    """The playground, ready to be asked."""
    operator.open("/playground")
    operator.page.get_by_label("API key").fill(KEY)
    return operator


def ask(visitor, text, protocol="chat", model=None):
    """Send `text`; the last answer."""
    page = visitor.page
    page.locator(f"input[name=protocol][value={protocol}]").check()
    page.get_by_label("Model").select_option(model or MODELS[protocol])
    page.get_by_label("Message", exact=True).fill(text)
    page.get_by_role("button", name="Send").click()
    return page.locator(".turn.answer").last


def state(answer, word):
    expect(answer.locator(".state")).to_have_text(word)


#: A browser drops what it has not handed out yet when a connection breaks, the gateway's last words too.
FAILED = re.compile("^(failed|interrupted)$")


@pytest.mark.parametrize("protocol", list(MODELS))
def test_an_answer_comes_is_complete_and_says_what_it_cost(talk, protocol):
    answer = ask(talk, "What is <b>this</b>?\nsim: events=6 reasoning=2 pace=10ms", protocol)
    state(answer, "complete")
    expect(answer.locator(".said")).to_contain_text("You said: “What is <b>this</b>?”")
    expect(answer.locator(".thought")).to_contain_text("Let me see")
    expect(answer.locator(".cost")).to_have_text(re.compile(r"^charged 0\.\d+ USD, \d+ tokens in, 8 out$"))
    expect(answer.locator(".timing")).to_have_text(re.compile(r"^first event \d+\.\d{3} s, .* in all, \d+ events$"))
    events = talk.page.locator("#events li")
    assert events.count() >= 8
    expect(events.last).to_contain_text(TERMINALS[protocol])
    expect(events.first.locator("time")).to_have_text(re.compile(r"^\+\d+\.\d{3}$"))
    answer.get_by_role("link").click()
    expect(talk.page.get_by_text("captured", exact=True)).to_be_visible()


def test_text_and_events_are_there_while_the_stream_runs(talk):
    answer = ask(talk, "x\nsim: events=1000 pace=20ms")
    state(answer, "streaming")
    expect(answer.locator(".said")).to_contain_text("You said")
    events = talk.page.locator("#events li")
    expect(events.nth(5)).to_be_visible()
    talk.page.get_by_role("button", name="Stop").click()
    state(answer, "stopped")
    # The gateway reads on: the hold stands, and nothing is charged yet.
    expect(answer.locator(".cost")).to_have_text(re.compile(r"^running, 0\.\d+ USD held$"))
    expect(talk.page.get_by_role("button", name="Send")).to_be_enabled()


@pytest.mark.parametrize("protocol", list(MODELS))
def test_a_stream_that_breaks_is_never_a_success(talk, protocol):
    talk.expected.append(CUT)
    answer = ask(talk, "x\nsim: events=6 pace=100ms fail=cut@3", protocol)
    state(answer, FAILED)
    expect(answer.locator(".said")).to_contain_text("You said")
    expect(answer.locator(".cost")).to_have_text("released (truncated), nothing charged")


def test_a_cut_without_a_word_is_called_interrupted(talk):
    talk.expected.extend([CUT, "status of 404"])
    talk.page.get_by_label("API key").fill(KEYS["anypath"])
    answer = ask(talk, "x\nsim: events=6 pace=100ms fail=cut@3")
    state(answer, "interrupted")
    expect(answer.locator(".why")).to_contain_text("broke before the end of the answer")
    expect(answer.locator(".why")).to_contain_text("The rest is not to be had:")
    expect(answer.locator(".cost")).to_have_text("released (truncated), nothing charged")


@pytest.mark.parametrize("protocol", ["chat", "responses", "messages"])
def test_an_error_in_the_stream_is_told_in_the_providers_words(talk, protocol):
    talk.page.get_by_label("API key").fill(KEYS["hopbase"])
    answer = ask(talk, "x\nsim: events=6 pace=5ms fail=error:529@2", protocol)
    state(answer, "failed")
    expect(answer.locator(".said")).to_contain_text("You said")
    expect(answer.locator(".why")).to_contain_text(re.compile("simulated failure|overloaded"))
    expect(talk.page.get_by_role("status").first).to_contain_text("failed")


def test_a_refusal_has_its_message_and_its_request_id(talk):
    talk.expected.append("status of 401")
    talk.page.get_by_label("API key").fill("sk-wrong")
    answer = ask(talk, "x")
    state(answer, "refused")
    expect(answer.locator(".why")).to_contain_text("This API key is not valid")
    expect(answer.locator(".cost")).to_have_text("nothing charged")
    expect(answer.get_by_role("link")).to_have_text(re.compile("^req_"))


def text_of(name):
    """Forty pieces that are all different, in one word."""
    return "".join(f"<{name}-{number}>" for number in range(40))


def asked_of_the_provider(site, text):
    """How often a prompt with `text` came to it."""
    requests = httpx.get(f"{site.provider}/_sim/requests").json()["requests"]
    return sum(text in each["body"] for each in requests)


def charges(site):
    """How often the account that is counted was charged."""
    url = f"{site.control}/api/accounts/{COUNTED}/entries?limit=500"
    entries = httpx.get(url, headers={"authorization": f"Bearer {TOKEN}"}).json()
    return [each["kind"] for each in entries].count("capture")


@pytest.fixture
def between(talk):
    """The wire between the page and the data plane."""
    # Whoever connects to a cut one is hung up on, before, in or behind the request.
    talk.expected.extend([CUT, "ERR_EMPTY_RESPONSE", "ERR_CONNECTION", "ERR_SOCKET_NOT_CONNECTED"])
    yield talk.site.between
    talk.site.between.mend()


@pytest.mark.parametrize("protocol", list(MODELS))
def test_however_often_the_page_is_loaded_in_mid_answer_the_answer_goes_on(talk, protocol):
    text = text_of(protocol)
    before = charges(talk.site)
    talk.page.get_by_label("API key").fill(COUNTED_KEY)
    answer = ask(talk, f"x\nsim: events=40 pace=40ms text={text}", protocol)
    expect(answer.locator(".said")).to_contain_text("-3>")
    request_id = answer.get_by_role("link").inner_text()
    talk.page.reload()
    expect(answer.locator(".said")).to_contain_text("-15>")
    state(answer, "streaming")
    talk.page.reload()
    state(answer, "complete")
    expect(answer.locator(".said")).to_have_text(text)
    expect(answer.locator(".cost")).to_have_text(re.compile(r"^charged 0\.\d+ USD, \d+ tokens in, 40 out$"))
    expect(answer.locator(".timing")).to_contain_text("came back 2 times")
    expect(answer.locator(".why")).to_be_empty()
    assert answer.get_by_role("link").inner_text() == request_id
    expect(talk.page.locator("#events .comment")).to_have_text([re.compile(r"^\(came back behind event \d+\)$")] * 2)
    expect(talk.page.locator("#events li").last).to_contain_text(TERMINALS[protocol])
    assert asked_of_the_provider(talk.site, text) == 1
    assert charges(talk.site) == before + 1
    assert talk.page.get_by_label("API key").input_value() == COUNTED_KEY


def test_a_connection_that_breaks_is_come_back_to_and_the_page_says_so(talk, between):
    text = text_of("cut")
    before = charges(talk.site)
    talk.page.get_by_label("API key").fill(COUNTED_KEY)
    answer = ask(talk, f"x\nsim: events=40 pace=40ms text={text}")
    expect(answer.locator(".said")).to_contain_text("-3>")
    between.cut()
    state(answer, "reconnecting")
    expect(answer.locator(".why")).to_contain_text(re.compile(r"Coming back to the answer in .* s \(try \d of 7\)"))
    expect(talk.page.get_by_role("status").first).to_contain_text("reconnecting")
    expect(talk.page.get_by_role("button", name="Send")).to_be_disabled()
    expect(answer.locator(".why")).to_contain_text("try 2 of 7")
    between.mend()
    state(answer, "complete")
    expect(answer.locator(".said")).to_have_text(text)
    expect(answer.locator(".cost")).to_have_text(re.compile(r"^charged 0\.\d+ USD, \d+ tokens in, 40 out$"))
    expect(answer.locator(".timing")).to_contain_text("came back 1 time")
    assert asked_of_the_provider(talk.site, text) == 1
    assert charges(talk.site) == before + 1


def test_who_stops_while_the_connection_is_broken_is_not_brought_back(talk, between):
    answer = ask(talk, "x\nsim: events=40 pace=40ms")
    expect(answer.locator(".said")).to_contain_text("You said")
    between.cut()
    state(answer, "reconnecting")
    talk.page.get_by_role("button", name="Stop").click()
    state(answer, "stopped")
    between.mend()
    talk.page.reload()
    state(answer, "stopped")
    expect(answer.locator(".cost")).to_have_text(re.compile(r"^charged 0\.\d+ USD, \d+ tokens in, 40 out$"))
    expect(answer.locator(".timing")).not_to_contain_text("came back")


def test_a_reload_before_the_answer_has_an_id_says_that_it_is_lost(talk):
    answer = ask(talk, "x\nsim: events=2 delay=700ms")
    state(answer, "streaming")
    talk.page.reload()
    state(answer, "interrupted")
    expect(answer.locator(".why")).to_contain_text("it is not known how to come back to it")
    expect(talk.page.get_by_role("button", name="Send")).to_be_enabled()


def test_a_reload_where_nothing_is_kept_is_called_interrupted_and_learns_what_it_cost(talk):
    talk.expected.append("status of 404")
    talk.page.get_by_label("API key").fill(KEYS["hopbase"])
    answer = ask(talk, "x\nsim: events=20 pace=30ms")
    expect(answer.locator(".said")).to_contain_text("You said")
    talk.page.reload()
    answer = talk.page.locator(".turn.answer").last
    state(answer, "interrupted")
    expect(answer.locator(".said")).to_contain_text("You said")
    expect(answer.locator(".why")).to_contain_text("The page was loaded again.")
    expect(answer.locator(".why")).to_contain_text("Streams under the contract hopbase are not kept.")
    expect(answer.locator(".cost")).to_have_text(re.compile(r"^charged 0\.\d+ USD"))


def test_a_conversation_goes_on_and_a_new_one_forgets(talk):
    state(ask(talk, "First\nsim: events=3 pace=0"), "complete")
    state(ask(talk, "Second\nsim: events=3 pace=0", "gemini"), "complete")
    assert talk.page.locator(".turn").count() == 4
    talk.page.get_by_role("button", name="New conversation").click()
    assert talk.page.locator(".turn").count() == 0
    expect(talk.page.get_by_text("Nothing was asked yet.")).to_be_visible()


def test_keepalives_are_seen(talk):
    talk.page.get_by_label("API key").fill(KEYS["lively"])
    answer = ask(talk, "x\nsim: events=2 pace=1s")
    state(answer, "complete")
    expect(talk.page.locator("#events .comment").first).to_have_text(": hopbase-keepalive")
