"""Clients that send slowly: bounded at line, head and body, and none holds a worker meanwhile."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.serve.served import APPS, COMMAND, Served, until
from tests.serve.wire import KINDS, bystander, records, talk

from tests import child

pytestmark = [pytest.mark.system, pytest.mark.slow]

# More clients than the workers have places.
CLIENTS = 12
HEAD = b"POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n"


def test_a_client_that_trickles_is_ended_and_no_worker_sees_it(wired: Served) -> None:
    """Every pause is shorter than any time-out; only the whole is too long. Request line, headers, body."""
    before = len(records(wired))
    trickles = [
        (b"", b"GET / HTTP/1.1 and so on for ever"),
        (b"GET / HTTP/1.1\r\n", b"X-A: a\r\n" * 40),
        (HEAD % 400, b"a" * 300),
    ]
    with ThreadPoolExecutor() as pool:
        talks = [
            pool.submit(talk, wired.port, *([start] if start else []), *(bytes([one]) for one in rest), pause_s=0.1)
            for start, rest in trickles
        ]
    assert [b" 408 " in one.result().split(b"\r\n")[0] for one in talks] == [True] * 3
    assert len(records(wired)) == before


def test_half_bodies_hold_no_place(wired: Served) -> None:
    with contextlib.ExitStack() as stack:
        socks = [
            stack.enter_context(socket.create_connection(("127.0.0.1", wired.port), timeout=30)) for _ in range(CLIENTS)
        ]
        for sock in socks:
            sock.sendall(HEAD % 1000 + b"half")
        for number in range(5):
            bystander(wired, f"/meanwhile?{number}")
        assert [b" 408 " in sock.recv(65536) for sock in socks] == [True] * CLIENTS


@pytest.mark.parametrize("pause_s", [0.05, 5.0], ids=["trickles", "stops"])
def test_a_long_body_that_goes_on_slowly_is_ended_by_its_worker(wired: Served, pause_s: float) -> None:
    """It began fast enough to get a place."""
    before = len(records(wired))
    pieces = [HEAD % 90_000 + b"a" * 40_000, *(b"a" for _ in range(600))]
    talk(wired.port, *pieces, pause_s=pause_s)
    until(lambda: len(records(wired)) > before or not wired.workers())
    assert [one["whole"] for one in records(wired)[before:]] == [False]
    bystander(wired, "/after")


def test_a_body_over_the_limit_is_refused_also_without_a_length(wired: Served) -> None:
    chunks = b"".join(b"4000\r\n" + b"a" * 0x4000 + b"\r\n" for _ in range(8))
    head = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    received = talk(wired.port, head + chunks + b"0\r\n\r\n")
    assert b" 413 " in received.split(b"\r\n")[0]
    bystander(wired, "/after")


# --- Clients that read slowly: each pause is shorter than every time-out, and still they hold a place for a time
# only.


connection = pytest.importorskip("h2.connection", reason="pip install h2")
settings = pytest.importorskip("h2.settings")


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


# --- Requests that only wait keep no place that others need, whatever the requests before them did.


# Of one worker: more than the model gives to requests that compute, and more than half of the threads.
WAITING = 40


def number(served: Served) -> int:
    return max(row.at_once for row in served.runtime.rows("shared") if row.server != "BACKEND")


def compute_until(served: Served, most: int) -> None:
    """Four clients that let a worker compute, until it gets this many at once."""
    over = threading.Event()

    def run() -> None:
        while not over.is_set():
            served.get("/burn")

    clients = [threading.Thread(target=run) for _ in range(4)]
    for client in clients:
        client.start()
    try:
        until(lambda: number(served) <= most)
    finally:
        over.set()
        for client in clients:
            client.join()


@pytest.mark.parametrize("application", ["held:app", "looped:app"], ids=["wsgi", "asgi"])
@pytest.mark.parametrize("computes_first", [False, True], ids=["from the start", "after computing"])
def test_another_request_is_answered_while_many_wait(tmp_path: Path, application: str, computes_first: bool) -> None:
    with Served(tmp_path, application, "workers = 1\n") as served:
        if computes_first:
            compute_until(served, 2)
        else:
            assert number(served) == 64
        held = [served.hold("/x") for _ in range(WAITING)]
        for one in held:
            one.begun()
        assert served.get("/health")
        assert all(one.waits for one in held), "they still wait"
        served.finish()


# --- Connections that say nothing, or nothing more, or nothing that can be served, keep nobody out.


# Of the front's process: 100 connections in all.
DESCRIPTORS = 400
CROWD = 150
CROWD_SETTINGS = """
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
    with Served(folder, request.param, CROWD_SETTINGS, descriptors=DESCRIPTORS) as served:
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
