"""A real gateway with its control plane, and a real browser in front of it.

The browser is Debian's chromium (scripts/setup brings it), driven by Playwright, which downloads nothing. Every page is
watched: an error on its console, or a request to anything but the gateway, fails the test that opened it.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import sync_playwright

from tests.support.running import process

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).resolve().parents[2]
SCREENSHOTS = Path(os.environ.get("HOPTRIO_SCREENSHOTS") or ROOT / "build" / "screenshots")
WAIT_MS = 10_000
KEY, TOKEN = "sk-hoptrio-demo", "demo"
#: As root chromium has no sandbox; nothing in the background may ask for other hosts.
FLAGS = [
    *("--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
#: Where the demo listens: the data plane and the control plane.
_READY = r"listens on (http://\S+)(?:.|\n)*  open +(http://[^/\s]+)(?:.|\n)*Ctrl-C"


def find_chromium() -> str:
    """The browser's path; a test that cannot have one fails, since nobody would notice that it was skipped."""
    for name in os.environ.get("HOPTRIO_CHROMIUM", "chromium chromium-browser google-chrome").split():
        found = shutil.which(name)
        if found is not None:
            return found
    pytest.fail(
        "chromium is needed by tests/web and is not here: apt-get install chromium, or set HOPTRIO_CHROMIUM to its path",
        pytrace=False,
    )


@dataclass(frozen=True)
class Site:
    """Where a running gateway is reached."""

    data: str
    control: str


@dataclass
class Visitor:
    """Somebody with a browser."""

    page: Page
    site: Site
    #: Errors that the test means to see on the console, as regular expressions.
    expected: list[str] = field(default_factory=list)

    def open(self, path: str) -> Page:
        """Go to a page of the control plane."""
        self.page.goto(self.site.control + path)
        return self.page

    def log_in(self) -> Visitor:
        """With the token, as people do."""
        page = self.open("/login")
        page.get_by_label("Control token").fill(TOKEN)
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url(self.site.control + "/")
        return self


@pytest.fixture(scope="session")
def site() -> Iterator[Site]:
    argv = [sys.executable, "-m", "hoptrio", "demo", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0"]
    with process(argv, _READY) as (_, match):
        yield Site(match[1], match[2])


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = find_chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def stranger(browser: Browser, site: Site) -> Iterator[Visitor]:
    """Nobody has logged in."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(WAIT_MS)
    page = context.new_page()
    visitor = Visitor(page, site)
    errors: list[str] = []
    asked: set[str] = set()
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: asked.add(urlsplit(request.url).netloc))
    yield visitor
    context.close()
    unexpected = [error for error in errors if not any(re.search(each, error) for each in visitor.expected)]
    assert not unexpected
    assert asked <= {urlsplit(site.control).netloc, urlsplit(site.data).netloc, ""}


@pytest.fixture
def operator(stranger: Visitor) -> Visitor:
    """Somebody who has logged in."""
    return stranger.log_in()
