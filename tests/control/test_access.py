"""Who may use the control plane, and what a page of another origin cannot do with a person's session."""

from __future__ import annotations

import pytest
import trio

from hoptrio import limits
from tests.support.controlling import BASE, TOKEN

HTML = {"accept": "text/html"}
OURS = {"sec-fetch-site": "same-origin"}


@pytest.mark.parametrize("path", ["/", "/metrics", "/api/accounts", "/nothing"])
async def test_a_stranger_learns_nothing_not_even_what_there_is(control, path):
    async with control.client() as stranger:
        answer = await stranger.get(path)
    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == "invalid_api_key"
    assert answer.headers["www-authenticate"] == "Bearer"


async def test_a_stranger_with_a_browser_is_sent_to_the_login_and_from_there_to_where_they_wanted(control):
    async with control.client(headers=HTML | OURS) as browser:
        sent = await browser.get("/?a=b")
        assert (sent.status_code, sent.headers["location"]) == (303, "/login?next=%2F%3Fa%3Db")
        form = await browser.get(sent.headers["location"])
        assert 'value="/?a=b"' in form.text
        entered = await browser.post("/login", data={"token": TOKEN, "next": "/?a=b"})
        assert (entered.status_code, entered.headers["location"]) == (303, "/?a=b")
        assert (await browser.get("/?a=b")).status_code == 200


@pytest.mark.parametrize(
    "authorization", ["Bearer", "Bearer wrong", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x", "Bearer ünïcode"]
)
async def test_only_the_bearer_token_itself_opens(control, authorization):
    async with control.client() as client:
        answer = await client.get("/", headers={"authorization": authorization.encode()})
        assert answer.status_code == 401
        assert (await client.get("/", headers={"authorization": f"bearer {TOKEN}"})).status_code == 200


async def test_a_wrong_token_is_not_made_good_by_a_session(control):
    async with control.person() as person:
        answer = await person.client.get("/", headers={"authorization": "Bearer wrong", "accept": "*/*"})
        assert answer.status_code == 401


async def test_a_session_is_a_cookie_that_no_script_reads_and_no_other_site_sends(control):
    async with control.client(headers=HTML | OURS) as browser:
        cookie = (await browser.post("/login", data={"token": TOKEN})).headers["set-cookie"]
    flags = {flag.strip().lower() for flag in cookie.split(";")[1:]}
    assert {"httponly", "samesite=strict", "path=/", f"max-age={limits.SESSION_S}"} <= flags
    assert TOKEN not in cookie


@pytest.mark.parametrize("cookie", ["", "x", "InNlc3Npb24i.aaaa.bbbb"])
async def test_a_session_cannot_be_made_up(control, cookie):
    async with control.client(cookies={"hoptrio_session": cookie}) as client:
        assert (await client.get("/")).status_code == 401


async def test_a_new_token_ends_every_session(control):
    async with control.person() as person:
        config = control.office.config
        changed = config.control.model_copy(update={"token": "another"})
        control.office.config = type(config)(**{**_members(config), "control": changed})
        assert (await person.client.get("/")).status_code == 303


def _members(config):
    return {name: getattr(config, name) for name in type(config).__slots__}


async def test_who_logs_out_is_out(control):
    async with control.person() as person:
        left = await person.client.post("/logout", data={"csrf_token": person.csrf_token})
        assert left.headers["location"] == "/login"
        assert (await person.client.get("/")).status_code == 303


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        # Another port of the same host is the same site, so the browser does send the cookie.
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "", "origin": "http://control.test:9999"},
        {"sec-fetch-site": "", "origin": "null"},
        {"sec-fetch-site": ""},
    ],
)
async def test_a_page_of_another_origin_changes_nothing_with_a_persons_session(control, headers):
    async with control.person() as person:
        answer = await person.client.post("/logout", data={"csrf_token": person.csrf_token}, headers=headers)
        assert answer.status_code == 403
        assert (await person.client.get("/")).status_code == 200


async def test_an_older_browser_says_where_it_comes_from_by_its_origin(control):
    async with control.person() as person:
        del person.client.headers["sec-fetch-site"]
        fields = {"csrf_token": person.csrf_token}
        answer = await person.client.post("/logout", data=fields, headers={"origin": BASE})
        assert answer.status_code == 303


@pytest.mark.parametrize("token", [None, "", "x"])
async def test_a_change_needs_the_csrf_token_of_the_session(control, token):
    async with control.person() as person:
        answer = await person.client.post("/logout", data={} if token is None else {"csrf_token": token})
        assert (answer.status_code, "CSRF" in answer.text) == (403, True)


async def test_the_csrf_token_of_another_session_is_worth_nothing(control):
    async with control.person() as person, control.person() as other:
        answer = await person.client.post("/logout", data={"csrf_token": other.csrf_token})
        assert answer.status_code == 403


async def test_a_script_sends_the_csrf_token_in_a_header(control):
    async with control.person() as person:
        answer = await person.client.post("/logout", headers={"x-csrf-token": person.csrf_token})
        assert answer.status_code == 303


async def test_a_program_needs_no_csrf_token(control):
    async with control.program() as program:
        assert (await program.post("/logout")).status_code == 303


async def test_a_login_from_another_origin_is_refused(control):
    async with control.client(headers=HTML | {"sec-fetch-site": "cross-site"}) as browser:
        answer = await browser.post("/login", data={"token": TOKEN})
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


async def test_guessing_the_token_is_slow(control, autojump_clock):
    async with control.client(headers=HTML | OURS) as browser:
        guesses = [await browser.post("/login", data={"token": f"guess {i}"}) for i in range(12)]
        assert [guess.status_code for guess in guesses] == [401] * limits.LOGINS_FAILED_MAX + [429] * 2
        # Not even the right one is looked at.
        assert (await browser.post("/login", data={"token": TOKEN})).status_code == 429
        assert 0 < int(guesses[-1].headers["retry-after"]) <= limits.LOGINS_FAILED_S
        await trio.sleep(limits.LOGINS_FAILED_S)
        assert (await browser.post("/login", data={"token": TOKEN})).status_code == 303


@pytest.mark.parametrize("to", ["//evil.test", "https://evil.test", "/\\evil.test", "javascript:alert(1)", "/a\nb", ""])
async def test_the_login_leads_to_no_other_origin(control, to):
    async with control.client(headers=HTML | OURS) as browser:
        answer = await browser.post("/login", data={"token": TOKEN, "next": to})
    assert answer.headers["location"] == "/"


@pytest.mark.parametrize("path", ["/", "/login", "/static/style.css", "/nothing", "/api/nothing"])
async def test_every_answer_has_the_security_headers(control, path):
    async with control.program() as program:
        headers = (await program.get(path)).headers
    csp = headers["content-security-policy"]
    assert "default-src 'none'" in csp
    assert "script-src 'self'" in csp
    assert "unsafe" not in csp
    assert "frame-ancestors 'none'" in csp
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"


async def test_a_body_beyond_the_limit_is_refused(control):
    async with control.program() as program:
        answer = await program.post("/logout", content=b"x" * (limits.CONTROL_BODY_BYTES_MAX + 1))
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "request_too_large")
