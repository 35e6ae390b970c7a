"""Troubles of a service, made on purpose under real servers, and how its health answers meanwhile.

PYTHONPATH=.:packages/greenlane python -m tests.health.made    # prints docs/production.md's table
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import child

HERE = Path(__file__).parent
AFTER_S = 0.5
NINE = ("loop", "limiter", "executor", "connections", "quota", "collector", "hog", "upstream", "stream")
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


class Unable(Exception):
    """This trouble cannot be made on this machine."""


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
        raise Unable("cgroups (v1) cannot be made here") from None
    try:
        yield folder
    finally:
        for task in (folder / "cgroup.procs").read_text().split():
            (CPU / "cgroup.procs").write_text(task)
        folder.rmdir()


@contextlib.contextmanager
def in_trouble(case: Case) -> Iterator[tuple[int, int]]:
    """(port of its health, port of the service): a server with these requests in progress."""
    port, health = child.free_port(), child.free_port()
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
        held.enter_context(child.Child(started, env=environment, cwd=HERE)).wait_port(port)
        ask_until(health, "/ready", lambda status, reason: (status, reason) == (200, "fine"))
        if folder is not None:
            (folder / "cpu.cfs_quota_us").write_text(str(int(case.quota * 100_000)))
        for _ in range(case.requests):
            client = held.enter_context(socket.create_connection(("127.0.0.1", port)))
            client.sendall(f"GET {case.route} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
        yield health, port


@dataclass(frozen=True)
class Answers:
    """What a probe got, ms from when it was due."""

    took_ms: list[float]
    #: Good answers of them.
    good: int

    def at(self, frac: float) -> float:
        return sorted(self.took_ms)[int(frac * (len(self.took_ms) - 1))]


def probe(port: int, path: str, times: int, every_s: float) -> Answers:
    """Ask so often, whether the last answer is there or not; none within 2 s is none.

    The asking threads run before all that compute: what is measured is the answer's time, not the client's.
    """
    took, good = [0.0] * times, [False] * times
    began = time.monotonic()

    def one(number: int) -> None:
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        due = began + number * every_s
        time.sleep(max(0.0, due - time.monotonic()))
        with contextlib.suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
            with contextlib.closing(connection):
                connection.request("GET", path)
                answer = connection.getresponse()
                answer.read()
                good[number] = answer.status == 200
        took[number] = (time.monotonic() - due) * 1000

    with ThreadPoolExecutor(32) as threads:
        list(threads.map(one, range(times)))
    return Answers(took, sum(good))


def measure(name: str) -> tuple[str, Answers, Answers]:
    """(the reason, answers of `greenlane.health`, answers of the service's own /health), once it is in trouble."""
    with in_trouble(CASES[name]) as (health, port):
        reason = ask_until(health, "/ready", lambda status, _: status == 503)
        ours = probe(health, "/ready", 300, 0.02)
        return reason, ours, probe(port, "/health", 20, 0.25)


def main() -> None:
    """Print the table."""
    print("| trouble | reason | p50 / p99 / worst, ms | the service's own `/health` |\n|---|---|---|---|")
    for name in sys.argv[1:] or NINE:
        reason, ours, stock = measure(name)
        times = " / ".join(f"{ours.at(frac):.0f}" for frac in (0.5, 0.99, 1))
        own = f"200 in {stock.at(0.99):.0f} ms" if stock.good == len(stock.took_ms) else f"{stock.good} of 20 answered"
        print(f"| {name} | `{reason}` | {times} | {own} |", flush=True)


if __name__ == "__main__":
    main()
