"""A client that has closed its sending side: taken as gone, or answered (`half_closed`), queued and running."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.serve.served import Served, until

pytestmark = [pytest.mark.system, pytest.mark.slow]

SETTINGS = "workers = 1\nat_once = 1\nhalf_closed = true\n"


@pytest.mark.parametrize("application", ["held:app", "looped:app"], ids=["wsgi", "asgi"])
def test_a_half_closed_client_is_answered_if_asked_and_else_taken_out_of_the_queue(
    tmp_path: Path, application: str
) -> None:
    with Served(tmp_path, application, SETTINGS) as served, ThreadPoolExecutor() as pool:
        running, queued = two(served, "answered")
        answers = [pool.submit(ended, sock) for sock in (queued, running)]
        assert not any(one.done() for one in answers)
        for name in ("answered-1", "answered-2"):
            (tmp_path / f"{name}.let_go").touch()
        assert [one.result()[:12] for one in answers] == [b"HTTP/1.1 200"] * 2

        served.configure(SETTINGS.replace("true", "false"))
        served.reload()()
        running, queued = two(served, "gone")
        assert ended(queued) == b""
        assert ended(running).startswith(b"HTTP/1.1 400")
        (tmp_path / "gone-1.let_go").touch()
        assert served.get("/x")
        assert "gone-2" not in served.order()


def two(served: Served, name: str) -> tuple[socket.socket, socket.socket]:
    """A client whose request runs, and one whose request is in the queue."""
    socks = []
    for number, queued in ((1, 0), (2, 1)):
        sock = socket.create_connection(("127.0.0.1", served.port), timeout=30)
        sock.sendall(f"GET /long/hold?{name}-{number} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        until(lambda: f"{name}-1" in served.order())
        served.waiting("shared", queued)
        socks.append(sock)
    return socks[0], socks[1]


def ended(sock: socket.socket) -> bytes:
    """Close its sending side; all that comes."""
    received = b""
    sock.shutdown(socket.SHUT_WR)
    with sock:
        while came := sock.recv(65536):
            received += came
    return received
