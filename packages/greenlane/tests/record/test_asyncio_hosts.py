"""Unchanged ASGI and aiohttp servers under `greenlane record`: every request is a job with its route and its times."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.record.command import GREENLANE

from greenlane_tools.reader import Job, Recording, open_recording
from tests.child import Child, free_port

APPS = Path(__file__).with_name("asyncio_apps.py")
MS = 1_000_000

pytestmark = [pytest.mark.system, pytest.mark.slow]

Load = Callable[[int], None]


def uvicorn(app: str, *options: str) -> Callable[[int], list[str]]:
    base = [sys.executable, "-m", "uvicorn", f"asyncio_apps:{app}", "--factory", "--log-level", "critical"]
    return lambda port: [*base, "--port", str(port), *options]


def aiohttp(loop: str) -> Callable[[int], list[str]]:
    return lambda port: [sys.executable, str(APPS), "aiohttp", str(port), loop]


SERVERS: dict[str, Callable[[int], list[str]]] = {
    "uvicorn, h11, asyncio": uvicorn("fastapi_app", "--http", "h11", "--loop", "asyncio"),
    "uvicorn, httptools, uvloop": uvicorn("fastapi_app", "--http", "httptools", "--loop", "uvloop"),
    "aiohttp, asyncio": aiohttp("asyncio"),
    "aiohttp, uvloop": aiohttp("uvloop"),
}
WITH = {
    "gunicorn's uvicorn worker": lambda port: [
        *(sys.executable, "-m", "gunicorn", "asyncio_apps:fastapi_app()", "-b", f"127.0.0.1:{port}"),
        *("-k", "uvicorn.workers.UvicornWorker", "--log-level", "critical"),
    ],
    "hypercorn": lambda port: [
        *(sys.executable, "-m", "hypercorn", "asyncio_apps:fastapi_app()", "-b", f"127.0.0.1:{port}"),
    ],
    "the middleware under a server that is observed": uvicorn("middleware_app"),
    "the middleware under one that is not": lambda port: [sys.executable, str(APPS), "wrapped", str(port)],
}


@pytest.fixture
def record(tmp_path: Path) -> Callable[[list[str], int, Load], Recording]:
    def run(command: list[str], port: int, load: Load) -> Recording:
        file = tmp_path / "r.glr"
        root = os.environ.get("PYTHONPATH", "")
        env = {"PYTHONPATH": os.pathsep.join(filter(None, [str(APPS.parent), root]))}
        with Child([*GREENLANE, "record", "-o", str(file), "--", *command], env=env, cwd=tmp_path) as child:
            child.wait_port(port)
            load(port)
            os.kill(child.pid, signal.SIGTERM)
            child.wait_output("recorded")
        return open_recording(file)

    return run


def get(port: int, *paths: str) -> list[int]:
    """Requests behind each other on one connection; gives the statuses."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    statuses = []
    for path in paths:
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        statuses.append(answer.status)
    connection.close()
    return statuses


def by_route(recording: Recording) -> dict[str, list[Job]]:
    found: dict[str, list[Job]] = {}
    for job in recording.jobs:
        parts = job.cpu_ns + sum(job.io_ns.values()) + sum(job.wait_ns.values()) + job.residual_ns
        assert parts == job.latency_ns
        found.setdefault(job.route, []).append(job)
    return found


@pytest.mark.parametrize("server", SERVERS)
def test_requests_are_jobs_with_their_route(server: str, record) -> None:
    port = free_port()

    def load(port: int) -> None:
        assert get(port, "/items/1", "/items/2", "/sync/3", "/report", "/sub/hello/you") == [200] * 5
        assert get(port, "/fails") == [500]
        assert get(port, "/nowhere/7") == [404]

    found = by_route(record(SERVERS[server](port), port, load))
    assert {route: [job.status for job in jobs] for route, jobs in found.items()} == {
        "GET /items/{item}": [200, 200],
        "GET /sync/{item}": [200],
        "GET /report": [200],
        "GET /sub/hello/{name}": [200],
        "GET /fails": [500],
        "GET (no route)": [404],
    }
    slept = [job.io_ns["sleep"] for job in found["GET /items/{item}"]]
    # uvloop's timers begin with its turn: what the turn has waited for a core since then, its sleep is shorter by.
    assert 18 * MS < max(slept) < 21 * MS, slept
    for job in found["GET /items/{item}"]:
        assert job.clock == "kernel"
        assert job.host == server.partition(",")[0]
    assert found["GET /sync/{item}"][0].cpu_ns > 4.5 * MS, "what ran on a thread is the job's"
    assert found["GET /report"][0].cpu_ns > 58 * MS


@pytest.mark.parametrize("server", SERVERS)
def test_who_waits_is_told_for_whom(server: str, record) -> None:
    """A request arrives while another one computes: its wait is seen from its bytes on, and blamed."""
    port = free_port()

    def load(port: int) -> None:
        get(port, "/items/1")
        with ThreadPoolExecutor(4) as pool:
            others = []
            for _ in range(6):
                hog = pool.submit(get, port, "/report")
                time.sleep(0.02)
                others += [pool.submit(get, port, "/items/1"), hog]
                hog.result()
            assert all(other.result() == [200] for other in others)

    recording = record(SERVERS[server](port), port, load)
    waits = [row for row in recording.blame if row.victim == "GET /items/{item}"]
    assert sum(row.ns for row in waits) > 6 * 20 * MS, "the wait in the socket counts"
    right = sum(row.ns for row in waits if row.culprit in ("GET /report", "os"))
    assert right >= 0.9 * sum(row.ns for row in waits)
    assert sum(row.ns for row in waits if row.culprit == "GET /report") > 6 * 15 * MS


@pytest.mark.parametrize("server", SERVERS)
def test_work_after_the_answer_is_not_part_of_it_but_blamed(server: str, record) -> None:
    port = free_port()

    def load(port: int) -> None:
        get(port, "/items/1")
        for _ in range(4):
            assert get(port, "/later") == [200]
            get(port, "/items/1")

    recording = record(SERVERS[server](port), port, load)
    found = by_route(recording)
    assert all(job.cpu_ns < 30 * MS for job in found["GET /later"])
    waits = [row for row in recording.blame if row.victim == "GET /items/{item}" and row.culprit == "GET /later"]
    assert sum(row.ns for row in waits) > 100 * MS


@pytest.mark.parametrize("server", list(SERVERS)[:2])
def test_requests_queued_on_one_connection_arrive_when_their_bytes_do(server: str, record) -> None:
    port = free_port()

    def load(port: int) -> None:
        with socket.create_connection(("127.0.0.1", port)) as near:
            request = b"GET /items/1 HTTP/1.1\r\nhost: here\r\n\r\n"
            near.sendall(request * 3)
            got = b""
            while got.count(b"HTTP/1.1 200") < 3 or not got.endswith(b"1"):
                got += near.recv(4096)

    jobs = by_route(record(SERVERS[server](port), port, load))["GET /items/{item}"]
    assert len(jobs) == 3
    assert max(job.arrival_ns for job in jobs) - min(job.arrival_ns for job in jobs) < MS
    later = sorted(job.latency_ns for job in jobs)
    assert later[1] > 38 * MS and later[2] > 57 * MS


@pytest.mark.parametrize("name", WITH)
def test_other_ways_to_serve(name: str, record) -> None:
    port = free_port()
    found = by_route(record(WITH[name](port), port, lambda port: get(port, "/items/1", "/v1/things/7", "/report")))
    assert {route: len(jobs) for route, jobs in found.items()} == {
        "GET /items/{item}": 1,
        "GET /v1/things/{thing}": 1,
        "GET /report": 1,
    }
    assert 18 * MS < found["GET /items/{item}"][0].io_ns["sleep"] < 21 * MS


@pytest.mark.parametrize(
    ("framework", "route"),
    [
        ("litestar", "GET /items/{item}"),
        ("quart", "GET /items/<int:item>"),
        ("django", "GET /items/<int:item>"),
        ("falcon", "GET /items/{item}"),
    ],
)
def test_frameworks_name_their_routes(framework: str, route: str, record) -> None:
    port = free_port()
    command = uvicorn(f"{framework}_app")(port)
    found = by_route(record(command, port, lambda port: get(port, "/items/1", "/items/2")))
    assert {route: [job.status for job in jobs] for route, jobs in found.items()} == {route: [200, 200]}
