"""Every page at desktop and phone width, light and dark: kept as a picture, nothing cut off, nothing too faint."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect

from tests.web.conftest import KEY, SCREENSHOTS, visiting
from tests.web.test_playground import ask, state

CONTRAST = (Path(__file__).parent / "contrast.js").read_text(encoding="utf-8")
#: Fields and buttons that a screen reader could not name.
NAMELESS = """() => [...document.querySelectorAll("input:not([type=hidden]), select, textarea, button, a")]
  .filter((each) => !each.labels?.length && !each.textContent.trim() && !each.ariaLabel)
  .map((each) => each.outerHTML)"""
SHAPES = {"desktop": {"width": 1280, "height": 800}, "phone": {"width": 390, "height": 844}}
PAGES = {
    "overview": "/",
    "streams": "/streams",
    "requests": "/requests",
    "channels": "/channels",
    "accounts": "/accounts",
    "ledger": "/ledger",
    "api": "/api",
}


def keep(visitor, name, *, whole=True):
    """Take the pictures, of the whole page or of what is seen of it first, and look at what a program can see."""
    page = visitor.page
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    assert page.evaluate(NAMELESS) == [], name
    for shape, size in SHAPES.items():
        page.set_viewport_size(size)
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide == 0, f"{name}, {shape}: {wide} px are cut off"
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.screenshot(path=SCREENSHOTS / f"{name}-{shape}-{scheme}.png", full_page=whole)
            assert page.evaluate(CONTRAST) == [], f"{name}, {shape}, {scheme}"


def test_every_page(browser, site, cookies):
    with visiting(browser, site, storage_state=cookies) as visitor:
        page = visitor.page
        visitor.open("/playground")
        page.get_by_label("API key").fill(KEY)
        state(ask(visitor, "What is a gateway?\nsim: events=12 reasoning=3 pace=0"), "complete")
        running = ask(visitor, "And a long answer?\nsim: events=4000 pace=50ms")
        expect(running.locator(".said")).to_contain_text("You said")
        keep(visitor, "playground")
        link = page.locator(".turn.answer").first.get_by_role("link").get_attribute("href")
        with page.context.new_page() as other:
            reading = type(visitor)(other, site)
            for name, path in PAGES.items():
                reading.open(path)
                if path in ("/", "/streams"):
                    expect(other.locator("#live-state")).to_have_text("live")
                # The reference is as long as the API is wide.
                keep(reading, name, whole=name != "api")
            reading.open(link)
            keep(reading, "request")
            reading.open("/accounts")
            other.get_by_role("link", name="acme").click()
            other.get_by_text("New key", exact=True).click()
            keep(reading, "account")
            reading.open("/ledger")
            other.get_by_role("button", name="Run the audit").click()
            keep(reading, "audit")
        page.get_by_role("button", name="Stop").click()


def test_the_login(stranger):
    stranger.open("/login")
    keep(stranger, "login")


def test_every_page_can_be_read_without_scripts(browser, site, cookies):
    with visiting(browser, site, java_script_enabled=False, storage_state=cookies) as visitor:
        page = visitor.page
        for name, path in PAGES.items():
            visitor.open(path)
            assert page.get_by_role("heading", level=1).count() == 1, name
            assert page.locator("main").inner_text().strip(), name
        visitor.open("/requests")
        page.get_by_role("rowheader").first.get_by_role("link").click()
        expect(page.get_by_role("table", name="Timeline in words")).to_contain_text("Hold placed")
        visitor.open("/ledger")
        page.get_by_role("button", name="Run the audit").click()
        expect(page.get_by_role("heading", name="The audit passed")).to_be_visible()
        visitor.open("/playground")
        expect(page.get_by_text("The playground needs JavaScript")).to_be_visible()


def test_the_keyboard_reaches_everything_and_shows_where_it_is(operator):
    page = operator.open("/accounts")
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to the content")
    expect(skip).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_label("Find by name")).to_be_focused()
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
