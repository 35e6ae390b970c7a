"""Without a front: workers accept clients themselves, and are replaced and ended as behind one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.serve.served import APPS, COMMAND, Clients, Served, children, until
from tests.serve.test_serve_health import refused

from tests import child

pytestmark = [pytest.mark.system, pytest.mark.slow]

SETTINGS = 'workers = 2\ndirect = true\nhealth_path = "/healthz"\nstop_s = 5\n'


class Alone(Served):
    """Workers of a service that has no front to ask."""

    def serving(self, number: int) -> None:
        until(lambda: len(self.workers()) == number)


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Alone]:
    with Alone(tmp_path, "looped:app", SETTINGS) as served:
        yield served


@pytest.mark.gate
def test_workers_answer_with_the_client_s_own_address_and_no_front_runs(alone: Alone) -> None:
    headers = {"X-Forwarded-For": "1.2.3.4", "X-Forwarded-Proto": "https", "grpc-timeout": "1n"}
    pid, client, scheme = alone.get("/x", headers=headers).split()
    assert int(pid) in alone.workers()
    assert (client, scheme) == ("127.0.0.1", "http")
    assert alone.get("/healthz") == "ok\n"
    assert sorted(children(alone.process.pid)) == sorted(alone.workers())


def test_a_reload_and_a_death_lose_no_request_that_is_safe_to_send_again(alone: Alone) -> None:
    """A kept connection may end between two requests, as under any server: here each has its own."""
    before = set(alone.workers())
    with Clients(alone, kept=0, new=4) as clients:
        clients.some_more()
        alone.reload()()
        clients.some_more()
    assert clients.failures == []
    until(lambda: not before & set(alone.workers()))
    os.kill(alone.workers()[0], signal.SIGKILL)
    until(lambda: len(alone.workers()) == 2)
    assert alone.get("/x")


def test_the_end_waits_for_requests_within_stop_s(alone: Alone) -> None:
    held = alone.hold("/long")
    held.begun()
    alone.process.signal(signal.SIGTERM)
    until(lambda: refused(alone))
    held.let_go()
    assert alone.process.wait_exit(timeout_s=10) == 0


@pytest.mark.parametrize(
    ("application", "further", "named"),
    [
        ("held:app", "", "direct"),
        ("looped:app", 'lanes.soon = { match = ["/soon*"] }\n', "lanes"),
        ("looped:app", "headers_max = 20\n", "headers_max"),
    ],
)
def test_what_only_a_front_does_is_refused_by_name(tmp_path: Path, application: str, further: str, named: str) -> None:
    (tmp_path / "greenlane.toml").write_text(SETTINGS + further)
    environ = {**os.environ, "GREENLANE_CONFIG": str(tmp_path / "greenlane.toml"), "HELD": str(tmp_path)}
    command = [sys.executable, "-c", COMMAND, "serve", application, "--bind", f"127.0.0.1:{child.free_port()}"]
    done = subprocess.run(command, cwd=APPS, env=environ, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode != 0
    assert f"{named}=" in done.stderr
