"""A real gateway with its control plane, and a real browser in front of it.

The browser is Debian's chromium (scripts/setup brings it), driven by Playwright, which downloads nothing. Every page is
watched: an error on its console, or a request to anything but the gateway, fails the test that opened it.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
import trio
from playwright.sync_api import expect, sync_playwright

from hoptrio.config import load
from hoptrio.ledger.ledger import open_ledger
from tests.support.certified import write_certificates
from tests.support.running import process, simulator
from tests.support.wire import wire

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, ConsoleMessage, Page

    from hoptrio.config import Config
    from tests.support.wire import Wire

ROOT = Path(__file__).resolve().parents[2]
SCREENSHOTS = Path(os.environ.get("HOPTRIO_SCREENSHOTS") or ROOT / "build" / "screenshots")
#: A page on a busy machine takes its time; what is there sooner is seen sooner.
WAIT_MS = 15_000
expect.set_options(timeout=WAIT_MS)
TOKEN = "a-control-token"
#: By contract; "" is the server's.
KEYS = {"": "sk-web-test", "anypath": "sk-web-anypath", "hopbase": "sk-web-hopbase", "lively": "sk-web-lively"}
KEY = KEYS[""]
#: Of an account whose streams all end before their test does, so that its charges can be counted.
COUNTED, COUNTED_KEY = "counted", "sk-web-counted"
#: As root chromium has no sandbox; nothing in the background may ask for other hosts.
FLAGS = [
    *("--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
_READY = r"listens on (http://\S+); control plane on (http://\S+)"
_CONFIG = """
[server]
listen = "127.0.0.1:0"
workers = 2
shutdown_grace_seconds = 1

[control]
listen = "127.0.0.1:0"
token = "{token}"
gateway_url = "{gateway}"

[ledger]
url = "sqlite:///{folder}/hoptrio.db"

[certification]
probe_at_start = false

[contracts.lively]
preset = "hoptrio"
keepalive_seconds = 0.3

[channels.reserve]
protocols = ["chat"]
base_url = "{provider}/v1"
api_key = "sk-simulated"
models = ["sim-small"]
priority = -1

[channels."<b>simulated</b>"]
protocols = ["chat", "responses", "messages", "gemini"]
base_url = {{ chat = "{provider}/v1", responses = "{provider}/v1", messages = "{provider}", gemini = "{provider}" }}
api_key = "sk-simulated"
models = ["sim-small", "gpt-5.6-sol", "claude-sonnet-5", "gemini-3-pro"]
"""
_MODEL = """
[models."{name}"]
input = "1.25"
output = "10.00"
max_input_tokens = 200000
max_output_tokens = 8192
"""
_MODELS = ("sim-small", "gpt-5.6-sol", "claude-sonnet-5", "gemini-3-pro")


def find_chromium() -> str:
    """The browser's path; a test that cannot have one fails, since nobody would notice that it was skipped."""
    for name in os.environ.get("HOPTRIO_CHROMIUM", "chromium chromium-browser google-chrome").split():
        found = shutil.which(name)
        if found is not None:
            return found
    pytest.fail(
        "tests/web needs chromium, which is not here: apt-get install chromium, or set HOPTRIO_CHROMIUM to its path",
        pytrace=False,
    )


@dataclass(frozen=True)
class Site:
    """Where a running gateway is reached, by browsers over a wire that can be cut."""

    between: Wire
    control: str
    provider: str

    @property
    def data(self) -> str:
        return self.between.url


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

    def log_in(self) -> None:
        """With the token, as people do."""
        page = self.open("/login")
        page.get_by_label("Control token").fill(TOKEN)
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url(self.site.control + "/")


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Two workers on one ledger, and a simulated provider behind them."""
    folder = tmp_path_factory.mktemp("site")
    file = folder / "hoptrio.toml"
    with simulator() as provider, wire() as between:
        models = "".join(_MODEL.format(name=name) for name in _MODELS)
        file.write_text(_CONFIG.format(token=TOKEN, gateway=between.url, folder=folder, provider=provider) + models)
        trio.run(_fill, load(file))
        with process([sys.executable, "-m", "hoptrio", "serve", "--config", str(file)], _READY) as (_, match):
            between.target = match[1]
            yield Site(between, match[2], provider)


async def _fill(config: Config) -> None:
    async with open_ledger(config.ledger.url) as ledger:
        await write_certificates(ledger, config.catalogue)
        await ledger.create_account("acme", deposit_nanos=100 * 10**9)
        for contract, secret in KEYS.items():
            await ledger.create_key("acme", secret=secret, contract=contract or None)
        await ledger.create_account(COUNTED, deposit_nanos=100 * 10**9)
        await ledger.create_key(COUNTED, secret=COUNTED_KEY)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    # No longer than these tests: Playwright's event loop counts as running in this thread until it is stopped.
    path = find_chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


class Watch:
    """Looks over a page's shoulder."""

    def __init__(self, page: Page) -> None:
        self.errors: list[str] = []
        self.asked: set[str] = set()
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self.asked.add(urlsplit(request.url).netloc))

    def _said(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.errors.append(f"{message.text} {message.location.get('url')}")

    @contextmanager
    def over(self, visitor: Visitor) -> Iterator[Visitor]:
        """Raise AssertionError for what the page did in the block, and was not expected to."""
        self.errors.clear()
        self.asked.clear()
        visitor.expected.clear()
        yield visitor
        assert not [error for error in self.errors if not any(re.search(each, error) for each in visitor.expected)]
        assert self.asked <= {urlsplit(visitor.site.control).netloc, urlsplit(visitor.site.data).netloc, ""}


@contextmanager
def visiting(browser: Browser, site: Site, **options: Any) -> Iterator[Visitor]:
    """A browser of somebody's own, watched until the block ends."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
    context.set_default_timeout(WAIT_MS)
    page = context.new_page()
    with Watch(page).over(Visitor(page, site)) as visitor:
        yield visitor
        context.close()


@pytest.fixture
def stranger(browser: Browser, site: Site) -> Iterator[Visitor]:
    """Somebody who has not logged in."""
    with visiting(browser, site) as visitor:
        yield visitor


@pytest.fixture(scope="package")
def _logged_in(browser: Browser, site: Site) -> Iterator[tuple[Visitor, Watch]]:
    """One for all: a browser of one's own for each test would cost most of the time."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(WAIT_MS)
    page = context.new_page()
    watch, visitor = Watch(page), Visitor(page, site)
    visitor.log_in()
    yield visitor, watch
    context.close()


@pytest.fixture
def operator(_logged_in: tuple[Visitor, Watch]) -> Iterator[Visitor]:
    """Somebody who has logged in, and whose tab knows nothing of earlier tests."""
    visitor, watch = _logged_in
    visitor.open("/login")
    visitor.page.evaluate("sessionStorage.clear()")
    with watch.over(visitor):
        yield visitor


@pytest.fixture
def cookies(_logged_in: tuple[Visitor, Watch]) -> Any:
    """The operator's session, for a browser of another shape."""
    return _logged_in[0].page.context.storage_state()
