"""The image as compose.yaml runs it: a user of its own, a root file system that is read-only, and an engine's signals.

Nothing is published: the containers have a loopback of their own, which they share with the simulated provider.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import threading
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path

import pytest
import yaml

from tests.support.deployment import as_toml, config_for

IMAGE = os.environ["HOPTRIO_IMAGE"]
ENGINE = shlex.split(os.environ.get("HOPTRIO_ENGINE", "podman"))
COMPOSE = Path(__file__).resolve().parents[2] / "contrib" / "container" / "compose.yaml"
STATE = "/var/lib/hoptrio"
CALL_S = 60.0
#: Until a container is ready, or has ended.
WAIT_S = 50.0

pytestmark = pytest.mark.timeout(180)

_numbers = count(1)

#: Told by a client inside the network: the status, then a line for every line of the stream.
CLIENT = """
import http.client, json, sys
secret, prompt = sys.argv[1:]
body = {"model": "sim-small", "stream": True, "messages": [{"role": "user", "content": prompt}]}
connection = http.client.HTTPConnection("127.0.0.1", 8080, timeout=50)
connection.request("POST", "/v1/chat/completions", json.dumps(body), {"authorization": f"Bearer {secret}"})
answer = connection.getresponse()
print(answer.status, flush=True)
for line in answer:
    print(line.decode().strip(), flush=True)
"""
#: A child whose parent ends before it: process 1 gets it. The child ends when our standard input does.
ORPHAN = """
import os, sys
if os.fork() == 0:
    if os.fork():
        os._exit(0)
    print(os.getpid(), flush=True)
    sys.stdin.read()
    os._exit(0)
os.wait()
"""
#: Prints the process id of every worker in the container.
WORKERS = r"""
import pathlib
for line in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
    if b"\0-m\0hoptrio\0worker\0" in line.read_bytes():
        print(line.parent.name)
"""


def engine(*words, check=True):
    """A command of the engine; how it ended, and what it printed."""
    done = subprocess.run([*ENGINE, *words], capture_output=True, text=True, check=False, timeout=CALL_S)
    assert not check or done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done


def as_compose_does():
    """The options of `run` that are the compose file's."""
    service = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"]["hoptrio"]
    flags = [f"--{name.replace('_', '-')}" for name in ("init", "read_only") if service[name]]
    lists = {"tmpfs": "--tmpfs", "cap_drop": "--cap-drop", "security_opt": "--security-opt"}
    return flags + [word for name, option in lists.items() for value in service[name] for word in (option, value)]


class Container:
    """One that runs until the block ends."""

    def __init__(self, name):
        self.name = name

    def exec(self, *words, check=True):
        """A command in it."""
        return engine("exec", self.name, *words, check=check)

    def hoptrio(self, *words):
        """What a command of hoptrio says as JSON."""
        return json.loads(self.exec("hoptrio", *words, "--json").stdout)

    def healthy(self):
        """What the engine would find out about it."""
        [found] = json.loads(engine("inspect", self.name).stdout)
        kind, *command = found["Config"]["Healthcheck"]["Test"]
        assert kind == "CMD"
        return self.exec(*command, check=False).returncode == 0

    def send(self, signal):
        engine("kill", "--signal", signal, self.name)

    def status(self):
        """Its exit status, once it has ended."""
        return int(engine("wait", self.name).stdout)

    def workers(self):
        """The ids of its workers."""
        return set(self.exec("python", "-c", WORKERS).stdout.split())


@contextmanager
def container(*words, network="none", options=()):
    """A container of the image that does `words`, and the process that follows its output."""
    name = f"hoptrio-test-{os.getpid()}-{next(_numbers)}"
    argv = ["run", "--name", name, "--network", network, *as_compose_does(), *options, IMAGE, *words]
    with subprocess.Popen([*ENGINE, *argv], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            yield Container(name), process.stdout
        finally:
            engine("rm", "--force", "--volumes", name)


def await_line(output, part):
    """The first line that holds `part`; nothing is left unread behind it."""
    alarm = threading.Timer(WAIT_S, output.close)
    alarm.start()
    try:
        line = next(line for line in output if part in line)
    finally:
        alarm.cancel()
    threading.Thread(target=output.read, daemon=True).start()
    return line


class Place:
    """A network with a provider in it, a config, and a volume for what a gateway writes."""

    def __init__(self, provider, folder, volume):
        self.provider = provider
        self.folder = folder
        self.volume = volume
        self.config = config_for("http://127.0.0.1:8090")
        self.config["server"] |= {"listen": "127.0.0.1:8080", "spool_dir": f"{STATE}/spool"}
        self.config["ledger"] = {"url": f"sqlite:///{STATE}/hoptrio.db"}

    def write_config(self):
        """As an editor does: a new file in the place of the old one."""
        written = self.folder / "new"
        written.write_text(as_toml(self.config))
        written.chmod(0o644)
        written.rename(self.folder / "hoptrio.toml")

    @contextmanager
    def gateway(self, workers=1):
        """A gateway that is ready."""
        self.config["server"]["workers"] = workers
        self.write_config()
        options = ["--volume", f"{self.folder}:/etc/hoptrio:ro", "--volume", f"{self.volume}:{STATE}"]
        network = f"container:{self.provider.name}"
        with container("serve", "--json", network=network, options=options) as (gateway, output):
            await_line(output, '"ready"')
            yield gateway

    def secret(self, gateway):
        """Of the key of a new account."""
        gateway.hoptrio("account", "create", "acme", "--deposit", "10")
        return gateway.hoptrio("key", "create", "--account", "acme")["secret"]

    @contextmanager
    def stream(self, secret, prompt):
        """A stream whose first event has come; yields the lines of the rest."""
        argv = [*ENGINE, "exec", self.provider.name, "python", "-c", CLIENT, secret, prompt]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            assert process.stdout.readline() == "200\n"
            assert process.stdout.readline().startswith("data: ")
            yield process.stdout


@pytest.fixture
def place(tmp_path):
    tmp_path.chmod(0o755)
    volume = f"hoptrio-test-{os.getpid()}-{next(_numbers)}"
    with ExitStack() as stack:
        engine("volume", "create", volume)
        stack.callback(engine, "volume", "rm", volume)
        provider, output = stack.enter_context(container("simulate", "--listen", "127.0.0.1:8090"))
        await_line(output, "http://127.0.0.1:8090")
        yield Place(provider, tmp_path, volume)


def whole(lines):
    """The stream ended as its protocol says."""
    return [line for line in lines if line != "\n"][-1] == "data: [DONE]\n"


@pytest.mark.parametrize("workers", [1, 2])
def test_it_streams_as_a_user_that_can_write_its_state_and_nothing_else(place, workers):
    with place.gateway(workers) as gateway:
        with place.stream(place.secret(gateway), "hello") as lines:
            assert whole(lines)
        assert gateway.exec("id", "-u").stdout == "10001\n"
        assert gateway.exec("id", "-g").stdout == "10001\n"
        assert "CapEff:\t0000000000000000" in gateway.exec("cat", "/proc/self/status").stdout
        for folder in ("/", "/etc/hoptrio", "/opt/hoptrio"):
            assert "Read-only" in gateway.exec("touch", f"{folder}/x", check=False).stderr
        assert {"hoptrio.db", "hoptrio.health", "spool"} <= set(gateway.exec("ls", STATE).stdout.split())
        assert gateway.hoptrio("ledger", "audit")["captured"] == 1


@pytest.mark.parametrize("workers", [1, 2])
def test_a_stop_drains_and_an_unready_gateway_is_not_healthy(place, workers):
    assert not place.provider.healthy(), "nothing listens there"
    with place.gateway(workers) as gateway:
        secret = place.secret(gateway)
        assert gateway.healthy()
        with place.stream(secret, "sim: events=30 pace=100ms") as lines:
            gateway.send("TERM")
            assert not gateway.healthy()
            assert whole(lines)
        assert gateway.status() == 0
    with place.gateway() as gateway:
        audit = gateway.hoptrio("ledger", "audit")
        assert (audit["captured"], audit["open_holds"]) == (1, 0)


def test_the_next_container_settles_what_a_killed_one_left(place):
    with place.gateway(workers=2) as gateway, place.stream(place.secret(gateway), "sim: events=300 pace=100ms"):
        gateway.send("KILL")
        assert gateway.status() != 0
    with place.gateway(workers=2) as gateway:
        audit = gateway.hoptrio("ledger", "audit")
        while audit["open_holds"]:
            audit = gateway.hoptrio("ledger", "audit")
        assert (audit["ok"], audit["released"]) == (True, 1)


def test_a_reload_sees_a_file_that_was_replaced(place):
    with place.gateway(workers=2) as gateway:
        old = gateway.workers()
        place.config["server"]["workers"] = 3
        place.write_config()
        gateway.send("HUP")
        now = old
        while now & old or len(now) != 3:
            now = gateway.workers()
        assert gateway.healthy()


def test_a_stop_during_the_start_is_not_lost():
    with container("simulate") as (other, _):
        while engine("inspect", "--format", "{{.State.Running}}", other.name, check=False).stdout != "true\n":
            pass
        other.send("TERM")
        assert other.status() in (0, 128 + 15)


def test_orphans_are_reaped(place):
    argv = [*ENGINE, "exec", "--interactive", place.provider.name, "python", "-c", ORPHAN]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        orphan = process.stdout.readline().strip()
    while place.provider.exec("test", "-e", f"/proc/{orphan}", check=False).returncode == 0:
        pass
