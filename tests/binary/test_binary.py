"""The standalone binary where nothing else is: a root directory with the C library and an empty /tmp, and no Python."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
import psutil
import pytest

from tests.support.deployment import as_toml, config_for
from tests.support.postgres import fresh_database
from tests.support.running import simulator

BINARY = Path(os.environ["HOPTRIO_BINARY"]).resolve()
#: The C library's own parts and zlib, which the bootloader needs; every Linux has them.
LIBRARY = re.compile(r"(/\S*/(?:ld-linux\S*|lib(?:c|m|z|dl|pthread|rt|util)\.so\S*))")
READY_S = 30.0


class Place(NamedTuple):
    """Where the binary runs: a root directory, and in it the program and the directory it works in."""

    root: Path
    program: str
    folder: str

    @property
    def config(self) -> Path:
        return self.root / self.folder.lstrip("/") / "hoptrio.toml"


@pytest.fixture(scope="module")
def empty_root(tmp_path_factory):
    """A root directory in which the binary is the only program."""
    if os.getuid() != 0:
        pytest.skip("only root may change the root directory")
    root = tmp_path_factory.mktemp("root")
    listed = subprocess.run(["ldd", str(BINARY)], capture_output=True, text=True, check=True).stdout
    for library in [*LIBRARY.findall(listed), *_also_needed()]:
        target = root / library.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, target)
    for name in ("tmp", "work", "proc"):
        (root / name).mkdir()
    shutil.copy(BINARY, root / "hoptrio")
    return Place(root, "/hoptrio", "/work")


def _also_needed():
    """What the modules inside ask the C library for, and the bootloader does not."""
    folder = next(Path("/lib").glob("*-linux-gnu"), Path("/lib64"))
    names = ("libm.so.6", "librt.so.1", "libutil.so.1", "libpthread.so.0", "libdl.so.2", "libz.so.1", "libresolv.so.2")
    return [str(folder / name) for name in names if (folder / name).exists()]


def inside(place, *arguments, **options):
    """A process of the binary there, with nothing in its environment."""

    def move():
        if place.root != Path("/"):
            os.chroot(place.root)
        os.chdir(place.folder)

    return subprocess.Popen(
        [place.program, *arguments],
        preexec_fn=move,
        env={},
        text=True,
        **options,
    )


def run(place, *arguments):
    with inside(place, *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return out


@contextmanager
def running(place, *arguments, last):
    """A server in there, once it has printed a line that holds `last`."""
    process = inside(place, *arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    alarm = threading.Timer(READY_S, process.kill)
    alarm.start()
    try:
        printed = []
        while not printed or last not in printed[-1]:
            line = process.stdout.readline()
            assert line, printed
            printed.append(line)
        alarm.cancel()
        yield process, "".join(printed)
    finally:
        alarm.cancel()
        for each in [*psutil.Process(process.pid).children(recursive=True)] if process.poll() is None else []:
            each.kill()
        process.kill()
        process.wait(10)
        process.stdout.close()


def stream(url, secret, model="sim-small"):
    """A stream's text, whole."""
    body = {"model": model, "stream": True, "messages": [{"role": "user", "content": "hello"}]}
    answer = httpx.post(
        f"{url}/v1/chat/completions", json=body, headers={"authorization": f"Bearer {secret}"}, timeout=30
    )
    assert answer.status_code == 200, answer.text
    return answer.text


def deposit(place, provider, url="sqlite:///hoptrio.db", workers=1):
    """A config for `provider` and an account; the secret of its key."""
    config = config_for(provider)
    config["server"]["workers"] = workers
    config["ledger"] = {"url": url}
    place.config.write_text(as_toml(config))
    run(place, "ledger", "migrate")
    run(place, "account", "create", "acme", "--deposit", "10")
    return json.loads(run(place, "key", "create", "--account", "acme", "--json"))["secret"]


def test_it_says_which_it_is(empty_root):
    assert re.fullmatch(r"hoptrio \d+\.\d+\.\d+\n", run(empty_root, "--version"))


def test_the_demo_streams_and_ends_by_ctrl_c(empty_root):
    arguments = ("demo", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0")
    with running(empty_root, *arguments, last="Ctrl-C stops it.") as (process, printed):
        url = re.search(r"curl.* (http://\S+)/v1/chat/completions", printed)[1]
        assert stream(url, "sk-hoptrio-demo").endswith("data: [DONE]\n\n")
        process.send_signal(signal.SIGINT)
        assert process.wait(15) == 0


def test_workers_are_the_binary_itself_and_outlive_a_reload(empty_root):
    with simulator() as provider:
        secret = deposit(empty_root, provider, workers=2)
        with running(empty_root, "serve", "--json", last='"ready"') as (process, printed):
            [url] = json.loads(printed.splitlines()[-1])["listen"]
            assert stream(url, secret).endswith("data: [DONE]\n\n")
            workers = [
                each for each in psutil.Process(process.pid).children(recursive=True) if "worker" in each.cmdline()
            ]
            assert len(workers) == 2
            assert {each.name() for each in workers} == {"hoptrio"}
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
            assert psutil.wait_procs(workers, timeout=5)[1] == []
    audit = json.loads(run(empty_root, "ledger", "audit", "--json"))
    assert (audit["ok"], audit["captured"], audit["open_holds"]) == (True, 1, 0)


def test_nothing_stays_behind_when_it_is_killed(tmp_path):
    """What is started, and killed, is the bootloader; the supervisor is its child."""
    here = Place(Path("/"), str(BINARY), str(tmp_path))
    with simulator() as provider:
        deposit(here, provider, workers=2)
        with running(here, "serve", "--json", last='"ready"') as (process, _):
            everyone = psutil.Process(process.pid).children(recursive=True)
            assert len(everyone) >= 3
            process.kill()
            assert psutil.wait_procs(everyone, timeout=20)[1] == []


def test_it_speaks_to_postgresql(tmp_path):
    here = Place(Path("/"), str(BINARY), str(tmp_path))
    database = fresh_database()
    with simulator() as provider:
        secret = deposit(here, provider, url=database.url)
        with running(here, "serve", "--json", last='"ready"') as (process, printed):
            [url] = json.loads(printed.splitlines()[-1])["listen"]
            assert stream(url, secret).endswith("data: [DONE]\n\n")
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
        assert json.loads(run(here, "ledger", "audit", "--json"))["captured"] == 1
    database.drop()
