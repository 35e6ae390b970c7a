"""Clients that read slowly: each pause is shorter than every time-out, and still they hold a place for a time only."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.serve.served import Served, until
from tests.serve.wire import KINDS

connection = pytest.importorskip("h2.connection", reason="pip install h2")
settings = pytest.importorskip("h2.settings")

pytestmark = [pytest.mark.system, pytest.mark.slow]

SETTINGS = """
workers = 1
at_once = 4
http2 = true
body_timeout_s = 0.6
body_bytes_per_s = 100_000
"""
PAUSE_S = 0.05
# Bytes that are read in this time.
SLOW, FAST = 750, 20_000
UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


@pytest.fixture(params=KINDS)
def large(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    kind = request.param
    with Served(tmp_path, f"large:{kind}", SETTINGS, "--kind", kind) as served:
        yield served


def test_a_client_that_trickles_is_ended_and_who_waits_for_the_server_is_not(large: Served) -> None:
    """What the slow ones take, one after the other, is the time that the others get through."""
    file = large.folder / "ended"
    with contextlib.ExitStack() as stack:
        silent = stack.enter_context(contextlib.closing(large.connection()))
        silent.request("GET", "/silent")
        answer = silent.getresponse()
        assert answer.read(6) == b"first "
        idle = stack.enter_context(socket.create_connection(("127.0.0.1", large.port), timeout=30))
        if large.application.endswith("asgi"):
            idle.sendall(UPGRADE)
            assert b" 101 " in idle.recv(65536)
        stack.enter_context(reading(large, over_http2, FAST))
        for number, client in enumerate((over_http2, over_http1, over_http2)):
            with reading(large, client, SLOW):
                until(lambda: places(large) == 3)
                until(lambda: places(large) == 2)
                until(lambda ended=number + 1: len(file.read_text() if file.exists() else "") == ended)
        (large.folder / "go_on").touch()
        assert answer.read() == b"last"
        until(lambda: places(large) == 1)
        if large.application.endswith("asgi"):
            idle.sendall(b"\x81\x84\0\0\0\0you?")
            assert idle.recv(65536) == b"\x81\x04last"
    assert large.process.output.count("because their clients read less than 100000 bytes/s: 1") == 3
    assert large.get("/") == "first last"


def places(served: Served) -> int:
    """Requests that workers have."""
    return sum(row.current for row in served.runtime.rows("shared") if row.server != "BACKEND")


@contextlib.contextmanager
def reading(served: Served, client: Callable[[socket.socket, int, threading.Event], None], size: int) -> Iterator[None]:
    """A client that reads `size` bytes of a large answer at a time, in a thread."""
    over = threading.Event()
    with socket.socket() as sock:
        if client is over_http1:
            # As on a slow network: the kernel buffers little, and tells the front of little that was read.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 88)
        sock.settimeout(30)
        sock.connect(("127.0.0.1", served.port))
        thread = threading.Thread(target=client, args=(sock, size, over))
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join(30)


def over_http1(sock: socket.socket, size: int, over: threading.Event) -> None:
    sock.sendall(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
    with contextlib.suppress(ConnectionError):
        while not over.wait(PAUSE_S) and sock.recv(size):
            pass


def over_http2(sock: socket.socket, size: int, over: threading.Event) -> None:
    """A window of `size` bytes, opened again and again."""
    client = connection.H2Connection()
    client.local_settings = settings.Settings(initial_values={settings.SettingCodes.INITIAL_WINDOW_SIZE: size})
    client.initiate_connection()
    head = [(":method", "GET"), (":path", "/large"), (":scheme", "http"), (":authority", "a")]
    client.send_headers(1, head, end_stream=True)
    sock.sendall(client.data_to_send())
    client.increment_flow_control_window(size)
    client.increment_flow_control_window(size, stream_id=1)
    more = client.data_to_send()
    sock.settimeout(PAUSE_S)
    next_s = time.monotonic()
    while not over.is_set():
        with contextlib.suppress(TimeoutError):
            if not sock.recv(65536):
                return
        if time.monotonic() >= next_s:
            next_s += PAUSE_S
            with contextlib.suppress(ConnectionError):
                sock.sendall(more)
