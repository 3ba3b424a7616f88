"""Who may use the control plane, and what a page of another origin cannot do with a person's session."""

from __future__ import annotations

import os
from contextlib import contextmanager
from functools import partial

import pytest
import trio
from starlette.requests import HTTPConnection

from hoptrio import limits
from hoptrio.control.guesses import Guesses, caller
from hoptrio.control.sessions import Sessions
from hoptrio.telemetry.board import FiguresBoard
from tests.support.controlling import BASE, TOKEN


@contextmanager
def closing_board():
    """A board of figures, as two processes have it."""
    board = FiguresBoard.shared(2)
    yield board, FiguresBoard.inherit(os.dup(board.fd))


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


async def test_a_token_that_a_reload_took_away_leaves_nobody_in(control):
    config = control.office.config
    changed = config.control.model_copy(update={"token": ""})
    control.office.config = type(config)(**{**_members(config), "control": changed})
    async with control.client() as client:
        for authorization in ("Bearer ", "Bearer", f"Bearer {TOKEN}"):
            assert (await client.get("/", headers={"authorization": authorization})).status_code == 401
    async with control.client(headers=HTML | OURS) as browser:
        assert (await browser.post("/login", data={"token": "", "next": "/"})).status_code != 303


def _members(config):
    return {name: getattr(config, name) for name in type(config).__slots__}


async def test_who_logs_out_is_out(control):
    async with control.person() as person:
        left = await person.client.post("/logout", data={"csrf_token": person.csrf_token})
        assert left.headers["location"] == "/login"
        assert (await person.client.get("/")).status_code == 303


async def test_the_cookie_of_who_has_logged_out_opens_nothing_and_others_stay_in(control):
    async with control.person() as person, control.person() as other:
        kept = person.client.cookies["hoptrio_session"]
        await person.client.post("/logout", data={"csrf_token": person.csrf_token})
        async with control.client(cookies={"hoptrio_session": kept}) as thief:
            assert (await thief.get("/api/accounts")).status_code == 401
        assert (await other.client.get("/")).status_code == 200


def test_a_session_is_known_to_every_process_until_it_is_closed_or_over():
    at_s = [1000.0]
    with closing_board() as (board, other):
        here, there = (Sessions(each.aside, now=lambda: at_s[0]) for each in (board, other))
        for name in ("one", "two"):
            here.open(name)
        assert there.is_open("one")
        assert there.is_open("two")
        assert not there.is_open("three")
        there.close("one")
        assert not here.is_open("one")
        assert here.is_open("two")
        at_s[0] += limits.SESSION_S
        assert not here.is_open("two")


def test_a_login_beyond_the_room_for_sessions_ends_the_oldest():
    at_s = [1000.0]
    sessions = Sessions(memoryview(bytearray(24 * 3)), now=lambda: at_s[0])
    for name in ("a", "b", "c", "d"):
        sessions.open(name)
        at_s[0] += 1
    assert [sessions.is_open(name) for name in ("a", "b", "c", "d")] == [False, True, True, True]


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


async def test_wrong_tokens_are_counted_and_the_right_one_always_opens(control, autojump_clock):
    async with control.client(headers=HTML | OURS) as browser:
        guesses = [await browser.post("/login", data={"token": f"guess {i}"}) for i in range(12)]
        assert [guess.status_code for guess in guesses] == [401] * limits.LOGINS_FAILED_MAX + [429] * 2
        assert 0 < int(guesses[-1].headers["retry-after"]) <= limits.LOGINS_FAILED_S
        assert (await browser.post("/login", data={"token": TOKEN})).status_code == 303
        await trio.sleep(limits.LOGINS_FAILED_S)
        assert (await browser.post("/login", data={"token": "guess"})).status_code == 401


async def test_wrong_bearer_tokens_are_counted_as_logins_are(control, autojump_clock):
    wrong, right = ({"authorization": f"Bearer {token}"} for token in ("wrong", TOKEN))
    async with control.client() as program:
        guesses = [await program.get("/api/accounts", headers=wrong) for _ in range(limits.LOGINS_FAILED_MAX + 1)]
        assert [guess.status_code for guess in guesses] == [401] * limits.LOGINS_FAILED_MAX + [429]
        assert (await program.get("/api/accounts", headers=right)).status_code == 200
        # Who gives none has not guessed.
        assert (await program.get("/api/accounts")).status_code == 401


@pytest.mark.parametrize(
    ("peer", "forwarded", "address"),
    [
        ("192.0.2.1", "", "192.0.2.1"),
        ("192.0.2.1", "198.51.100.7", "192.0.2.1"),
        ("10.1.2.3", "198.51.100.7", "198.51.100.7"),
        ("10.1.2.3", "203.0.113.9, 198.51.100.7", "198.51.100.7"),
        ("10.1.2.3", "198.51.100.7, 10.9.9.9", "198.51.100.7"),
        ("10.1.2.3", "nonsense", "10.1.2.3"),
        ("10.1.2.3", "", "10.1.2.3"),
        ("2001:db8::5:6:7:8", "", "2001:db8::/64"),
        ("::ffff:192.0.2.1", "", "192.0.2.1"),
        ("::ffff:10.1.2.3", "198.51.100.7", "198.51.100.7"),
    ],
)
def test_a_caller_is_its_address_or_what_a_trusted_proxy_says_of_it(peer, forwarded, address):
    headers = [(b"x-forwarded-for", forwarded.encode())] if forwarded else []
    connection = HTTPConnection({"type": "http", "client": (peer, 1), "headers": headers})
    assert caller(connection, ["10.0.0.0/8"]) == address


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


async def test_a_body_that_trickles_is_refused_in_time(control, autojump_clock):
    """Slowly but for ever: the counterpart of a slow head."""

    async def trickle():
        while True:
            yield b"x"
            await trio.sleep(1)

    async with control.program() as program:
        answer = await program.post("/api/accounts", content=trickle(), timeout=None)
    assert (answer.status_code, answer.json()["error"]["code"]) == (408, "request_timeout")
    assert trio.current_time() == pytest.approx(limits.CONTROL_BODY_S, abs=2)


async def test_a_form_of_too_many_fields_is_refused(control):
    async with control.person() as person:
        fields = {f"f{number}": "1" for number in range(limits.CONTROL_FIELDS_MAX + 1)}
        answer = await person.client.post("/logout", data=fields)
    assert answer.status_code == 400


async def test_requests_beyond_those_that_are_answered_at_a_time_are_told_to_come_again(control, nursery, monkeypatch):
    """Pages that watch stay open, so that a flood of them would otherwise be as many tasks."""
    monkeypatch.setattr(limits, "CONTROL_REQUESTS_MAX", 3)
    running, go_on = [], trio.Event()

    async def body():
        running.append(1)
        yield b"{"
        await go_on.wait()
        yield b"}"

    async with control.program() as program:
        for _ in range(3):
            nursery.start_soon(partial(program.post, "/api/accounts", content=body()))
        with trio.fail_after(5):
            while len(running) < 3:
                await trio.lowlevel.checkpoint()
        refused = await program.get("/api/accounts")
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "server_is_overloaded")
        assert refused.headers["retry-after"] == "1"
        go_on.set()


async def test_wrong_tokens_of_a_flood_of_addresses_are_forgotten_oldest_first(monkeypatch):
    monkeypatch.setattr(limits, "LOGIN_CALLERS_MAX", 3)
    guesses = Guesses(list)
    for number in range(10):
        guesses.wrong(HTTPConnection({"type": "http", "headers": [], "client": (f"192.0.2.{number}", 1)}))
    assert list(guesses._wrong) == ["192.0.2.7", "192.0.2.8", "192.0.2.9"]
