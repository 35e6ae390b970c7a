"""daphne and granian, which know nothing of Greenlane: each request is a job, by every interface that they have."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest
from tests.hosts.observed import Service, only, seconds_ago

from tests.fixtures import StartProcess

pytestmark = [pytest.mark.system, pytest.mark.slow]

APPS = "interfaces"
HERE = str(Path(__file__).parent)
DAPHNE = ["-m", "daphne", "-b", "127.0.0.1", "-p", "{port}", f"{APPS}:asgi"]
GRANIAN = ["-m", "granian", "--host", "127.0.0.1", "--port", "{port}"]
SERVERS = {
    "daphne": DAPHNE,
    "granian, wsgi": [*GRANIAN, "--interface", "wsgi", f"{APPS}:wsgi"],
    "granian, wsgi, two threads": [*GRANIAN, "--interface", "wsgi", "--blocking-threads", "2", f"{APPS}:wsgi"],
    "granian, wsgi, log": [*GRANIAN, "--interface", "wsgi", "--access-log", f"{APPS}:wsgi"],
    "granian, asgi": [*GRANIAN, "--interface", "asgi", f"{APPS}:asgi"],
    "granian, asgi, log": [*GRANIAN, "--interface", "asgi", "--loop", "asyncio", "--access-log", f"{APPS}:asgi"],
    "granian, asgi, two workers": [*GRANIAN, "--interface", "asgi", "--workers", "2", f"{APPS}:asgi"],
    "granian, rsgi": [*GRANIAN, "--interface", "rsgi", f"{APPS}:rsgi"],
    "granian, rsgi, log": [*GRANIAN, "--interface", "rsgi", "--access-log", f"{APPS}:rsgi"],
}


def start(name: str, start_process: StartProcess, folder: Path, port: int) -> Service:
    pytest.importorskip(name.partition(",")[0])
    argv = [sys.executable, *(word.format(port=port) for word in SERVERS[name])]
    return Service(start_process, folder, port, argv, PYTHONPATH=HERE)


@pytest.mark.parametrize("name", SERVERS)
@pytest.mark.gate
def test_requests_are_jobs(name: str, start_process: StartProcess, tmp_path: Path, free_port: int) -> None:
    service = start(name, start_process, tmp_path, free_port)
    host = name.partition(",")[0]
    for number in range(10):
        assert service.get(f"/plain/{number}").body == b"plain"
    assert service.get("/boom").status == 500
    assert service.get("/stream").body == b"piece piece piece "
    assert service.get("/front", X_Request_Start=seconds_ago(2)).status == 200
    recording = service.stop()
    assert {job.host for job in recording.jobs} == {host}
    assert sorted((job.route, job.status) for job in recording.jobs) == sorted(
        [("GET /plain/*", 200)] * 10 + [("GET /boom", 500), ("GET /stream", 200), ("GET /front", 200)]
    )
    assert only(recording, "GET /stream").latency_ns >= 80_000_000
    front = only(recording, "GET /front")
    assert front.clock == "header" and front.latency_ns >= 2_020_000_000
    clock = "handler" if "wsgi" in name else "kernel"
    assert {job.clock for job in recording.jobs} == {clock, "header"}
    for job in recording.jobs:
        assert job.io_ns["sleep"] >= 18_000_000
        assert job.cpu_ns + sum(job.io_ns.values()) + sum(job.wait_ns.values()) + job.residual_ns == job.latency_ns
    if host == "granian":
        assert len(recording.processes) == (3 if "workers" in name else 2)


@pytest.mark.parametrize("name", ["daphne", "granian, asgi", "granian, rsgi"])
def test_a_websocket_is_no_job(name: str, start_process: StartProcess, tmp_path: Path, free_port: int) -> None:
    service = start(name, start_process, tmp_path, free_port)
    key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    with socket.create_connection(("127.0.0.1", free_port), timeout=20) as client:
        client.sendall(
            f"GET /socket HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n{key}\r\n".encode()
        )
        assert client.recv(65536).startswith(b"HTTP/1.1 101")
    service.get("/plain/1")
    assert [job.route for job in service.stop().jobs] == ["GET /plain/*"]


def test_tasks_that_granian_steps_itself_are_no_jobs(
    start_process: StartProcess, tmp_path: Path, free_port: int
) -> None:
    """Its steps are unseen: a job would be what else runs on the loop, too."""
    argv = [sys.executable, *(word.format(port=free_port) for word in SERVERS["granian, asgi"]), "--task-impl", "rust"]
    service = Service(start_process, tmp_path, free_port, argv, PYTHONPATH=HERE)
    assert service.get("/plain/1").body == b"plain"
    assert service.stop().jobs == []
