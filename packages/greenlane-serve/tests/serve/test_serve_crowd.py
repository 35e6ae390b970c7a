"""Connections that say nothing, or nothing more, or nothing that can be served, keep nobody out."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from tests.serve.served import APPS, COMMAND, Served

from tests import child

pytestmark = [pytest.mark.system, pytest.mark.slow]

# Of the front's process: 100 connections in all.
DESCRIPTORS = 400
CROWD = 150
SETTINGS = """
workers = 1
at_once = 4
head_timeout_s = 60

[lanes.gated]
match = ["/gated*"]
at_once = 1
"""
REQUEST = b"GET /gated HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.fixture(params=["held:app", "looped:app"], ids=["wsgi", "asgi"])
def crowded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("crowded")
    with Served(folder, request.param, SETTINGS, descriptors=DESCRIPTORS) as served:
        yield served


def test_clients_that_keep_their_connections_leave_room_for_others(crowded: Served) -> None:
    with contextlib.ExitStack() as kept:
        for _ in range(CROWD):
            sock = kept.enter_context(socket.create_connection(("127.0.0.1", crowded.port), timeout=5))
            sock.sendall(REQUEST)
            assert sock.recv(65536).startswith(b"HTTP/1.1 200")


def test_clients_that_say_nothing_stop_no_request_that_was_let_in(crowded: Served) -> None:
    """What the front sends to itself needs connections too."""
    with contextlib.ExitStack() as silent:
        first = silent.enter_context(socket.create_connection(("127.0.0.1", crowded.port), timeout=5))
        for _ in range(CROWD):
            silent.enter_context(socket.create_connection(("127.0.0.1", crowded.port), timeout=5))
        time.sleep(0.5)  # until the front has taken all that it takes
        first.sendall(REQUEST)
        assert first.recv(65536).startswith(b"HTTP/1.1 200")


@pytest.fixture(scope="module", params=["held:app", "looped:app"], ids=["wsgi", "asgi"])
def narrow(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("narrow"), request.param, "workers = 1\nat_once = 1\n") as served:
        yield served


HOPELESS = {
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "ssh": b"SSH-2.0-OpenSSH_9.2\r\n",
    "one word": b"GARBAGE\r\n",
    "nothing": b"\0\0\0\0",
    "no method": b"@@@@[ / HTTP/1.1\r\n",
}


@pytest.mark.parametrize("line", HOPELESS.values(), ids=HOPELESS)
def test_a_hopeless_first_line_is_refused_at_once(narrow: Served, line: bytes) -> None:
    with socket.create_connection(("127.0.0.1", narrow.port), timeout=2) as sock:
        sock.sendall(line)
        received = b""
        with contextlib.suppress(ConnectionResetError):
            while came := sock.recv(65536):
                received += came
    assert received == b"" or received.split(b" ")[1] in (b"400", b"505")


def test_a_lifespan_that_fails_at_the_first_start_ends_the_service_with_1() -> None:
    bind = f"127.0.0.1:{child.free_port()}"
    command = [sys.executable, "-c", COMMAND, "serve", "fails:app", "--workers", "2", "--bind", bind]
    done = subprocess.run(command, cwd=APPS, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1, done.stderr
    assert "no database" in done.stderr
