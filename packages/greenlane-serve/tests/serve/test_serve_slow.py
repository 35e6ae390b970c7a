"""Clients that send slowly: bounded at line, head and body, and none holds a worker meanwhile."""

from __future__ import annotations

import contextlib
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.serve.served import Served, until
from tests.serve.wire import bystander, records, talk

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
