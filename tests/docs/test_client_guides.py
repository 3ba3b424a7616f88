"""The guides of docs/clients, followed step by step against the demo. Those of agents and frameworks are followed by
`tests.clients`, which installs them."""

from __future__ import annotations

import re
import shutil
import sys

import pytest

from tests.clients.agents import AGENTS
from tests.clients.packages import GUIDES
from tests.support import guides
from tests.support.guides import FOLDER, GuideFailed, Place, follow, pages
from tests.support.node import NODE, install_sdks
from tests.support.running import command

HERE = [page for page in pages() if page not in GUIDES]


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The URL of ``hoptrio demo``, with the SDKs installed."""
    install_sdks()
    arguments = ["--listen", "127.0.0.1:0", "--control", "127.0.0.1:0", "--dir", str(tmp_path_factory.mktemp("demo"))]
    with command(
        [sys.executable, "-m", "hoptrio", "demo", *arguments], r"curl -N '?(http://127\.0\.0\.1:\d+)/"
    ) as match:
        yield match[1]


@pytest.mark.sdk
@pytest.mark.timeout(300)
@pytest.mark.skipif(shutil.which("node") is None or shutil.which("npm") is None, reason="node is not here")
@pytest.mark.parametrize("page", HERE)
def test_a_guide_does_what_it_says(page, demo, tmp_path):
    assert follow(page, Place(tmp_path, demo, modules=NODE / "node_modules"))


def test_every_guide_is_followed_somewhere_and_in_the_index():
    assert HERE == ["anthropic", "browser", "curl", "google-genai", "openai"]
    assert set(pages()) == {*HERE, *GUIDES}
    assert {agent.guide for agent in AGENTS} <= set(GUIDES)
    index = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"\]\(([\w-]+)\.md\)", index)) == pages()


def test_what_another_page_shows_of_the_browsers_program_is_what_is_run():
    (shown,) = re.findall(r"^```js\n(.*?)^```$", (FOLDER.parent / "reattach.md").read_text("utf-8"), re.M | re.S)
    assert shown in guides.files_of("browser")["hoptrio.js"]


SAYS_HI = "```sh\necho hi there\n```\n\n"


@pytest.mark.parametrize(
    ("page", "why"),
    [
        (SAYS_HI + "```text\nhi …re\n```\n", ""),
        ("In `~/.a/b.json`:\n\n```json\n{}\n```\n\n```sh\ncat ~/.a/b.json\n```\n\n```text\n{}\n```\n", ""),
        ("```sh\necho http://127.0.0.1:8080 sk-hoptrio-demo\n```\n\n```text\nhttp://here sk-mine\n```\n", ""),
        (SAYS_HI + "```text\nhi\n```\n", "there came"),
        (SAYS_HI + "```text\nhi\n…there\n```\n", "there came"),
        ("```text\nhi\n```\n", "an output without a program"),
        ("```sh\nfalse\ntrue\n```\n", "exit status 1"),
        ("```json\n{}\n```\n" + SAYS_HI, "neither a program nor has a file's name"),
        ("nothing\n", "has no program"),
    ],
)
def test_a_guide_that_does_not_say_the_truth_fails(page, why, tmp_path, monkeypatch):
    monkeypatch.setattr(guides, "FOLDER", tmp_path)
    (tmp_path / "page.md").write_text(page)
    place = Place(tmp_path, "http://here", "sk-mine")
    if not why:
        assert len(follow("page", place)) == 1
        return
    with pytest.raises(GuideFailed, match=why):
        follow("page", place)
