"""What those who watch a service are told: on a bind of their own, of a parent that stands still, of stuck workers."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.serve.served import COMMAND, Served, until

from tests import child

pytestmark = [pytest.mark.system, pytest.mark.slow]

HUNG_S = 1
SETTINGS = f"""
workers = 2
at_once = 1
hung_after_s = {HUNG_S}
health_path = "/healthz"
metrics_path = "/metrics"
alive_path = "/alive"
"""


class Watched(Served):
    """With a bind of its own for those who watch it."""

    def __init__(self, folder: Path, application: str, settings: str) -> None:
        self.inner = child.free_port()
        super().__init__(folder, application, f'{settings}\nmetrics_bind = ["127.0.0.1:{self.inner}"]\n')

    def asked(self, path: str, *, port: int = 0) -> tuple[int, str]:
        """Status and text; 0 = no answer."""
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port or self.inner, timeout=3)) as connection:
            try:
                connection.request("GET", path)
                answer = connection.getresponse()
                return answer.status, answer.read().decode()
            except OSError:
                return 0, ""


@pytest.fixture(params=["held:app", "looped:app"], ids=["wsgi", "asgi"])
def watched(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Watched]:
    with Watched(tmp_path, request.param, SETTINGS) as watched:
        yield watched


def test_the_inner_bind_has_what_watches_need_and_clients_reach_none_of_it(watched: Watched) -> None:
    until(lambda: watched.asked("/alive")[0] == 200)
    assert watched.asked("/healthz") == (200, "ok\n")
    assert "greenlane_serve_workers" in watched.asked("/metrics")[1]
    assert watched.asked("/")[0] == 404
    assert "greenlane_serve" not in watched.asked("/metrics", port=watched.port)[1]
    assert watched.asked("/healthz", port=watched.port)[0] == 200
    watched.reload()()
    until(lambda: watched.asked("/alive")[0] == 200)


def test_a_parent_that_stands_still_is_not_alive(watched: Watched) -> None:
    until(lambda: watched.asked("/alive")[0] == 200)
    os.kill(watched.process.pid, signal.SIGSTOP)
    try:
        assert watched.get("/x")
        assert watched.asked("/alive")[0] != 200
    finally:
        os.kill(watched.process.pid, signal.SIGCONT)
    until(lambda: watched.asked("/alive")[0] == 200)


def test_a_worker_all_of_whose_places_are_held_is_told_and_stays(watched: Watched) -> None:
    pid = watched.hold("/long").begun()
    watched.process.wait_output(rf"\(pid {pid}\) is stuck: it has ended none of its 1 requests", timeout_s=20)
    watched.process.wait_output(r"in hold|in app", timeout_s=10)
    time.sleep(1.5)
    assert watched.process.output.count("is stuck") == 1
    assert pid in watched.workers()
    watched.finish()


def test_a_stuck_worker_is_replaced_if_asked(watched: Watched) -> None:
    watched.configure(f'{SETTINGS}replace_stuck = true\nmetrics_bind = ["127.0.0.1:{watched.inner}"]\n')
    watched.reload()()
    with contextlib.closing(watched.connection()) as connection:
        connection.request("POST", "/hold?for-ever")  # not safe to send twice
        until(lambda: "for-ever" in watched.order())
        pid = int((watched.folder / "for-ever.begun").read_text())
        assert connection.getresponse().status == 502
    until(lambda: pid not in watched.workers())
    watched.serving(2)


def test_systemd_s_watchdog_hears_of_a_parent_that_turns(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(10)
        environ = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "400000"}
        with Served(tmp_path, "held:app", "workers = 1\n", environ=environ):
            until(lambda: systemd.recv(200) == b"READY=1")
            assert [systemd.recv(200) for _ in range(3)] == [b"WATCHDOG=1"] * 3


def test_the_state_is_in_the_runtime_directory_and_found_there(tmp_path: Path) -> None:
    """As under systemd with PrivateTmp: a command from outside has another /tmp, and no such variable."""
    run = Path(f"/run/greenlane-test-{os.getpid()}")
    try:
        run.mkdir()
    except OSError:
        pytest.skip("needs a directory in /run")
    try:
        with Served(tmp_path, "held:app", "workers = 1\n", environ={"RUNTIME_DIRECTORY": str(run)}) as served:
            assert served.run_folder().parent == run
            command = [sys.executable, "-c", COMMAND, "serve", "--status", "--bind", f"127.0.0.1:{served.port}"]
            environ = {**os.environ, "TMPDIR": str(tmp_path)}
            done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=30, check=False)
            assert "shared/w1" in done.stdout, done.stderr
        assert list(run.glob("*")) in ([], [run / f"greenlane-{os.getuid()}"])
    finally:
        subprocess.run(["rm", "-rf", str(run)], check=True)
