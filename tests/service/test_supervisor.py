"""Several workers behind one port: real processes, real signals, loopback sockets."""

from __future__ import annotations

import http.client
import itertools
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, NamedTuple

import psutil
import pytest
import trio

from hoptrio.ledger.ledger import open_ledger
from hoptrio.service.supervisor import Settings, Supervisor
from tests.support.certificates import Certificates
from tests.support.eventually import eventually
from tests.support.running import simulator

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = """
[server]
listen = "127.0.0.1:0"
workers = {workers}
shutdown_grace_seconds = {grace}
{more}
[ledger]
url = "sqlite:///ledger.db"
[models.m]
input = "1"
output = "2"
max_input_tokens = 1000
max_output_tokens = 100
[channels.c]
protocols = ["chat"]
base_url = "{provider}/v1"
api_key = "k"
models = ["m"]
"""


@pytest.fixture(scope="module")
def provider():
    with simulator() as url:
        yield url


class Answer(NamedTuple):
    status: int
    text: str


class Service:
    """``hoptrio serve`` in a directory of its own, with an account and a key."""

    def __init__(
        self, folder: Path, provider: str, workers: int, grace: float, more: str, early=lambda _: None
    ) -> None:
        self.folder, self.provider = folder, provider
        self.log = folder / "log"
        self.write_config(workers, grace, more)
        self.secret = trio.run(self._fill)
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "hoptrio", "serve", "--config", str(folder / "hoptrio.toml"), "--json"],
                stdout=subprocess.PIPE,
                stderr=log,
            )
        self.root = psutil.Process(self.process.pid)
        early(self.root)
        alarm = threading.Timer(30, self.process.kill)
        alarm.start()
        line = self.process.stdout.readline()
        alarm.cancel()
        if not line:
            self.process.stdout.close()
            self.process.wait()
            pytest.fail(self.log.read_text())
        told = json.loads(line)
        [self.url] = told["listen"]
        #: Of the control plane, "" if it is not served.
        self.control = next(iter(told["control"]), "")

    def write_config(self, workers: int, grace: float, more: str = "") -> None:
        text = CONFIG.format(provider=self.provider, workers=workers, grace=grace, more=more)
        (self.folder / "hoptrio.toml").write_text(text)

    async def _fill(self) -> str:
        async with open_ledger(f"sqlite:///{self.folder}/ledger.db") as ledger:
            await ledger.create_account("acme", 10**12)
            return (await ledger.create_key("acme"))[1]

    def workers(self) -> set[int]:
        return {child.pid for child in self.root.children()}

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.url.removeprefix("http://"), timeout=30)

    def call(self, prompt: str = "sim: events=2 pace=1ms", on: http.client.HTTPConnection | None = None) -> Answer:
        """A stream to its end, on a connection of its own or on the one given."""
        body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": prompt}]}
        connection = on or self.connect()
        try:
            connection.request(
                "POST", "/v1/chat/completions", json.dumps(body), {"authorization": f"Bearer {self.secret}"}
            )
            with connection.getresponse() as response:
                return Answer(response.status, response.read().decode())
        finally:
            if on is None:
                connection.close()

    def in_background(self, prompt: str) -> threading.Thread:
        """A call whose end nobody waits for."""

        def work() -> None:
            try:
                self.call(prompt)
            except (http.client.HTTPException, OSError):
                return

        thread = threading.Thread(target=work)
        thread.start()
        return thread

    def ask(self, sql: str) -> int:
        with closing(sqlite3.connect(self.folder / "ledger.db", timeout=5)) as connection:
            return connection.execute(sql).fetchone()[0]

    def open_holds(self) -> int:
        return self.ask("SELECT count(*) FROM holds WHERE state = 'open'")

    def settled_by(self, reason: str) -> int:
        return self.ask(f"SELECT count(*) FROM holds WHERE reason = '{reason}'")

    async def leave(self, nanos: int) -> None:
        """Take all but `nanos` from the account."""
        async with open_ledger(f"sqlite:///{self.folder}/ledger.db") as ledger:
            account = await ledger.account("acme")
            await ledger.adjust("acme", nanos - account.available_nanos, "for this test")

    def lowest_until(self, over: threading.Event) -> int:
        """The least that was available at any commit seen."""
        lowest = []
        while not over.is_set():
            lowest.append(self.ask("SELECT min(balance_nanos - held_nanos) FROM accounts"))
        return min(lowest)

    def audit(self) -> list[str]:
        async def work() -> list[str]:
            async with open_ledger(f"sqlite:///{self.folder}/ledger.db") as ledger:
                return list((await ledger.audit()).violations)

        return trio.run(work)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)


@pytest.fixture
def serving(tmp_path, provider):
    @contextmanager
    def serving(workers: int, *, grace: float = 10, more: str = "", early=lambda _: None):
        service = Service(tmp_path, provider, workers, grace, more, early)
        before = service.root.children()
        try:
            yield service
        finally:
            left = [*before, *(service.root.children() if service.root.is_running() else []), service.root]
            service.process.terminate()
            _, alive = psutil.wait_procs(left, timeout=20)
            for each in alive:
                each.kill()
            service.process.wait(5)
            service.process.stdout.close()

    return serving


def test_a_killed_worker_is_replaced_and_its_holds_are_resolved(serving):
    with serving(2) as service:
        before = service.workers()
        streams = [service.in_background("sim: events=2 pace=20s") for _ in range(4)]
        eventually(lambda: service.open_holds() == 4)
        owners = service.ask("SELECT group_concat(owner) FROM holds")
        victim = next(pid for pid in before if f":{pid}:" in owners)
        os.kill(victim, signal.SIGKILL)
        eventually(lambda: len(service.workers() - {victim}) == 2)
        eventually(lambda: service.settled_by("orphaned") > 0)
        assert service.open_holds() + service.settled_by("orphaned") == 4
        assert service.call().text.endswith("data: [DONE]\n\n")
        service.process.terminate()
        eventually(lambda: "draining" in service.log.read_text())
        # The streams need not run to their end.
        service.process.terminate()
        for stream in streams:
            stream.join()


def test_a_rolling_restart_under_load_loses_no_request(serving):
    with serving(2) as service:
        before = service.workers()
        over = threading.Event()

        def hammer(keep_alive: bool) -> int:
            done = 0
            with closing(service.connect()) as connection:
                while not over.is_set():
                    answer = service.call(on=connection if keep_alive else None)
                    assert answer.status == 200
                    assert answer.text.endswith("data: [DONE]\n\n")
                    done += 1
            return done

        with ThreadPoolExecutor(4) as pool:
            clients = [pool.submit(hammer, keep_alive=i % 2 == 0) for i in range(4)]
            service.process.send_signal(signal.SIGHUP)
            try:
                eventually(lambda: len(service.workers()) == 2 and not service.workers() & before)
            finally:
                over.set()
            counts = [client.result() for client in clients]
        assert min(counts) > 0
        assert service.stop() == 0
        assert service.audit() == []


def test_sigterm_drains_every_worker_and_exits_0(serving):
    with serving(2) as service:
        with ThreadPoolExecutor(4) as pool:
            streams = [pool.submit(service.call, "sim: events=3 pace=300ms") for _ in range(4)]
            eventually(lambda: service.open_holds() == 4)
            assert service.stop() == 0
            assert all(stream.result().text.endswith("data: [DONE]\n\n") for stream in streams)
        assert service.ask("SELECT count(*) FROM holds WHERE state = 'captured'") == 4


def test_workers_end_with_a_supervisor_that_was_killed(serving):
    with serving(2, grace=600) as service:
        workers = [psutil.Process(pid) for pid in service.workers()]
        stream = service.in_background("sim: events=2 pace=60s")
        eventually(lambda: service.open_holds() == 1)
        service.process.kill()
        _, alive = psutil.wait_procs(workers, timeout=20)
        assert not alive
        stream.join()
        assert (service.open_holds(), service.settled_by("shutdown")) == (0, 1)


def test_a_broken_config_changes_nothing(serving):
    with serving(2) as service:
        before = service.workers()
        (service.folder / "hoptrio.toml").write_text("[server]\nworkers = 0\n")
        service.process.send_signal(signal.SIGHUP)
        eventually(lambda: "reload refused" in service.log.read_text())
        assert service.workers() == before
        # A worker that is started now runs with the config that was checked.
        victim = min(before)
        os.kill(victim, signal.SIGKILL)
        eventually(lambda: service.log.read_text().count("worker started") == 3)
        eventually(lambda: len(service.workers() - {victim}) == 2)
        assert service.call().status == 200
        assert service.stop() == 0


TLS = """
tls_certificate = "chain.pem"
tls_key = "key.pem"
[control]
listen = "127.0.0.1:0"
token = "t"
tls_certificate = "chain.pem"
tls_key = "key.pem"
"""


def shown(url, path, trusting):
    """The certificate of a new connection, and how a request on it is answered."""
    place = url.removeprefix("https://")
    with closing(http.client.HTTPSConnection(place, context=trusting, timeout=30)) as connection:
        connection.request("GET", path)
        with connection.getresponse() as response:
            return connection.sock.getpeercert(binary_form=True), response.status


@pytest.mark.timeout(120)
def test_workers_speak_https_and_those_that_replace_them_show_the_new_certificate(serving, tmp_path):
    certificates = Certificates(tmp_path)
    trusting = certificates.trusting()

    def both(service):
        return {shown(service.url, "/readyz", trusting), shown(service.control, "/login", trusting)}

    with serving(2, more=TLS) as service:
        assert service.url.startswith("https://")
        assert service.control.startswith("https://")
        old, before = certificates.der, service.workers()
        assert both(service) == {(old, 200)}
        (tmp_path / "key.pem").rename(tmp_path / "kept.pem")
        service.process.send_signal(signal.SIGHUP)
        eventually(lambda: "server.tls_key: there is no file key.pem" in service.log.read_text())
        assert both(service) == {(old, 200)}
        assert service.workers() == before
        new = certificates.renew()
        service.process.send_signal(signal.SIGHUP)
        eventually(lambda: len(service.workers() - before) == 2 and not service.workers() & before)
        assert both(service) == {(new, 200)}
        assert service.stop() == 0


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (
            lambda folder: (folder / "chain.pem").write_text("half of it"),
            "server.tls_certificate: holds no certificate in PEM",
        ),
        (
            lambda folder: (folder / "token").unlink(),
            "control.token: the file {folder}/token cannot be read (FileNotFoundError)",
        ),
    ],
    ids=["certificate", "secret"],
)
def test_workers_that_crash_after_a_refused_reload_come_back_with_what_was_checked(serving, tmp_path, spoil, told):
    certificates = Certificates(tmp_path)
    trusting, old = certificates.trusting(), certificates.der
    (tmp_path / "token").write_text("canary-token\n")
    with serving(2, more=TLS.replace('"t"', '"file:token"')) as service:
        before = service.workers()
        spoil(tmp_path)
        service.process.send_signal(signal.SIGHUP)
        eventually(lambda: told.format(folder=tmp_path) in service.log.read_text())
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        # Connections wait for those that come back, if they do.
        assert shown(service.url, "/healthz", trusting) == (old, 200)
        assert opens(service.control, "canary-token", trusting)
        eventually(lambda: len(service.workers() - before) == 2 and not service.workers() & before)
        assert service.stop() == 0
        assert "canary-token" not in service.log.read_text()


def opens(url, token, trusting):
    """Whether the control plane answers to this token."""
    place = url.removeprefix("https://")
    with closing(http.client.HTTPSConnection(place, context=trusting, timeout=30)) as connection:
        connection.request("GET", "/api/contracts", headers={"authorization": f"Bearer {token}"})
        with connection.getresponse() as response:
            return response.status == 200


def test_a_worker_shows_the_certificate_of_the_others_before_a_reload_takes_the_new_one(serving, tmp_path):
    certificates = Certificates(tmp_path)
    trusting, old = certificates.trusting(), certificates.der
    with serving(2, more=TLS) as service:
        new, before = certificates.renew(), service.workers()
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        assert shown(service.url, "/healthz", trusting) == (old, 200)
        eventually(lambda: len(service.workers() - before) == 2)
        before = service.workers()
        service.process.send_signal(signal.SIGHUP)
        eventually(lambda: len(service.workers() - before) == 2 and not service.workers() & before)
        assert shown(service.url, "/healthz", trusting) == (new, 200)
        assert service.stop() == 0


def test_sighup_takes_over_the_number_of_workers(serving):
    with serving(2) as service:
        before = service.workers()
        service.write_config(workers=1, grace=10)
        service.process.send_signal(signal.SIGHUP)
        eventually(lambda: len(service.workers()) == 1 and not service.workers() & before)
        assert service.stop() == 0


def test_what_waits_for_a_restart_is_told_and_workers_open_no_control_plane_of_their_own(serving):
    with serving(2) as service:
        before = service.workers()
        service.write_config(workers=2, grace=10, more='[control]\nlisten = "127.0.0.1:0"\ntoken = "t"\n')
        service.process.send_signal(signal.SIGHUP)
        eventually(lambda: len(service.workers() - before) == 2 and not service.workers() & before)
        told = [json.loads(line) for line in service.log.read_text().splitlines() if "wait for a restart" in line]
        assert [(each["level"], each["keys"]) for each in told] == [("warning", ["control.listen", "control.token"])]
        for pid in service.workers():
            sockets = psutil.Process(pid).net_connections()
            assert len([each for each in sockets if each.status == psutil.CONN_LISTEN]) == 1
        assert service.call().status == 200
        assert service.stop() == 0


def test_case_68_a_balance_for_three_holds_over_four_workers_places_three(serving):
    prompt = "sim: events=2 pace={}"
    with serving(4, grace=600) as service, ThreadPoolExecutor(51) as pool:
        service.call(prompt.format("1ms"))
        hold_nanos = service.ask("SELECT amount_nanos FROM holds")
        trio.run(service.leave, 3 * hold_nanos)
        over = threading.Event()
        watching = pool.submit(service.lowest_until, over)
        # Those that are placed hold on until every other has been refused.
        calls = [pool.submit(service.call, prompt.format("60s")) for _ in range(50)]
        refused = [call.result().status for call in itertools.islice(as_completed(calls, timeout=30), 47)]
        placed = [call for call in calls if not call.done()]
        over.set()
        assert refused == [402] * 47
        assert (len(placed), service.open_holds()) == (3, 3)
        assert watching.result() == 0
        service.process.terminate()
        eventually(lambda: service.log.read_text().count("draining") == 4)
        service.process.terminate()
        assert all(isinstance(call.exception(), http.client.IncompleteRead) for call in placed), "cut, as it should be"
        assert service.audit() == []


def test_new_connections_are_refused_while_running_streams_end(serving):
    with serving(2, grace=600) as service, ThreadPoolExecutor(1) as pool:
        stream = pool.submit(service.call, "sim: events=4 pace=1s")
        eventually(lambda: service.open_holds() == 1)
        service.process.terminate()
        eventually(lambda: service.log.read_text().count("draining") == 2)
        eventually(lambda: refuses(service))
        assert stream.result().status == 200
        assert service.stop() == 0


def refuses(service):
    """Whether a new connection is refused; one that is accepted and then left alone is not."""
    connection = service.connect()
    try:
        connection.connect()
    except ConnectionRefusedError:
        return True
    finally:
        connection.close()
    return False


def test_a_second_sigterm_ends_the_grace_on_every_worker(serving):
    with serving(2, grace=600) as service:
        streams = [service.in_background("sim: events=2 pace=60s") for _ in range(4)]
        eventually(lambda: service.open_holds() == 4)
        service.process.terminate()
        eventually(lambda: service.log.read_text().count("draining") == 2)
        assert service.stop() == 0
        assert service.settled_by("shutdown") == 4
        for stream in streams:
            stream.join()


def test_a_signal_to_the_whole_group_leaves_running_streams_their_grace(serving):
    with serving(2) as service, ThreadPoolExecutor(4) as pool:
        streams = [pool.submit(service.call, "sim: events=3 pace=300ms") for _ in range(4)]
        eventually(lambda: service.open_holds() == 4)
        for pid in service.workers():
            os.kill(pid, signal.SIGINT)
        assert service.stop() == 0
        assert all(stream.result().text.endswith("data: [DONE]\n\n") for stream in streams)


def test_what_workers_are_given_is_not_part_of_a_repr():
    assert "hush" not in repr(Settings(b"hush", 2, 1.0))


# -- the supervisor alone, with workers that behave as they are told ------------------------------------------------

SUPERVISE = """
import sys
from hoptrio.service.logs import set_up_logs
from hoptrio.service.supervisor import Settings, Supervisor

set_up_logs()
kill_after_s, worker = float(sys.argv[1]), sys.argv[2]
settings = Settings(b"", 1, 0.0)
supervisor = Supervisor(
    [sys.executable, "-c", worker], [], settings,
    reload=lambda: settings, on_ready=lambda: print("ready", flush=True), kill_after_s=kill_after_s,
)
assert "trio" not in sys.modules
sys.exit(supervisor.run())
"""
READY = """
import os, signal, sys, time
told = dict(zip(sys.argv[1::2], sys.argv[2::2]))
os.write(int(told["--ready-fd"]), b"+")
"""


@contextmanager
def supervising(worker: str, *, kill_after_s: float = 10.0):
    command = [sys.executable, "-c", SUPERVISE, str(kill_after_s), worker]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_worker_that_ignores_sigterm_is_killed():
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)" + READY + "time.sleep(60)"
    with supervising(deaf, kill_after_s=0.2) as process:
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        assert process.wait(20) == 1
        assert "worker killed" in process.stderr.read()


def test_a_worker_that_crashes_again_and_again_is_restarted_more_and_more_slowly(tmp_path):
    flag = tmp_path / "crash"
    with supervising(READY + f"while not os.path.exists({str(flag)!r}): time.sleep(0.01)\nsys.exit(3)") as process:
        assert process.stdout.readline() == "ready\n"
        flag.touch()
        found: list[float] = []
        while len(found) < 4:
            line = process.stderr.readline()
            assert line, "it has ended"
            found += map(float, re.findall(r"restart_s\D+([0-9.]+)", line))
        process.terminate()
        assert process.wait(20) == 0
    assert found == [0.1, 0.2, 0.4, 0.8]


def test_workers_that_do_not_start_at_all_end_the_service():
    with supervising("import sys; sys.exit(2)") as process:
        assert process.wait(20) == 2
        assert process.stdout.read() == ""


def test_a_worker_that_cannot_be_started_leaves_no_descriptor_open() -> None:
    settings = Settings(b"", 1, 1.0)
    supervisor = Supervisor(["/no/such/program"], [], settings, reload=lambda: settings, on_ready=lambda: None)
    before = os.listdir("/proc/self/fd")
    with open(os.devnull) as lifeline:
        supervisor._staff(lifeline.fileno(), 0.0)
    assert os.listdir("/proc/self/fd") == before


@pytest.mark.parametrize(("workers", "done"), [(1, "reloaded"), (2, "replacing workers")])
def test_a_reload_that_is_asked_for_while_the_gateway_starts_is_done_when_it_has(workers, done, serving):
    def keeps_hangups(process):
        with open(f"/proc/{process.pid}/status") as status:
            blocked = int(re.search(r"^SigBlk:\s*(\w+)$", status.read(), re.MULTILINE)[1], 16)
        return blocked >> (signal.SIGHUP - 1) & 1

    def early(process):
        eventually(lambda: keeps_hangups(process))
        process.send_signal(signal.SIGHUP)

    with serving(workers, early=early) as service:
        eventually(lambda: done in service.log.read_text())
        eventually(lambda: service.call().text.endswith("data: [DONE]\n\n"))
        assert service.stop() == 0
