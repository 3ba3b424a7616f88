"""Every block on every page is run or checked; one that nobody here knows how to check fails.

The guides of docs/clients are followed by `test_client_guides` and `tests.clients`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
import time
import tomllib
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import markdown
import pytest
import trustme
import yaml

from hoptrio.config import build
from tests.support import guides
from tests.support.blocks import ROOT, blocks_of, pages, prose_of
from tests.support.deployment import Deployment, Server, config_for, served
from tests.support.running import command, simulator
from tests.support.story import CONTROL_URL, DEMO_KEY, DEMO_URL, Story, StoryFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGES = [page for page in pages() if Path(page).parent != Path("docs/clients") or Path(page).name == "README.md"]
BLOCKS = [block for page in PAGES for block in blocks_of(page)]
#: What each kind of block is checked by: a test below, which takes all blocks of that kind.
KINDS = {"js", "json", "nginx", "python", "sh", "toml", "yaml"}
TOKEN = "a-control-token"
#: Pages that begin with nothing, not with a gateway that runs.
FROM_NOTHING = ("README.md", "docs/first-stream.md")
PROMTOOL = shutil.which("promtool")

pytestmark = pytest.mark.timeout(120)


def of(*kinds):
    return [pytest.param(block, id=str(block).replace(" ", "-")) for block in BLOCKS if block.language in kinds]


def test_every_block_is_of_a_kind_that_is_run_or_checked():
    assert [str(block) for block in BLOCKS if block.language not in KINDS] == []
    assert {block.language for block in BLOCKS} == KINDS


@pytest.mark.parametrize("page", PAGES)
def test_no_block_is_hidden_from_the_tests(page):
    """By its indent alone, or as HTML, text would be shown as a block and be none here."""
    html = markdown.markdown(prose_of(page), extensions=["tables", "sane_lists"])
    assert "<pre" not in html


def test_a_hidden_block_is_found():
    assert "<pre" in markdown.markdown("Do this:\n\n    rm -rf /\n")


# -- a gateway as the pages assume one --------------------------------------------------------------------------------


class House:
    """A gateway that runs, its control plane, an account `acme`, and a caller with a key and a request."""

    def __init__(self, deployment: Deployment, server: Server, control: httpx.Client) -> None:
        self.deployment, self.server, self.control = deployment, server, control
        self.add_account("acme", "25")
        self.key = self.add_account("caller", "100")
        self.request_id = self.ask("sim: events=20 pace=0s").headers["x-request-id"]

    def add_account(self, name: str, deposit: str) -> str:
        """An account with a balance; the secret of its key."""
        self.control.post("/api/accounts", json={"name": name, "deposit": deposit}).raise_for_status()
        return self.control.post("/api/keys", json={"account": name}).raise_for_status().json()["secret"]

    def ask(self, prompt: str) -> httpx.Response:
        """A stream of the caller's, read to its end."""
        body = {"model": "gpt-5.6-sol", "stream": True, "messages": [{"role": "user", "content": prompt}]}
        headers = {"authorization": f"Bearer {self.key}"}
        return httpx.post(f"{self.server.url}/v1/chat/completions", json=body, headers=headers, timeout=30)

    def hold_of_a_stream_that_runs(self, stack: ExitStack) -> str:
        """Its id; the stream ends when the block of `stack` does."""
        stream = threading.Thread(target=self.ask, args=("sim: events=2 pace=2s",))
        stream.start()
        stack.callback(stream.join)
        until = time.monotonic() + 20
        while not (holds := self.control.get("/api/holds").json()):
            assert time.monotonic() < until
        return holds[0]["id"]


@pytest.fixture(scope="module")
def provider() -> Iterator[str]:
    with simulator() as url:
        yield url


@pytest.fixture(scope="module")
def house(provider, tmp_path_factory) -> Iterator[House]:
    config = config_for(provider)
    config["control"]["token"] = TOKEN
    config["server"]["contract"] = "hoptrio"
    config["models"]["gpt-5.6-sol"] = config["models"]["sim-small"]
    config["channels"]["openai"] = config["channels"].pop("simulated") | {"models": ["gpt-5.6-sol", "sim-small"]}
    deployment = Deployment(tmp_path_factory.mktemp("house"), config)
    with (
        served(deployment) as server,
        httpx.Client(base_url=server.control, headers={"authorization": f"Bearer {TOKEN}"}, timeout=30) as control,
    ):
        yield House(deployment, server, control)


@pytest.fixture(scope="module")
def demo(tmp_path_factory) -> Iterator[str]:
    arguments = ["--listen", "127.0.0.1:0", "--control", "127.0.0.1:0", "--dir", str(tmp_path_factory.mktemp("demo"))]
    with command(
        [sys.executable, "-m", "hoptrio", "demo", *arguments], r"curl -N '?(http://127\.0\.0\.1:\d+)/"
    ) as match:
        yield match[1]


# -- shell ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", sorted({block.page for block in BLOCKS if block.language == "sh"}))
def test_the_commands_of_a_page_do_what_it_says(page, request, tmp_path):
    with ExitStack() as stack:

        def serve(words, folder):
            if "demo" in words:
                return request.getfixturevalue("demo")
            if page not in FROM_NOTHING:
                return request.getfixturevalue("house").server.url
            return stack.enter_context(_served_here(folder, request.getfixturevalue("provider")))

        _write_certificates(tmp_path)
        story = Story(tmp_path, {}, serve=serve)
        story.here["HOPTRIO_CONTROL_TOKEN=..."] = f"HOPTRIO_CONTROL_TOKEN={TOKEN}"
        if page not in FROM_NOTHING:
            _move_in(story, request.getfixturevalue("house"), stack, page)
        for block in (each for each in blocks_of(page) if each.language == "sh"):
            try:
                story.run(block.text)
            except StoryFailed as error:
                raise AssertionError(f"{block}: {error}") from None
    assert story.calls


def _move_in(story: Story, house: House, stack: ExitStack, page: str) -> None:
    story.variables |= {"URL": house.server.url, "KEY": house.key, "REQUEST_ID": house.request_id}
    story.variables |= {"HOPTRIO_CONFIG": str(house.deployment.path)}
    story.here |= {DEMO_URL: house.server.url, CONTROL_URL: house.server.control, DEMO_KEY: house.key}
    if any("ledger release HOLD" in block.text for block in blocks_of(page)):
        story.here["release HOLD"] = f"release {house.hold_of_a_stream_that_runs(stack)}"


class _served_here:  # noqa: N801
    """`hoptrio serve` on the config that a page made, with its provider and ports changed to those of this test."""

    def __init__(self, folder: Path, provider: str) -> None:
        config = folder / "hoptrio.toml"
        text = config.read_text(encoding="utf-8")
        for written, there in (
            ("https://api.openai.com/v1", f"{provider}/v1"),
            ("127.0.0.1:8080", "127.0.0.1:0"),
            ("127.0.0.1:8081", "127.0.0.1:0"),
        ):
            assert written in text
            text = text.replace(written, there)
        config.write_text(text, encoding="utf-8")
        environment = {"OPENAI_API_KEY": "sk-provider", "HOPTRIO_CONTROL_TOKEN": TOKEN}
        self._server = Server(["serve", "--json"], folder, environment=environment)

    def __enter__(self) -> str:
        return self._server.url

    def __exit__(self, *_: object) -> None:
        self._server.stop()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("hoptrio --version", ""),
        ("hoptrio check --nonsense", "nonsense"),
        ("hoptrio account creat acme", "No such command"),
        ("hoptrio key create --account nobody", "nobody"),
        ("nobody-knows this", "not found"),
        ("make nothing", "no target nothing"),
        ("make bench BENCH_ARGS=--nonsense", "nonsense"),
        ("make demo DEMO_ARGS='--listen 0.0.0.0:1'", "not a loopback address"),
        ("python -m bench --scenario paced", ""),
        ("python -m nothing", "no module nothing"),
        ("pip install '.[nothing]'", "is not there"),
        ("podman build -f contrib/container/Containerfile -t hoptrio .", "the health check is lost"),
        ("podman build --format docker -f contrib/nothing -t hoptrio .", "unknown words"),
        ("podman compose -f contrib/container/compose.yaml exec nobody hoptrio check", "not known here"),
        ("install -m 644 contrib/nothing /etc/nothing", "no contrib/nothing"),
        ("systemctl stop everything", "not known here"),
        ("hoptrio --control https://gateway.example:8081 account list", ""),
        ("hoptrio --control https://gateway.example:8081 account lst", "No such command"),
        ("curl http://127.0.0.1:1/", "exit status 7"),
        ("false", "exit status 1"),
    ],
)
def test_a_command_that_is_wrong_fails(text, why, tmp_path, house):
    story = Story(tmp_path, {"HOPTRIO_CONFIG": str(house.deployment.path)}, serve=lambda *_: "")
    if not why:
        story.run(text)
        return
    with pytest.raises(StoryFailed, match=why):
        story.run(text)


# -- configs ----------------------------------------------------------------------------------------------------------


class Environment(dict):
    """Every variable is set."""

    def __missing__(self, name):
        return "postgresql://hoptrio@db.example/hoptrio" if name == "DATABASE_URL" else "a-secret"

    def get(self, name, default=None):
        return self[name]


@pytest.mark.parametrize("block", of("toml"))
def test_a_config_is_one_that_hoptrio_takes_without_a_warning(block, tmp_path):
    # What the service may write to is not there on the machine of a test.
    raw = tomllib.loads(block.text.replace("/var/lib/", f"{tmp_path}/"))
    _write_certificates(tmp_path)
    config = build(_completed(raw), environ=Environment(), directory=tmp_path)
    assert config.warnings == ()


def _write_certificates(folder: Path) -> None:
    """Under the names that pages have for a reader's own."""
    authority = trustme.CA()
    certificate = authority.issue_cert("gateway.example")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    certificate.cert_chain_pems[0].write_to_path(folder / "cert.pem")
    certificate.private_key_pem.write_to_path(folder / "key.pem")


def _completed(raw):
    """What a page leaves out, as it would be in the reader's own file."""
    usual = config_for("http://provider.example")
    models = raw.get("models") or usual["models"]
    channel = {"protocols": ["chat"], "base_url": "https://provider.example/v1", "api_key": "k", "models": [*models]}
    return {"models": models, "channels": {"usual": channel}} | raw


def test_a_config_that_is_wrong_fails(tmp_path):
    from hoptrio.config import ConfigError

    with pytest.raises(ConfigError, match="no such key"):
        build(_completed(tomllib.loads("[server]\nlisten_on = '127.0.0.1:1'")), directory=tmp_path)


@pytest.mark.parametrize("block", of("yaml"))
def test_prometheus_is_told_where_hoptrio_is(block, tmp_path):
    (job,) = yaml.safe_load(block.text)["scrape_configs"]
    assert job["static_configs"] == [{"targets": [CONTROL_URL.removeprefix("http://")]}]
    assert job["authorization"].keys() == {"credentials_file"}
    if PROMTOOL:
        token = tmp_path / "token"
        token.write_text("token")
        text = block.text.replace(job["authorization"]["credentials_file"], str(token))
        (tmp_path / "prometheus.yml").write_text(text)
        checked = subprocess.run(
            [PROMTOOL, "check", "config", tmp_path / "prometheus.yml"], capture_output=True, text=True, check=False
        )
        assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("block", of("nginx"))
def test_what_is_shown_of_nginxs_config_is_in_the_one_that_is_tested(block):
    whole = (ROOT / "contrib" / "nginx" / "hoptrio.conf").read_text(encoding="utf-8")
    assert block.text in "".join(f"{line.strip()}\n" for line in whole.splitlines())


# -- programs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", of("js"))
def test_what_a_page_shows_of_a_script_is_in_one_that_a_guide_runs(block):
    assert any(block.text in text for page in guides.pages() for text in guides.files_of(page).values())


@pytest.mark.filterwarnings(r"ignore:connect\(\) must be used as a context manager:DeprecationWarning")
@pytest.mark.parametrize("block", of("python"))
def test_a_piece_of_python_runs(block, house, monkeypatch):
    import openai

    monkeypatch.setenv("OPENAI_API_KEY", house.key)
    client = openai.OpenAI(base_url=f"{house.server.url}/v1")
    with client, client.responses.create(model="gpt-5.6-sol", input="hello", stream=True) as events:
        last = next(event for event in events if event.type == "response.created")
        names = {"openai": openai, "client": client, "response_id": last.response.id, "last": last}
        exec(compile(block.text.replace(DEMO_URL, house.server.url), str(block), "exec"), names)
        types = [event.type for event in names["stream"]] if "stream" in names else [names["event"].type]
    assert types[-1] == "response.completed"


@pytest.mark.parametrize("block", of("json"))
def test_a_message_has_the_members_that_a_page_shows(block, house):
    """A refusal on the WebSocket is the one message that is shown; this is a real one."""
    from websockets.sync.client import connect

    poor = house.add_account(f"poor-{time.monotonic_ns()}", "0")
    url = f"{house.server.url.replace('http', 'ws', 1)}/v1/responses"
    with connect(url, additional_headers={"authorization": f"Bearer {poor}"}) as socket:
        create = {"type": "response.create", "model": "gpt-5.6-sol", "input": "hello", "stream_id": "lane"}
        socket.send(json.dumps(create))
        refused = json.loads(socket.recv(timeout=20))
    shown = json.loads(block.text)
    assert (refused["type"], refused["status"]) == (shown["type"], shown["status"])
    assert _members(refused) == _members(shown)


def _members(value):
    return {name: _members(member) for name, member in value.items()} if isinstance(value, dict) else None
