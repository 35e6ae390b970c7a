"""`greenlane.health` names the right trouble, under real servers, with each trouble made on purpose."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import socket
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import child

HERE = Path(__file__).parent
AFTER_S = 0.5
CPU = Path("/sys/fs/cgroup/cpu")


@dataclass(frozen=True)
class Case:
    server: str
    route: str
    requests: int
    reason: str
    quota: float = 0


_HUNG = r"threads wait for an answer at troubled\.py:\d+ \(requests\.get\)"
CASES = {
    "loop": Case("uvicorn", "/loop", 1, r"event loop blocked \d+\.\d s by troubled\.py:\d+ \(time\.sleep\)"),
    "limiter": Case("uvicorn", "/limiter", 60, r"\d+ of 40 threads compute in troubled\.py:\d+ \(hashlib\.scrypt\)"),
    "executor": Case("uvicorn", "/executor", 60, r"\d+ of \d+ threads wait at .* for \d+\.\d s; \d+ waiting"),
    "connections": Case(
        "uvicorn", "/connections", 15,
        r"pool of 5 connections \(SQLAlchemy\) exhausted: 10 threads wait for .*; held by troubled\.py:\d+ "
        r"\(time\.sleep\) in 5 threads",
    ),
    "quota": Case("uvicorn", "/burn", 3, r"no core: the CPU quota of 0\.2 cores throttles \d+ %", quota=0.2),
    "collector": Case("uvicorn", "/collector", 1, r"garbage collection takes \d{3} ms of each second"),
    "hog": Case("uvicorn", "/hog", 1, r"the GIL is held by (thread AnyIO worker|a thread that has started) "),
    "upstream": Case("gunicorn", "/upstream", 12, rf"8 of 8 {_HUNG}"),
    "stream": Case("gunicorn", "/stream", 12, r"8 of 8 threads send answers to slow clients"),
    "lock": Case("gunicorn", "/lock", 12, r"8 of 8 threads wait for a lock at troubled\.py:\d+ "),
    "sync": Case("gunicorn-sync", "/upstream", 1, rf"1 of 1 {_HUNG}"),
    "gevent": Case("gunicorn-gevent", "/burn", 1, r"event loop blocked \d+\.\d s by troubled\.py:\d+"),
    "aiohttp": Case("aiohttp", "/loop", 1, r"event loop blocked \d+\.\d s by troubled\.py:\d+ \(time\.sleep\)"),
    "greenlane": Case("greenlane", "/upstream", 12, rf"8 of 8 {_HUNG}"),
}  # fmt: skip
GATE = ("loop", "upstream")
MARKED = [pytest.param(name, marks=pytest.mark.gate if name in GATE else ()) for name in CASES]


def command(server: str, port: int) -> list[str]:
    if server == "uvicorn":
        return [sys.executable, "-m", "uvicorn", "--port", str(port), "--log-level", "warning", "troubled:asgi"]
    if server == "aiohttp":
        return [sys.executable, "troubled.py", str(port)]
    ours = "greenlane.hosts.gunicorn.Worker"
    kind = {"gunicorn": "gthread", "gunicorn-sync": "sync", "gunicorn-gevent": "gevent", "greenlane": ours}[server]
    address = ["-b", f"127.0.0.1:{port}", "--threads", "1" if kind == "sync" else "8", "--no-control-socket"]
    return [sys.executable, "-m", "gunicorn", "-k", kind, *address, "--log-level", "warning", "troubled:wsgi"]


def ask(port: int, path: str = "/ready", timeout_s: float = 5) -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
    with contextlib.closing(connection):
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


def ask_until(port: int, path: str, expected: Callable[[int, str], bool], timeout_s: float = 50) -> str:
    """The reason once status and reason are as expected."""
    until, told = time.monotonic() + timeout_s, ""
    while time.monotonic() < until:
        with contextlib.suppress(OSError, http.client.HTTPException):
            status, answer = ask(port, path)
            told = f"{status} {answer['reason']}"
            if expected(status, answer["reason"]):
                return str(answer["reason"])
    raise AssertionError(f"the last answer was {told}")


@contextlib.contextmanager
def cgroup() -> Iterator[Path]:
    """One of its own; what runs in it at the end goes back."""
    folder = CPU / f"greenlane-test-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("cgroups (v1) cannot be made here")
    try:
        yield folder
    finally:
        for task in (folder / "cgroup.procs").read_text().split():
            (CPU / "cgroup.procs").write_text(task)
        folder.rmdir()


@contextlib.contextmanager
def in_trouble(case: Case, free_ports: Callable[[], int], start_process: Any) -> Iterator[tuple[int, int]]:
    """(port of its health, port of the service): a server with these requests in progress."""
    port, health = free_ports(), free_ports()
    with contextlib.ExitStack() as held:
        silent = held.enter_context(socket.create_server(("127.0.0.1", child.free_port()), backlog=100))
        environment = {
            "HEALTH": f"127.0.0.1:{health}", "GREENLANE_HEALTH_AFTER_S": str(AFTER_S), "PYTHONPATH": str(HERE),
            "UPSTREAM": f"http://127.0.0.1:{silent.getsockname()[1]}/",
        }  # fmt: skip
        started, folder = command(case.server, port), None
        if case.quota:
            folder = held.enter_context(cgroup())
            started = ["sh", "-c", f'echo $$ > {folder}/cgroup.procs; exec "$@"', "sh", *started]
        start_process(started, env={**os.environ, **environment}, cwd=HERE, port=port)
        ask_until(health, "/ready", lambda status, reason: (status, reason) == (200, "fine"))
        if folder is not None:
            (folder / "cpu.cfs_quota_us").write_text(str(int(case.quota * 100_000)))
        for _ in range(case.requests):
            client = held.enter_context(socket.create_connection(("127.0.0.1", port)))
            client.sendall(f"GET {case.route} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
        yield health, port


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.parametrize("name", MARKED)
def test_the_trouble_is_named(name: str, free_ports: Callable[[], int], start_process: Any) -> None:
    case = CASES[name]
    with in_trouble(case, free_ports, start_process) as (health, _):
        ask_until(health, "/ready", lambda status, reason: status == 503 and bool(re.search(case.reason, reason)))


@pytest.mark.measured
@pytest.mark.soak
@pytest.mark.parametrize("name", CASES)
def test_it_answers_in_time_meanwhile(
    name: str, free_ports: Callable[[], int], start_process: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    case = CASES[name]
    with in_trouble(case, free_ports, start_process) as (health, port):
        reason = ask_until(health, "/ready", lambda status, _: status == 503)
        ours, stock = took_ms(health, "/ready", 200), took_ms(port, "/health", 1)
    p50, p99 = statistics.median(ours), sorted(ours)[int(len(ours) * 0.99) - 1]
    with capsys.disabled():
        print(f"\n{name:12} p50 {p50:6.1f}  p99 {p99:6.1f} ms   stock's /health {stock[0]:6.0f} ms   {reason}")
    # Where there is no core, nobody can answer.
    assert p99 <= (50 if not case.quota else 1000)


def took_ms(port: int, path: str, times: int) -> list[float]:
    took = []
    for _ in range(times):
        began = time.monotonic()
        with contextlib.suppress(OSError, ValueError):
            ask(port, path, timeout_s=2)
        took.append((time.monotonic() - began) * 1000)
        time.sleep(0.01 if times > 1 else 0)
    return took
