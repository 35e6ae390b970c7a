"""What health says, boots that hang, workers that are all gone, and an end within its time: with real programs."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.serve.served import Served, until

pytestmark = [pytest.mark.system, pytest.mark.slow]

BOOT_S = 6
QUEUE_S = 3
STOP_S = 5
SETTINGS = f"""
workers = 2
at_once = 1
boot_s = {BOOT_S}
queue_s = {QUEUE_S}
stop_s = {STOP_S}
health_path = "/healthz"
retry_after_s = 7

[lanes.own]
match = ["/own*"]
kind = "hard"
processes = 1
"""


@pytest.fixture
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("served"), "held:app", SETTINGS, "--kind", "wsgi") as served:
        yield served


def test_health_and_those_who_wait_learn_that_no_worker_lives(served: Served) -> None:
    """Of either lane: all that is left of it is killed, and the next ones do not load."""
    until(lambda: status(served) == 200)
    (served.folder / "broken").touch()
    waiting = [served.get("/own").split()[0]]
    os.kill(int(waiting[0]), signal.SIGKILL)
    until(lambda: status(served) == 503)
    assert served.get("/shared")
    began_s = time.monotonic()
    with ThreadPoolExecutor(3) as pool:  # one reaches the dead one's socket, the others wait in the queue
        answers = list(pool.map(lambda _: said(served, "/own"), range(3)))
    assert answers == [(503, "7")] * 3
    assert time.monotonic() - began_s < 3 * QUEUE_S, "they wait side by side"
    (served.folder / "broken").unlink()
    until(lambda: status(served) == 200)
    assert served.get("/own")


def test_a_hung_import_at_a_reload_is_killed_and_named_and_keeps_no_reload_from_coming(served: Served) -> None:
    before = set(served.workers())
    (served.folder / "stuck").touch()
    served.process.signal(signal.SIGHUP)
    served.process.wait_output(rf"does not start: it has not said in {BOOT_S} s", timeout_s=30)
    served.process.wait_output(r"held.py.*in <module>", timeout_s=10)
    assert served.get("/shared")
    (served.folder / "stuck").unlink()
    served.reload()()
    assert not before & set(served.workers())


def test_a_reload_takes_the_place_of_one_that_hangs_and_the_end_does_not_wait_for_it(served: Served) -> None:
    served.configure(SETTINGS.replace(f"boot_s = {BOOT_S}", "boot_s = 600"))
    (served.folder / "stuck").touch()
    served.process.signal(signal.SIGHUP)
    until(lambda: len(served.workers()) > 2)
    (served.folder / "stuck").unlink()
    served.reload()()
    (served.folder / "stuck").touch()
    served.process.signal(signal.SIGHUP)
    until(lambda: len(served.workers()) > 2)
    served.process.signal(signal.SIGTERM)
    assert served.process.wait_exit(timeout_s=5) == 0


def test_the_end_waits_for_requests_and_not_for_connections(served: Served) -> None:
    held = served.hold("/long")
    held.begun()
    with contextlib.closing(socket.create_connection(("127.0.0.1", served.port))) as idle:
        idle.sendall(b"GET /own HTTP/1.1\r\nHost: a\r\n\r\n")
        assert idle.recv(4096).startswith(b"HTTP/1.1 200")
        served.process.signal(signal.SIGTERM)
        until(lambda: refused(served))
        held.let_go()
        ended_s = time.monotonic()
        assert served.process.wait_exit(timeout_s=20) == 0
        assert time.monotonic() - ended_s < STOP_S, "the idle connection is not waited for"


def test_the_end_takes_stop_s_in_all(served: Served) -> None:
    """Also when a request never ends, and its worker neither."""
    with contextlib.closing(served.connection()) as held:
        held.request("GET", "/hold?for-ever")
        until(lambda: "for-ever" in served.order())
        began_s = time.monotonic()
        served.process.signal(signal.SIGTERM)
        assert served.process.wait_exit(timeout_s=30) == 0
        assert time.monotonic() - began_s < 2 * STOP_S, "not for the request, and then for the worker"


def status(served: Served) -> int:
    return said(served, "/healthz")[0]


def said(served: Served, path: str) -> tuple[int, str]:
    """Status, Retry-After."""
    with contextlib.closing(served.connection()) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.headers.get("Retry-After", "")


def refused(served: Served) -> bool:
    try:
        socket.create_connection(("127.0.0.1", served.port)).close()
    except OSError:
        return True
    return False
